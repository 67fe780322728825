// Package certificates tests against a real API server how a PlatformStack makes the
// certificates of a bundle's webhooks where cert-manager isn't: the engine runs in the
// test, pass by pass, by a clock that the test turns forward, and dies where the test
// says.
package certificates

import (
	"errors"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
)

var (
	server *rest.Config
	kube   client.WithWatch
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(bed.Run(m, func(config *rest.Config) (err error) {
		server = config
		server.QPS = -1
		kube, err = bed.NewClient(config)
		return errors.Join(err, bed.Define(config))
	}, controlplane.WithNodes(1)))
}
