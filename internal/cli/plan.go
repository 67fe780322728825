package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/cli/plan"
)

func newPlan(streams Streams) *cobra.Command {
	var files []string
	var output string
	var offline, brief bool
	connect := &connection{}
	command := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what applying manifests would create, change and delete",
		Long: "Show what applying manifests would create, change and delete, down to what the\n" +
			"operator would make of them, as a diff. It asks the cluster by dry runs and\n" +
			"writes nothing; with --offline it asks no cluster and shows all as new.",
		Example: "  slipway plan -f model.yaml -f deployment.yaml\n  kubectl kustomize . | slipway plan -f -",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, "yaml", "json"); err != nil {
				return err
			}
			manifests, err := readManifests(streams.In, files)
			if err != nil {
				return err
			}
			planner, explain, err := newPlanner(connect, offline)
			if err != nil {
				return err
			}
			made, err := planner.Plan(cmd.Context(), manifests)
			if err != nil {
				return explain(err)
			}
			return printPlan(streams.Out, made, output, brief)
		},
	}
	connect.register(command)
	flags := command.Flags()
	flags.StringArrayVarP(&files, "filename", "f", nil, "file of manifests, - for standard input; may be repeated")
	flags.BoolVar(&offline, "offline", false, "ask no cluster, and show all as new")
	flags.BoolVar(&brief, "brief", false, "show which objects change, and not how")
	flags.StringVarP(&output, "output", "o", "", "yaml or json")
	return command
}

// newPlanner connects to the cluster, unless offline, and gives the function
// that explains its errors.
func newPlanner(connect *connection, offline bool) (*plan.Planner, func(error) error, error) {
	asIs := func(err error) error { return err }
	if offline {
		namespace := connect.namespace
		if namespace == "" {
			namespace = "default"
		}
		return &plan.Planner{Namespace: namespace}, asIs, nil
	}
	config, namespace, err := connect.open()
	if err != nil {
		return nil, nil, fmt.Errorf("%w; or see without a cluster with --offline", err)
	}
	explain := func(err error) error { return explainConnection(config, err) }
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return nil, nil, explain(err)
	}
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, explain(err)
	}
	engine := apply.New(apply.Options{Client: direct})
	planner := &plan.Planner{Client: direct, Engine: engine, Namespace: namespace, Schemas: plan.Served(known.RESTClient())}
	return planner, explain, nil
}

// readManifests reads all files, in their order.
func readManifests(stdin io.Reader, files []string) ([]*unstructured.Unstructured, error) {
	if len(files) == 0 {
		return nil, errors.New("there is nothing to plan; name a file with -f, or - for standard input")
	}
	var all []*unstructured.Unstructured
	for _, name := range files {
		found, err := readFile(stdin, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func readFile(stdin io.Reader, name string) ([]*unstructured.Unstructured, error) {
	if name == "-" {
		return plan.Read(stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return plan.Read(file)
}

func printPlan(out io.Writer, made *plan.Plan, output string, brief bool) error {
	var err error
	if output != "" {
		err = printAs(out, output, made)
	} else {
		err = plan.Print(out, made, plan.Style{Colour: hasColour(out), Brief: brief})
	}
	if refused := made.Refused(); err == nil && refused > 0 {
		return fmt.Errorf("the cluster would refuse %d of these objects; the plan says why", refused)
	}
	return err
}
