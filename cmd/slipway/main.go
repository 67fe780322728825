// Command slipway is the operator, command line, inference simulator and local
// Kubernetes launcher of Slipway.
package main

import (
	"os"

	// The image holds nothing but the program: without these, no https repository
	// of charts could be trusted. A system's own certificates come first.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/slipway-dev/slipway/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:]))
}
