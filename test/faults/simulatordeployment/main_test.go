package simulatordeployment

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/test/faults/story"
)

// api is the API server that all runs share; each has a namespace of its own.
var api *rest.Config

func TestMain(m *testing.M) { story.Main(m, story.Parallel, &api) }
