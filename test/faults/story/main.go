package story

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
)

// Parallel is how many runs go at once where they have namespaces of their own.
// They mostly wait for pods, so it is more than there are processors.
const Parallel = 6

// Main runs a suite's tests against one API server with a simulated node and
// Slipway's definitions, as many at once as said, and ends the process.
func Main(m *testing.M, parallel int, api **rest.Config, opts ...controlplane.Option) {
	ctrl.SetLogger(logr.Discard()) // the faults are meant
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err)
	}
	os.Exit(bed.Run(m, func(config *rest.Config) error {
		*api = config
		return bed.Define(config)
	}, append([]controlplane.Option{controlplane.WithNodes(1)}, opts...)...))
}
