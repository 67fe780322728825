package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/cluster"
	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/install"
	"github.com/slipway-dev/slipway/internal/version"
)

func newUp(streams Streams) *cobra.Command {
	spec := cluster.Spec{}
	withOperator, withLLMD := true, true
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a local Kubernetes, or make sure that it runs",
		Long: `Start a local Kubernetes with real pods and the operator in it, and wait until
both are ready. Then add the images that llm-d's manifests name.

Kubernetes is compiled from its published Go modules the first time, which takes
several minutes, and kept in a cache. The cluster has network, mounts and
processes of its own and goes on running until "slipway down". A second "up"
returns at once; after a crash or a restart of the machine it recovers what was
there. Nodes that were stopped with "slipway down --node" are started again.`,
		Example: `  slipway up
  slipway up --name gpus --nodes 2 --gpus 8
  slipway up --name large --simulated-nodes 500`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			explicit := false
			for _, flag := range []string{"nodes", "gpus", "simulated-nodes"} {
				explicit = explicit || cmd.Flags().Changed(flag)
			}
			outcome, err := cluster.Up(cmd.Context(), cluster.UpOptions{Spec: spec, Explicit: explicit, Progress: streams.Err})
			if err != nil {
				return err
			}
			if err := printUp(streams, spec.Name, outcome); err != nil {
				return err
			}
			if withOperator {
				if err := installLocally(cmd.Context(), streams, spec.Name); err != nil {
					return err
				}
			}
			if withLLMD && (withOperator || cmd.Flags().Changed("llm-d")) {
				return provideLLMD(cmd.Context(), streams, spec.Name)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&spec.Name, "name", cluster.DefaultName, "name of the cluster, one of several that may run side by side")
	flags.IntVar(&spec.Nodes, "nodes", 1, "number of real nodes, each with its own kubelet and containerd")
	flags.IntVar(&spec.GPUs, "gpus", 0, "number of nvidia.com/gpu that each node advertises, simulated")
	flags.IntVar(&spec.SimulatedNodes, "simulated-nodes", 0, "number of further nodes on which pods only seem to run (taint kwok.x-k8s.io/node)")
	flags.BoolVar(&withOperator, "operator", true, "install the operator too")
	flags.BoolVar(&withLLMD, "llm-d", true, "compile llm-d's endpoint picker and what goes with it too, and add their images; not the default with --operator=false")
	return cmd
}

// installLocally installs the operator into a local cluster, unless it serves
// there already.
func installLocally(ctx context.Context, streams Streams, name string) error {
	kubeconfig, err := cluster.Kubeconfig(name)
	if err != nil {
		return err
	}
	shown := newSteps(streams.Err)
	defer shown.clear()
	target := connection{kubeconfig: kubeconfig, namespace: install.Namespace}
	installer, explain, err := target.installer(shown)
	if err != nil {
		return err
	}
	if installer.Serves(ctx) {
		return nil
	}
	_, err = installer.Install(ctx, install.Options{Image: version.Image(), Timeout: installTimeout, Wait: true})
	return explain(err)
}

// provideLLMD gives a local cluster the images that llm-d's manifests name, and
// says what is in them.
func provideLLMD(ctx context.Context, streams Streams, name string) error {
	given, err := cluster.ProvideLLMD(ctx, name, component.Options{Progress: streams.Err})
	if err != nil {
		return fmt.Errorf("the cluster runs, but without llm-d's images: %w; slipway up tries again, slipway up --llm-d=false does without", err)
	}
	if !given {
		return nil
	}
	for _, image := range cluster.LLMD() {
		fmt.Fprintf(streams.Err, "the image %s is %s\n", image.Ref, image.Is)
	}
	return nil
}

// installTimeout allows for a machine that is busy with something else.
const installTimeout = 3 * time.Minute

// printUp says what there is now and how to use it.
func printUp(streams Streams, name string, outcome cluster.Outcome) error {
	kubeconfig, err := cluster.Kubeconfig(name)
	if err != nil {
		return err
	}
	flag := ""
	if name != cluster.DefaultName {
		flag = " --name " + name
	}
	fmt.Fprintf(streams.Err, "cluster %s %s\n", name, outcome)
	if outcome == cluster.Started || outcome == cluster.Restarted {
		for _, ref := range cluster.StandIns() {
			fmt.Fprintf(streams.Err, "the image %s is Slipway's simulator here, as a stand-in\n", ref)
		}
	}
	_, err = fmt.Fprintf(streams.Out, "export KUBECONFIG=%s\nslipway kubectl%s get pods --all-namespaces\n", kubeconfig, flag)
	return err
}
