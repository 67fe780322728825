package nvidiagpullm

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/cluster"
	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/test/controlplane"
	"github.com/slipway-dev/slipway/test/faults/story"
	"github.com/slipway-dev/slipway/test/ollama/registry"
	"github.com/slipway-dev/slipway/test/ollama/server"
)

var (
	// api is the API server that all runs share; each has a namespace of its own.
	api *rest.Config
	// models is the address of the registry that all runs share.
	models string
)

func TestMain(m *testing.M) {
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
	story.Main(m, story.Parallel, &api, controlplane.WithShape(shape))
}
