package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/cli/stack"
	engine "github.com/slipway-dev/slipway/internal/reconcile/stack"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/registry/auth"
)

// stackTarget is a stack, and who works on it.
type stackTarget struct {
	connection
	// operator and local say who works on stacks; without either it is the operator
	// where there is one.
	operator, local bool
	authFile        string
	timeout         time.Duration
}

func (t *stackTarget) register(command *cobra.Command) {
	t.registerCluster(command)
	flags := command.Flags()
	flags.BoolVar(&t.operator, "operator", false, "leave the work to the operator")
	flags.BoolVar(&t.local, "local", false, "do the work from here, with your own rights")
	flags.StringVar(&t.authFile, "auth-file", "", "file of credentials for registries (default: those of podman and docker)")
	flags.DurationVar(&t.timeout, "timeout", 30*time.Minute, "how long to work or to wait; the same command goes on where it was")
	command.MarkFlagsMutuallyExclusive("operator", "local")
}

// credentials are the user's own.
func (t *stackTarget) credentials() auth.Finder {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	return auth.Finder{File: t.authFile, Getenv: os.Getenv, Home: home}
}

// engine works on stacks with the user's own rights.
func (t *stackTarget) engine(config *rest.Config, kube client.Client) *engine.Engine {
	return engine.New(engine.Options{
		Config: config, Client: kube, Charts: registry.New(registry.Options{Now: time.Now}),
		Credentials: t.credentials().Find, OwnRights: true, Now: time.Now,
	})
}

// run is a run of the operator's, or one from here.
func (t *stackTarget) run(ctx context.Context, config *rest.Config, kube client.Client, out io.Writer) (*stack.Run, error) {
	made := &stack.Run{Client: kube, Report: func(line string) { fmt.Fprintln(out, line) }}
	there, err := stack.HasOperator(ctx, kube, time.Now())
	switch {
	case err != nil && !t.local && !t.operator:
		return nil, fmt.Errorf("it can't be told whether an operator runs: %w; say who does the work, with --local or --operator", err)
	case t.operator || there && !t.local:
		made.Report("the operator in the cluster does the work; --local does it from here, with the files of this machine")
		made.Step = stack.Watched
		return made, nil
	case there:
		made.Report("the work is done from here, but the operator in the cluster looks after the stack, too")
	default:
		made.Report("the work is done from here, with your own rights")
	}
	worker := t.engine(config, kube)
	made.Step = func(ctx context.Context, wanted *platformv1alpha1.PlatformStack) (time.Duration, error) {
		result, err := worker.Run(ctx, wanted)
		if err == nil {
			reportLeft(made.Report, result.Left)
		}
		return result.Again, err
	}
	return made, nil
}

// reportLeft names the releases that a deleted stack leaves behind.
func reportLeft(report func(line string), left []platformv1alpha1.StackRelease) {
	for _, each := range left {
		report(fmt.Sprintf("release %s in namespace %s couldn't be uninstalled in %s and is left; remove it with helm uninstall",
			each.Name, each.Namespace, engine.TeardownDeadline))
	}
}

// plan shows what applying a stack would do.
func (t *stackTarget) plan(ctx context.Context, out io.Writer, config *rest.Config, kube client.Client, wanted *platformv1alpha1.PlatformStack, output string) error {
	plan, err := stack.Plan(ctx, kube, t.engine(config, kube), wanted)
	if err != nil {
		return err
	}
	if output != "" {
		err = printAs(out, output, plan)
	} else {
		err = stack.PrintPlan(out, plan)
	}
	if faults := stack.Faults(plan); err == nil && len(faults) > 0 {
		return fmt.Errorf("it can't be done as it is: %s", strings.Join(faults, "; "))
	}
	return err
}

// stackChoice says which stack is meant.
type stackChoice struct {
	file, preset, flavor string
}

