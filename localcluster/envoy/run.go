package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/admin"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/cluster"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/proxy"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/stats"
)

// notice is the first line that the program writes.
const notice = "This is Slipway's stand-in for Envoy, not Envoy: it honours a part of Envoy's bootstrap and refuses the rest."

// version is what /server_info says in place of Envoy's version.
const version = "slipway-stand-in/0/not-envoy/go-control-plane-1.36.0"

// adminTimeout bounds how long the administration interface waits for a request.
const adminTimeout = 10 * time.Second

// run is the program: it returns nil when the proxy ended as it was told to.
func run(ctx context.Context, args []string, getenv func(string) string, resolver cluster.Resolver, streams streams, signals <-chan os.Signal) error {
	fmt.Fprintln(streams.err, notice)
	opts, err := parse(args, getenv)
	if err != nil {
		return err
	}
	config, err := bootstrap.Read(opts.text)
	if err != nil {
		return err
	}
	if opts.serviceNode != "" {
		config.NodeID = opts.serviceNode
	}
	if opts.serviceCluster != "" {
		config.NodeCluster = opts.serviceCluster
	}
	if opts.validate {
		fmt.Fprintln(streams.out, "configuration OK")
		return nil
	}
	if opts.concurrency > 0 {
		runtime.GOMAXPROCS(min(opts.concurrency, runtime.NumCPU()))
	}
	return serve(ctx, opts, config, resolver, streams, signals)
}

func serve(ctx context.Context, opts *options, config *bootstrap.Config, resolver cluster.Resolver, streams streams, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	store := &stats.Store{}
	server, err := proxy.New(config, resolver, store, proxy.Files{Stdout: streams.out, Stderr: streams.err})
	if err != nil {
		return err
	}
	console := &admin.Interface{Proxy: server, Config: config, Stats: store, Version: version, DrainTime: opts.drain, Quit: cancel}
	closeAdmin, address, err := listenAdmin(config.Admin, console)
	if err != nil {
		return err
	}
	defer closeAdmin()
	if err := server.Listen(); err != nil {
		return err
	}
	var group sync.WaitGroup
	group.Go(func() {
		defer cancel()
		awaitSignal(ctx, server, opts.drain, signals)
	})
	err = server.Serve(ctx, func() {
		fmt.Fprintf(streams.err, "listening on %v; administration on %s\n", server.Addresses(), address)
	})
	cancel()
	group.Wait()
	return err
}

// awaitSignal returns when the process is to end. Like Envoy it ends at once at a
// signal; only if the listeners were drained before, it lets what is in flight
// end within the drain time.
func awaitSignal(ctx context.Context, server *proxy.Server, drain time.Duration, signals <-chan os.Signal) {
	select {
	case <-ctx.Done():
		return
	case <-signals:
	}
	if !server.Draining() {
		return
	}
	server.FailHealthChecks(true)
	timer := time.NewTimer(drain)
	defer timer.Stop()
	select {
	case <-server.Drained():
	case <-timer.C:
	case <-signals:
	case <-ctx.Done():
	}
}

// listenAdmin serves the administration interface, if there is to be one.
func listenAdmin(address string, console *admin.Interface) (closeAll func(), at string, err error) {
	if address == "" {
		return func() {}, "none", nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{Handler: console.Handler(), ReadHeaderTimeout: adminTimeout, IdleTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			console.Quit()
		}
	}()
	return func() {
		server.Close()
		<-done
	}, listener.Addr().String(), nil
}
