// Command slipway is the operator, command line, inference simulator and local
// Kubernetes launcher of Slipway.
package main

import (
	"os"

	"github.com/slipway-dev/slipway/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:]))
}
