package cli

import (
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/cli/stack"
)

func newStack(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "stack",
		Short: "Install what a cluster needs before models can be served, in its order",
	}
	command.AddCommand(newStackApply(streams), newStackStatus(streams), newStackRollback(streams), newStackDelete(streams), newStackPreset(streams))
	return command
}

// platformClient connects to the cluster with the kinds of stacks known.
func (c *connection) platformClient() (*rest.Config, client.WithWatch, error) {
	config, _, err := c.open()
	if err != nil {
		return nil, nil, err
	}
	// Without a logger, controller-runtime complains after half a minute.
	log.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), platformv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, nil, err
	}
	kube, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	return config, kube, explainConnection(config, err)
}

// registerCluster adds the flags of a command that works on the whole cluster.
func (c *connection) registerCluster(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "path of the kubeconfig (default: $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&c.context, "context", "", "context of the kubeconfig (default: its current one)")
}

func newStackStatus(streams Streams) *cobra.Command {
	connect := &connection{}
	output := ""
	command := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the components of stacks, what they wait for, and which APIs are served",
		Long: "Show a line for each component of a PlatformStack, or of all, with its version, its\n" +
			"phase and what it waits for; then which versions of InferencePool the cluster\n" +
			"serves, and which version of Istio it has. It only reads.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output, "yaml", "json"); err != nil {
				return err
			}
			config, kube, err := connect.platformClient()
			if err != nil {
				return err
			}
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			status, err := stack.Ask(cmd.Context(), kube, name)
			if err != nil {
				return explainConnection(config, err)
			}
			if output != "" {
				return printAs(streams.Out, output, status)
			}
			return stack.Print(streams.Out, status)
		},
	}
	connect.registerCluster(command)
	command.Flags().StringVarP(&output, "output", "o", "", "yaml or json")
	return command
}

func newStackPreset(streams Streams) *cobra.Command {
	flavor := ""
	sample := false
	command := &cobra.Command{
		Use:   "preset [NAME]",
		Short: "List the presets of stacks, or write one as YAML",
		Long: "List the presets of stacks with their flavors, or write one as YAML, to be changed\n" +
			"and applied with slipway stack apply -f. With --sample it writes what can be deployed\n" +
			"on it. It asks no cluster.",
		Example: "  slipway stack preset xks --flavor aks > stack.yaml\n  slipway stack preset xks --sample | kubectl apply -n default -f -",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, name := range stack.Presets() {
					fmt.Fprintln(streams.Out, name)
					for _, flavor := range stack.Flavors(name) {
						fmt.Fprintf(streams.Out, "%s --flavor %s\n", name, flavor)
					}
				}
				return nil
			}
			if sample {
				text, err := stack.Sample(args[0])
				if err == nil {
					_, err = streams.Out.Write(text)
				}
				return err
			}
			made, err := stack.Preset(args[0], flavor)
			if err != nil {
				return err
			}
			text, err := stack.Text(made)
			if err == nil {
				_, err = streams.Out.Write(text)
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&flavor, "flavor", "", "flavor of the preset, such as aks")
	flags.BoolVar(&sample, "sample", false, "write what can be deployed on the preset")
	return command
}
