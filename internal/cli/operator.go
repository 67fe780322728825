package cli

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/registry"
)

func newOperator(streams Streams) *cobra.Command {
	options := manager.Options{ShutdownGrace: 20 * time.Second, Charts: registry.Options{Now: time.Now}}
	level := "info"
	command := &cobra.Command{
		Use:   "operator",
		Short: "Run the operator against the current cluster",
		Long: "Run the operator against the current cluster: in a pod with the pod's own account,\n" +
			"elsewhere with the current kubeconfig.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var logLevel slog.Level
			if err := logLevel.UnmarshalText([]byte(level)); err != nil {
				return fmt.Errorf("--log-level %q: write debug, info, warn or error", level)
			}
			paceCollector(cmd.Context())
			options.Log = slog.New(slog.NewJSONHandler(streams.Err, &slog.HandlerOptions{Level: logLevel}))
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("no cluster to run against: %w; set KUBECONFIG, or start a local one with slipway up", err)
			}
			return manager.Run(cmd.Context(), config, options)
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&options.Controllers, "controllers", nil,
		"controllers to run (default all): "+strings.Join(controller.Names(), ", "))
	flags.StringVar(&options.MetricsAddress, "metrics-bind-address", ":8080", "address of /metrics; 0 turns it off")
	flags.StringVar(&options.HealthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 turns it off")
	flags.BoolVar(&options.LeaderElection, "leader-elect", false, "let several replicas run, of which one works")
	flags.StringVar(&options.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the leader's Lease (default: the pod's own)")
	flags.IntVar(&options.Concurrency, "concurrency", 16, "resources of one kind reconciled at once")
	flags.StringVar(&options.Charts.Vendored, "charts-dir", "", "directory that slipway charts vendor has filled; its charts are used first, without a network")
	flags.StringVar(&options.Charts.Cache, "charts-cache", "", "directory that keeps fetched charts (default: memory)")
	flags.StringVar(&level, "log-level", level, "debug, info, warn or error")
	return command
}
