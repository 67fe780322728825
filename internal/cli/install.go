package cli

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slipway-dev/slipway/internal/install"
	"github.com/slipway-dev/slipway/internal/version"
)

func newInstall(streams Streams) *cobra.Command {
	var target connection
	options := install.Options{Image: version.Image(), Timeout: 2 * time.Minute, Wait: true}
	dryRun := false
	command := &cobra.Command{
		Use:   "install",
		Short: "Install the operator into the current cluster, or upgrade it",
		Long: "Install the operator into the current cluster, or bring it to this version: the\n" +
			"namespace, the definitions of the kinds, and the release " + install.Release + " of the chart that\n" +
			"this binary carries. Helm sees the release; helm upgrade and slipway install may\n" +
			"be used in turn.",
		Example: "  slipway install\n" +
			"  slipway install --image registry.example.com/llm-operator:v1 --set imagePullSecrets[0].name=login\n" +
			"  slipway install --dry-run > operator.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := newSteps(streams.Err)
			defer shown.clear()
			installer, explain, err := target.installer(shown)
			if err != nil {
				return err
			}
			if dryRun {
				objects, err := installer.DryRun(cmd.Context(), options)
				if err != nil {
					return explain(err)
				}
				_, err = fmt.Fprint(streams.Out, objects)
				return err
			}
			_, err = installer.Install(cmd.Context(), options)
			return explain(err)
		},
	}
	target.registerWithNamespace(command, install.Namespace)
	flags := command.Flags()
	flags.StringVar(&options.Image, "image", options.Image, "image of the operator")
	flags.StringArrayVar(&options.Set, "set", nil, "a value of the chart, as name=value; may be repeated")
	flags.BoolVar(&options.Wait, "wait", options.Wait, "wait until the operator is ready")
	flags.DurationVar(&options.Timeout, "timeout", options.Timeout, "how long to wait")
	flags.BoolVar(&options.ForceConflicts, "force-conflicts", false, "take over fields that someone else has changed")
	flags.BoolVar(&options.TakeOwnership, "take-ownership", false, "adopt objects of the same names that no release owns")
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be applied, and write nothing")
	return command
}

// registerWithNamespace adds the flags to a command that doesn't work in the
// context's namespace unless told to.
func (c *connection) registerWithNamespace(command *cobra.Command, namespace string) {
	c.register(command)
	flag := command.Flag("namespace")
	flag.Usage = "namespace of the operator"
	flag.DefValue = namespace
	c.namespace = namespace
}

// installer connects to the cluster. The function that it returns puts an error
// of the connection into a sentence that says what to do.
func (c *connection) installer(shown *steps) (*install.Installer, func(error) error, error) {
	config, namespace, err := c.open()
	if err != nil {
		return nil, nil, err
	}
	// Without a logger, controller-runtime complains after half a minute.
	log.SetLogger(logr.Discard())
	explain := func(err error) error { return explainConnection(config, err) }
	report := func(event install.Event) { shown.show(event.Text, event.Final) }
	installer, err := install.New(config, namespace, time.Now, report)
	return installer, explain, err
}
