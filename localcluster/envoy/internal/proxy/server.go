package proxy

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/cluster"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/stats"
)

// headerTimeout bounds the time that a request's headers take to come.
const headerTimeout = time.Minute

// Files are where access logs go.
type Files struct{ Stdout, Stderr io.Writer }

// Server is all listeners with what is behind them.
type Server struct {
	config   *bootstrap.Config
	clusters map[string]*cluster.Cluster
	order    []*cluster.Cluster
	fronts   []*front
	logs     map[string]*AccessLog

	connections atomic.Int64
	failing     atomic.Bool
	warm        atomic.Bool
	drained     atomic.Bool
	stopping    sync.Once
	stopped     chan struct{}
}

// front is one listener.
type front struct {
	config   bootstrap.Listener
	manager  *manager
	server   *http.Server
	listener net.Listener
	scope    *stats.Scope
}

// New makes the clusters and the listeners of a bootstrap. It opens nothing yet.
func New(config *bootstrap.Config, resolver cluster.Resolver, store *stats.Store, files Files) (*Server, error) {
	s := &Server{config: config, clusters: map[string]*cluster.Cluster{}, logs: map[string]*AccessLog{}, stopped: make(chan struct{})}
	for _, one := range config.Clusters {
		made := cluster.New(one, resolver, store)
		s.clusters[one.Name] = made
		s.order = append(s.order, made)
	}
	for i := range config.Listeners {
		made, err := s.newFront(config.Listeners[i], store, files)
		if err != nil {
			return nil, err
		}
		s.fronts = append(s.fronts, made)
	}
	return s, nil
}

func (s *Server) newFront(config bootstrap.Listener, store *stats.Store, files Files) (*front, error) {
	var logs []*AccessLog
	for _, name := range config.HTTP.AccessLogs {
		if s.logs[name] == nil {
			file := files.Stdout
			if name == "/dev/stderr" {
				file = files.Stderr
			}
			s.logs[name] = NewAccessLog(file)
		}
		logs = append(logs, s.logs[name])
	}
	f := &front{config: config, scope: store.Listener(config.Address)}
	var err error
	if f.manager, err = newManager(&f.config.HTTP, s.clusters, logs, store, s.failing.Load); err != nil {
		return nil, err
	}
	f.server = &http.Server{
		Handler:           f.manager,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       config.HTTP.ConnectionIdleTimeout,
		MaxHeaderBytes:    config.HTTP.MaxHeaderBytes,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: config.HTTP.MaxConcurrentStreams},
		Protocols:         new(http.Protocols),
		ErrorLog:          log.New(files.Stderr, "", 0),
		ConnState:         f.count(s),
		ConnContext:       begun,
	}
	f.server.Protocols.SetHTTP1(config.HTTP.Codec != bootstrap.HTTP2)
	f.server.Protocols.SetUnencryptedHTTP2(config.HTTP.Codec != bootstrap.HTTP1)
	return f, nil
}

// connectionBegin is the key of the time at which a connection was accepted.
type connectionBegin struct{}

func begun(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connectionBegin{}, time.Now())
}

// outlived tells whether the exchange's connection is to end after it.
func (x *exchange) outlived() bool {
	limit := x.m.config.MaxConnectionDuration
	begin, known := x.r.Context().Value(connectionBegin{}).(time.Time)
	return limit > 0 && known && time.Since(begin) >= limit
}

// count keeps the numbers of connections.
func (f *front) count(s *Server) func(net.Conn, http.ConnState) {
	total, active := f.manager.scope.Counter("downstream_cx_total"), f.manager.scope.Gauge("downstream_cx_active")
	return func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			total.Inc()
			active.Add(1)
		case http.StateClosed, http.StateHijacked:
			active.Add(-1)
			s.connections.Add(-1)
		default:
		}
	}
}

// limited refuses connections beyond the server's bound.
type limited struct {
	net.Listener
	server   *Server
	overflow *stats.Value
}

// Accept is part of net.Listener.
func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.server.connections.Add(1) <= int64(l.server.config.MaxConnections) {
			return conn, nil
		}
		l.server.connections.Add(-1)
		l.overflow.Inc()
		conn.Close()
	}
}

// Listen opens the listeners' addresses. Connections wait until Serve.
func (s *Server) Listen() error {
	for _, f := range s.fronts {
		listener, err := net.Listen("tcp", f.config.Address)
		if err != nil {
			s.close()
			return err
		}
		f.listener = limited{listener, s, f.scope.Counter("downstream_cx_overflow")}
	}
	return nil
}

// Addresses are where the listeners listen, in the bootstrap's order.
func (s *Server) Addresses() []string {
	addresses := make([]string, len(s.fronts))
	for i, f := range s.fronts {
		addresses[i] = f.listener.Addr().String()
	}
	return addresses
}

// Serve finds the clusters' hosts, then serves until ctx ends. ready is called
// when requests are served.
func (s *Server) Serve(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	for _, one := range s.order {
		group.Go(func() { one.Warm(ctx) })
	}
	group.Wait()
	for _, one := range s.order {
		group.Go(func() { one.Run(ctx) })
	}
	failed := make(chan error, len(s.fronts))
	for _, f := range s.fronts {
		group.Go(func() {
			if err := f.server.Serve(f.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	s.warm.Store(true)
	ready()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.close()
	cancel()
	group.Wait()
	for _, log := range s.logs {
		log.Close()
	}
	return err
}

func (s *Server) close() {
	for _, f := range s.fronts {
		f.server.Close()
		if f.listener != nil {
			f.listener.Close()
		}
		if f.manager.processor != nil {
			f.manager.processor.Close()
		}
	}
}

// Ready tells whether listeners serve and health checks are to pass.
func (s *Server) Ready() bool { return s.warm.Load() && !s.failing.Load() }

// Warm tells whether the listeners have begun to serve.
func (s *Server) Warm() bool { return s.warm.Load() }

// FailHealthChecks has health checks fail, or pass again.
func (s *Server) FailHealthChecks(fail bool) { s.failing.Store(fail) }

// Clusters are the clusters in the bootstrap's order.
func (s *Server) Clusters() []*cluster.Cluster { return s.order }

// Discourage has every connection closed after its present response, while new
// ones are still taken.
func (s *Server) Discourage() {
	for _, f := range s.fronts {
		f.server.SetKeepAlivesEnabled(false)
	}
}

// Drain stops listening and lets what is in flight end; Drained tells when it
// has. Several calls are the same as one.
func (s *Server) Drain() {
	s.drained.Store(true)
	s.stopping.Do(func() {
		var group sync.WaitGroup
		for _, f := range s.fronts {
			group.Go(func() { _ = f.server.Shutdown(context.Background()) })
		}
		go func() {
			group.Wait()
			close(s.stopped)
		}()
	})
}

// Draining tells whether Drain was called.
func (s *Server) Draining() bool { return s.drained.Load() }

// Drained is closed when nothing is in flight after Drain.
func (s *Server) Drained() <-chan struct{} { return s.stopped }
