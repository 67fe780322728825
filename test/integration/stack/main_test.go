// Package stack runs `slipway stack` from a laptop against a real API server with
// simulated nodes, a registry of its own, and the published bundles.
package stack

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
)

var server *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(bed.Run(m, func(config *rest.Config) error {
		server = config
		return nil
	}, controlplane.WithNodes(1)))
}
