package simulatordeployment

import (
	"flag"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
)

// parallel is how many runs go at once. They mostly wait for pods, so it is more
// than there are processors.
const parallel = "6"

// api is the API server that all runs share; each has a namespace of its own.
var api *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // the faults are meant
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	os.Exit(bed.Run(m, prepare, controlplane.WithNodes(1)))
}

func prepare(config *rest.Config) error {
	api = config
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{"../../../config/crd"}, ErrorIfPathMissing: true,
	})
	return err
}
