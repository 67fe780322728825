// Package controlplane gives a test a real API server, and with it, if asked
// for, the controller manager, the scheduler and simulated nodes. It never
// touches a cluster that it didn't start.
package controlplane

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/cluster"
)

// startDeadline allows for the first start, which compiles Kubernetes.
const startDeadline = 30 * time.Minute

// Option changes what a control plane consists of.
type Option func(*cluster.Options)

// WithControllerManager adds the controller manager.
func WithControllerManager() Option {
	return func(o *cluster.Options) { o.ControllerManager = true }
}

// WithNodes adds the controller manager, the scheduler and n simulated nodes,
// so that Deployments get ready pods.
func WithNodes(n int) Option {
	return func(o *cluster.Options) {
		o.ControllerManager, o.Scheduler, o.SimulatedNodes = true, true, n
	}
}

// WithShape says what each simulated node offers.
func WithShape(shape cluster.Shape) Option {
	return func(o *cluster.Options) { o.Shape = shape }
}

// Start starts a control plane that ends with the test, and returns the
// administrator's access to it.
func Start(t testing.TB, opts ...Option) *rest.Config {
	t.Helper()
	return StartPlane(t, opts...).Config()
}

// StartPlane is Start for a test that stops and starts single components.
func StartPlane(t testing.TB, opts ...Option) *cluster.ControlPlane {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startDeadline)
	defer cancel()
	plane, err := New(ctx, opts...)
	if err != nil {
		t.Fatalf("start a control plane: %v", err)
	}
	t.Cleanup(plane.Stop)
	return plane
}

// New is StartPlane for a TestMain, which has no test; its caller calls Stop.
// A compile shows its progress on standard error.
func New(ctx context.Context, opts ...Option) (*cluster.ControlPlane, error) {
	var options cluster.Options
	options.Component.Progress = os.Stderr
	for _, opt := range opts {
		opt(&options)
	}
	return cluster.StartControlPlane(ctx, options)
}