func (c *stackChoice) read(stdin io.Reader) (*platformv1alpha1.PlatformStack, error) {
	switch {
	case (c.file == "") == (c.preset == ""):
		return nil, errors.New("say which stack: a file with -f, or a preset with --preset (slipway stack preset lists them)")
	case c.preset != "":
		return stack.Preset(c.preset, c.flavor)
	case c.flavor != "":
		return nil, errors.New("--flavor is for --preset; leave it out with -f")
	case c.file == "-":
		return named(c.file)(stack.Read(stdin))
	}
	file, err := os.Open(c.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return named(c.file)(stack.Read(file))
}

// named puts a file's name before an error about it.
func named(file string) func(*platformv1alpha1.PlatformStack, error) (*platformv1alpha1.PlatformStack, error) {
	return func(read *platformv1alpha1.PlatformStack, err error) (*platformv1alpha1.PlatformStack, error) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return read, nil
	}
}

// checkPlanOutput refuses a format where nothing is written in it.
func checkPlanOutput(output string, dryRun bool) error {
	if output != "" && !dryRun {
		return errors.New("--output is for --dry-run; leave it out, or ask slipway stack status")
	}
	return checkOutput(output, "yaml", "json")
}

func newStackApply(streams Streams) *cobra.Command {
	var target stackTarget
	var choice stackChoice
	var approve, login []string
	force, dryRun := false, false
	output := ""
	command := &cobra.Command{
		Use:   "apply (-f FILE | --preset NAME)",
		Short: "Install the components of a stack in their order, or bring them up to date",
		Long: "Write a PlatformStack to the cluster and work on it until every component is ready.\n" +
			"Where an operator runs that looks after stacks, it does the work, and its progress is\n" +
			"shown; elsewhere it is done from here, with your own rights. The definition of\n" +
			"PlatformStacks is made where it is missing. Ctrl-C ends it at any point, and the\n" +
			"same command goes on.",
		Example: "  slipway stack apply --preset xks --flavor aks --dry-run\n" +
			"  slipway stack apply --preset xks --flavor aks --login registry.redhat.io\n" +
			"  slipway stack apply -f stack.yaml --approve sail-operator",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkPlanOutput(output, dryRun); err != nil {
				return err
			}
			wanted, err := choice.read(streams.In)
			if err != nil {
				return err
			}
			config, kube, err := target.platformClient()
			if err != nil {
				return err
			}
			explain := func(err error) error { return explainConnection(config, err) }
			ctx, cancel := context.WithTimeout(cmd.Context(), target.timeout)
			defer cancel()
			if dryRun {
				return explain(target.plan(ctx, streams.Out, config, kube, wanted, output))
			}
			logins, err := stack.FindLogins(ctx, wanted, login, target.credentials().Find)
			if err != nil {
				return err
			}
			if made, err := stack.Define(ctx, kube); err != nil {
				return explain(err)
			} else if made {
				fmt.Fprintln(streams.Err, "PlatformStacks are defined in the cluster")
			}
			if err := stack.Login(ctx, kube, wanted, logins); err != nil {
				return explain(err)
			}
			if _, err := stack.Write(ctx, kube, wanted, force); err != nil {
				return explain(err)
			}
			run, err := target.run(ctx, config, kube, streams.Err)
			if err != nil {
				return explain(err)
			}
			run.Approve = approve
			if err := run.UntilReady(ctx, wanted.Name); err != nil {
				return explain(stack.Hint(err, wanted))
			}
			status, err := stack.Ask(ctx, kube, wanted.Name)
			if err != nil {
				return explain(err)
			}
			return stack.Print(streams.Out, status)
		},
	}
	target.register(command)
	flags := command.Flags()
	flags.StringVarP(&choice.file, "filename", "f", "", "file of a PlatformStack, - for standard input")
	flags.StringVar(&choice.preset, "preset", "", "preset to take, such as xks")
	flags.StringVar(&choice.flavor, "flavor", "", "flavor of the preset, such as aks or coreweave")
	flags.StringSliceVar(&approve, "approve", nil, "component whose upgrade goes although it loses something; may be repeated")
	flags.StringSliceVar(&login, "login", nil, "registry whose credentials on this machine go into the stack's first pull secret; may be repeated")
	flags.BoolVar(&dryRun, "dry-run", false, "show what would be done, and write nothing")
	flags.StringVarP(&output, "output", "o", "", "yaml or json, of --dry-run")
	flags.BoolVar(&force, "force-conflicts", false, "take over fields of the PlatformStack that someone else has changed")
	return command
}

