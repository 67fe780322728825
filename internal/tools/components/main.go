// Command components compiles the programs of localcluster/ that the cache lacks,
// and shows its progress. It is what make test runs first, because go test keeps
// to itself what a package prints until the package is done. It starts nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/slipway-dev/slipway/internal/cluster/component"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	opts := component.Options{Progress: os.Stderr}
	// A cluster with real pods needs all of them, and llm-d's images the last.
	groups := slices.Concat(component.ControlPlane, component.Node, component.LLMD)
	if _, err := component.Ensure(ctx, opts, groups...); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	_, err := component.Ensure(ctx, opts, component.Ollama)
	if errors.Is(err, component.ErrNoCompiler) {
		fmt.Fprintln(os.Stderr, "tests with a real Ollama will be skipped:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
