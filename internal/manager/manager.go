// Package manager turns the operator's options into a running manager: its
// client and caches, the controllers, health, metrics and leader election. It
// knows no kind; the controllers bring theirs.
package manager

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/version"
)

// Options are the operator's flags.
type Options struct {
	// Controllers to run, by name; empty means all (controller.Names lists them).
	Controllers []string
	// Address of the metrics endpoint, such as ":8080"; "0" turns it off.
	MetricsAddress string
	// Address of /healthz and /readyz, such as ":8081"; "0" turns it off.
	HealthAddress string
	// LeaderElection lets several replicas run of which one works.
	LeaderElection bool
	// Namespace of the leader election's Lease; empty means the pod's own.
	LeaderElectionNamespace string
	// Concurrency is how many resources of a kind are reconciled at once.
	Concurrency int
	// Charts says where Helm charts are kept and where vendored ones are; the zero
	// value keeps what is fetched in memory.
	Charts registry.Options
	// ShutdownGrace is how long a running reconcile may take after a signal.
	ShutdownGrace time.Duration
	Log           *slog.Logger
}

// Run runs the operator against a cluster until the context ends.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	mgr, err := New(config, options)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// New makes a manager with its controllers, not yet started.
func New(config *rest.Config, options Options) (ctrl.Manager, error) {
	log := logr.FromSlogHandler(options.Log.Handler())
	ctrl.SetLogger(log)

	scheme := runtime.NewScheme()
	if err := controller.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "slipway-operator/" + version.Version
	// The API server's priority and fairness is the limit; a second one on this
	// side would only add latency to what it admits.
	config.QPS = -1

	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Logger:                        log,
		Cache:                         controller.CacheOptions(options.Controllers...),
		Metrics:                       server.Options{BindAddress: options.MetricsAddress},
		HealthProbeBindAddress:        options.HealthAddress,
		LeaderElection:                options.LeaderElection,
		LeaderElectionID:              "slipway-operator.slipway.dev",
		LeaderElectionNamespace:       options.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &options.ShutdownGrace,
		Controller:                    controllerConfig(options),
	})
	if err != nil {
		return nil, fmt.Errorf("starting the operator: %w", err)
	}
	if err := controller.Setup(mgr, controller.Options{Controllers: options.Controllers, Charts: options.Charts}); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}

func controllerConfig(options Options) config.Controller {
	return config.Controller{
		MaxConcurrentReconciles: options.Concurrency,
		// Several operators may run in one test process, each with controllers of
		// the same names.
		SkipNameValidation: new(true),
	}
}
