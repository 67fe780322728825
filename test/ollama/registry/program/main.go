// Command program runs the tests' registry for Ollama where a test can't: in a
// pod. Its faults are switched by requests to /control/faults. It stores nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/slipway-dev/slipway/test/ollama/registry"
)

func main() {
	address := flag.String("listen", ":80", "address for plain HTTP")
	secure := flag.String("listen-tls", ":443", "address for HTTPS, with -cert and -key")
	cert := flag.String("cert", "", "certificate, a PEM file")
	key := flag.String("key", "", "key of the certificate, a PEM file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *address, *secure, *cert, *key); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// serve runs until ctx ends.
func serve(ctx context.Context, address, secure, cert, key string) error {
	handler := registry.New(registry.Usual())
	plain := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Minute}
	encrypted := &http.Server{Addr: secure, Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 2)
	go func() { ended <- plain.ListenAndServe() }()
	if cert != "" {
		go func() { ended <- encrypted.ListenAndServeTLS(cert, key) }()
	}
	select {
	case <-ctx.Done():
		return errors.Join(plain.Close(), encrypted.Close())
	case err := <-ended:
		return errors.Join(err, plain.Close(), encrypted.Close())
	}
}
