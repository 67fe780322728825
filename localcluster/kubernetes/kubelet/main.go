// Command kubelet is the kubelet with one addition: the environment variable
// SLIPWAY_ADVERTISED_CPUS names how many CPUs the node says it has. A laptop can
// so take manifests written for larger machines, as long as their containers
// don't all compute at once; limits still bind, because they are CFS quotas and
// don't depend on the node's capacity. It changes nothing else, and takes its
// settings from a file alone.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // registers the client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // registers the version metric
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
)

// advertisedCPUs names the variable with the node's number of CPUs.
const advertisedCPUs = "SLIPWAY_ADVERTISED_CPUS"

func main() {
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	flags := options.NewKubeletFlags()
	cmd := &cobra.Command{
		Use:          "kubelet",
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			verflag.PrintAndExitIfRequested()
			return run(flags)
		},
	}
	flags.AddFlags(cmd.Flags())
	verflag.AddFlags(cmd.Flags())
	return cmd
}

func run(flags *options.KubeletFlags) error {
	ctx := genericapiserver.SetupSignalContext()
	loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, flags.KubeletConfigFile)
	if err != nil {
		return fmt.Errorf("open the kubelet's settings: %w", err)
	}
	config, err := loader.Load(ctx)
	if err != nil {
		return fmt.Errorf("read the kubelet's settings: %w", err)
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(config.FeatureGates); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	if err := logsapi.ValidateAndApply(&config.Logging, utilfeature.DefaultFeatureGate); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	server := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}
	if err := options.ValidateKubeletServer(server); err != nil {
		return fmt.Errorf("check the kubelet's settings: %w", err)
	}
	deps, err := app.UnsecuredDependencies(ctx, server, utilfeature.DefaultFeatureGate)
	if err != nil {
		return fmt.Errorf("make the kubelet's dependencies: %w", err)
	}
	if deps.CAdvisorInterface, err = newAdvisor(ctx, server); err != nil {
		return err
	}
	utilfeature.DefaultMutableFeatureGate.AddMetrics()
	return app.Run(ctx, server, deps, utilfeature.DefaultFeatureGate)
}

// newAdvisor is the source of the machine's facts, as app.Run would make it
// itself, with the advertised number of CPUs. It is nil, which leaves it to
// app.Run, if no number is set.
func newAdvisor(ctx context.Context, s *options.KubeletServer) (cadvisor.Interface, error) {
	text := os.Getenv(advertisedCPUs)
	if text == "" {
		return nil, nil
	}
	cpus, err := strconv.Atoi(text)
	if err != nil || cpus < 1 {
		return nil, fmt.Errorf("%s=%q is no number of CPUs", advertisedCPUs, text)
	}
	images := cadvisor.NewImageFsInfoProvider(s.ContainerRuntimeEndpoint)
	roots := []string{cm.NodeAllocatableRoot(s.CgroupRoot, s.CgroupsPerQOS, s.CgroupDriver)}
	legacy := cadvisor.UsingLegacyCadvisorStats(s.ContainerRuntimeEndpoint)
	real, err := cadvisor.New(klog.FromContext(ctx), images, s.RootDirectory, roots, legacy, s.LocalStorageCapacityIsolation)
	if err != nil {
		return nil, fmt.Errorf("start cadvisor: %w", err)
	}
	return advisor{Interface: real, cpus: cpus}, nil
}

// advisor answers as cadvisor does, but for the number of CPUs.
type advisor struct {
	cadvisor.Interface
	cpus int
}

// MachineInfo implements cadvisor.Interface.
func (a advisor) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	info, err := a.Interface.MachineInfo()
	if err != nil {
		return nil, err
	}
	info = info.Clone()
	info.NumCores = a.cpus
	return info, nil
}
