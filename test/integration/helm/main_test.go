// Package helm tests Helm releases against the real API server and the helm
// command, with simulated nodes that make pods ready.
package helm

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
)

// server is the API server that all tests of this package share; each has a
// namespace of its own.
var server *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // the SDK's discovery tells of every death
	os.Exit(bed.Run(m, func(config *rest.Config) error {
		server = config
		return nil
	}, controlplane.WithNodes(1)))
}
