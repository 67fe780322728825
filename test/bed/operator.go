package bed

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/test/controlplane"
)

// definitions is where a suite three folders deep finds Slipway's own.
const definitions = "../../../config/crd"

// Define installs Slipway's definitions.
func Define(config *rest.Config) error {
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{definitions}, ErrorIfPathMissing: true})
	return err
}

// Operated runs a package's tests as Run does, with a simulated node, Slipway's
// definitions, and its operator, which works in the tests' process and reaches the
// API server through the wire. Of its controllers those named run, all if none is.
func Operated(m *testing.M, wire *Wire, use func(*rest.Config) error, controllers ...string) int {
	return onPlane(func(config *rest.Config) int {
		config.QPS = -1
		err := Define(config)
		if err == nil {
			err = use(config)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "prepare the control plane:", err)
			return 1
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			done <- manager.Run(ctx, wire.Through(config), manager.Options{
				Controllers:    controllers,
				MetricsAddress: "0", HealthAddress: "0", Concurrency: 8, ShutdownGrace: 10 * time.Second,
				Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
			})
		}()
		code := m.Run()
		cancel()
		if err := <-done; err != nil {
			fmt.Fprintln(os.Stderr, "the operator:", err)
			return 1
		}
		return code
	}, controlplane.WithNodes(1))
}
