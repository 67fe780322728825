// Package bundle applies what is extracted from operators' bundles to the real API
// server: it must take every object.
package bundle

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
