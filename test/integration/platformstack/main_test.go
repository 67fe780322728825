// Package platformstack tests PlatformStack against a real API server, with the
// controller running in the test, charts in a directory, bundles and manifests
// that the tests write, and pods on a simulated node.
package platformstack

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/test/bed"
)

var (
	config *rest.Config
	kube   client.WithWatch
)

func TestMain(m *testing.M) {
	os.Exit(bed.Run(m, func(given *rest.Config) (err error) {
		config = given
		if kube, err = bed.NewClient(config); err != nil {
			return err
		}
		return bed.Define(config)
	}))
}
