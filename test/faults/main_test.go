// Package faults breaks things at each single write and compares the world that
// comes of it with the world without the fault. After Sieve (OSDI '22) and Acto
// (SOSP '23).
package faults

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/test/bed"
)

// server is the API server that all tests of this package share; each run has a
// namespace of its own.
var server *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // the faults are meant
	os.Exit(bed.Run(m, func(config *rest.Config) error {
		server = config
		return nil
	}))
}
