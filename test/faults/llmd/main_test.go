package llmd

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// parallel is one run at a time: a cluster has one Llmd.
const parallel = "1"

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

// charts is a directory with two versions of the fixture's chart.
func charts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, version := range []string{"1.0.0", "1.1.0"} {
		if err := os.WriteFile(filepath.Join(dir, fixture.Name+"-"+version+".tgz"), fixture.Archive(t, version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
