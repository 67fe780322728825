// Command envoy is Slipway's stand-in for Envoy, for a machine that has none. It
// reads an Envoy bootstrap with Envoy's own messages, honours a part of it and
// refuses the rest with one line. It isn't Envoy, and says so when it starts.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE)
	streams := streams{os.Stdout, os.Stderr}
	err := run(context.Background(), os.Args, os.Getenv, net.DefaultResolver, streams, signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, "envoy (Slipway's stand-in):", err)
		os.Exit(1)
	}
}

// streams are where a command writes.
type streams struct{ out, err io.Writer }
