package integration

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/test/bed"
)

// server is the API server that all tests of this package share; each has a
// namespace of its own.
var server *rest.Config

func TestMain(m *testing.M) {
	os.Exit(bed.Run(m, func(config *rest.Config) error {
		server = config
		return nil
	}))
}