// name is that of a stack which is given by it, or in a file.
func (c *stackChoice) name(args []string, stdin io.Reader) (string, error) {
	switch {
	case (len(args) == 0) == (c.file == ""):
		return "", errors.New("say which stack: its name (slipway stack status lists all), or its file with -f")
	case len(args) == 1:
		return args[0], nil
	}
	wanted, err := c.read(stdin)
	if err != nil {
		return "", err
	}
	return wanted.Name, nil
}

func newStackDelete(streams Streams) *cobra.Command {
	var target stackTarget
	var choice stackChoice
	ignoreNotFound := false
	command := &cobra.Command{
		Use:   "delete NAME | -f FILE",
		Short: "Uninstall the components of a stack, in the reverse order",
		Long: "Delete a PlatformStack and uninstall its components, the last ones first. Definitions,\n" +
			"with all objects of their kinds, and namespaces stay; so does what was there from\n" +
			"elsewhere.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := choice.name(args, cmd.InOrStdin())
			if err != nil {
				return err
			}
			config, kube, err := target.platformClient()
			if err != nil {
				return err
			}
			explain := func(err error) error { return explainConnection(config, err) }
			ctx, cancel := context.WithTimeout(cmd.Context(), target.timeout)
			defer cancel()
			leaving := &platformv1alpha1.PlatformStack{}
			leaving.Name = name
			switch err := kube.Delete(ctx, leaving); {
			case stack.IsAbsent(err) && ignoreNotFound:
				fmt.Fprintf(streams.Err, "there is no PlatformStack %s\n", name)
				return nil
			case stack.IsAbsent(err):
				return fmt.Errorf("there is no PlatformStack %s; slipway stack status lists all", name)
			case err != nil:
				return explain(err)
			}
			run, err := target.run(ctx, config, kube, streams.Err)
			if err != nil {
				return explain(err)
			}
			if err := run.UntilGone(ctx, name); err != nil {
				return explain(err)
			}
			fmt.Fprintf(streams.Err, "PlatformStack %s is deleted; definitions and namespaces stay\n", name)
			return nil
		},
	}
	target.register(command)
	command.Flags().StringVarP(&choice.file, "filename", "f", "", "file with the stack, in place of its name; - for standard input")
	command.Flags().BoolVar(&ignoreNotFound, "ignore-not-found", false, "a stack that isn't there is no error")
	return command
}

func newStackRollback(streams Streams) *cobra.Command {
	connect := &connection{}
	var asked stack.Rollback
	command := &cobra.Command{
		Use:   "rollback NAME COMPONENT",
		Short: "Go back to an earlier revision of a component",
		Long: "Repeat an earlier revision of a component's release, the last good one unless\n" +
			"--revision names another. It stays until the spec of the stack changes. Definitions\n" +
			"don't go back: what is stored in their newer form would be lost.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, kube, err := connect.platformClient()
			if err != nil {
				return err
			}
			asked.Stack, asked.Component = args[0], args[1]
			revision, err := stack.Back(cmd.Context(), config, kube, asked)
			if err != nil {
				return explainConnection(config, err)
			}
			fmt.Fprintf(streams.Err, "component %s is as in revision %d (%s %s) again, until the spec of the stack changes\n", asked.Component, revision.Number, revision.Chart, revision.Version)
			return nil
		},
	}
	connect.registerCluster(command)
	flags := command.Flags()
	flags.IntVar(&asked.Revision, "revision", 0, "revision to go back to (default: the last good one)")
	flags.DurationVar(&asked.Timeout, "timeout", 5*time.Minute, "how long hooks of the chart may take")
	return command
}
