package platformstack

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/test/faults/story"
)

// api is the API server that all runs share, one at a time: every operator sees all
// stacks of a cluster.
var api *rest.Config

func TestMain(m *testing.M) { story.Main(m, 1, &api) }
