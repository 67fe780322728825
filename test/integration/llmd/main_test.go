// Package llmd tests Llmd and DataScienceCluster against a real API server.
package llmd

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/test/bed"
)

var (
	config *rest.Config
	kube   client.WithWatch
)

func TestMain(m *testing.M) {
	os.Exit(bed.Run(m, func(given *rest.Config) (err error) {
		config = given
		if kube, err = client.NewWithWatch(config, client.Options{}); err != nil {
			return err
		}
		_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{
			Paths: []string{"../../../config/crd"}, ErrorIfPathMissing: true,
		})
		return err
	}))
}
