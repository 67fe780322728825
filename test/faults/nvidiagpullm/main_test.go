package nvidiagpullm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/internal/cluster"
	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
	"github.com/slipway-dev/slipway/test/ollama/registry"
	"github.com/slipway-dev/slipway/test/ollama/server"
)

// parallel is how many runs go at once. They mostly wait for pods and for models
// that are fetched, so it is more than there are processors.
const parallel = "6"

var (
	// api is the API server that all runs share; each has a namespace of its own.
	api *rest.Config
	// models is the address of the registry that all runs share.
	models string
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // the faults are meant
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	if _, err := server.Program(context.Background()); errors.Is(err, component.ErrNoCompiler) {
		fmt.Println("skipped:", err)
		os.Exit(0)
	} else if err != nil {
		panic(err)
	}
	serving := httptest.NewServer(registry.New(registry.Usual()))
	models = serving.Listener.Addr().String()
	shape := cluster.DefaultShape()
	shape.GPUs = 64
	code := bed.Run(m, prepare, controlplane.WithNodes(1), controlplane.WithShape(shape))
	serving.Close()
	os.Exit(code)
}

func prepare(config *rest.Config) error {
	api = config
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{"../../../config/crd"}, ErrorIfPathMissing: true,
	})
	return err
}
