// Package simulator is an inference server without a model: it answers as vLLM
// does, over HTTP, with sentences of its own, at a pace that the latency model
// sets. It takes the command line of llm-d-inference-sim. It never loads
// weights, never calls out, and knows nothing of Kubernetes.
package simulator

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what a client may send, and of how long it may take.
const (
	maxHeader     = 64 << 10
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Server is one rank: an HTTP handler around an engine.
type Server struct {
	config  *Config
	clock   Clock
	engine  *engine
	loras   adapterSet
	ready   atomic.Bool // the start is over, and no stop has begun
	started time.Time
	faked   atomic.Pointer[FakeMetrics]
	routes  map[string]route
	scratch sync.Pool // *exchange
	id      string    // of the engine, for key-value transfer
	port    string    // where this rank listens, for answers' headers
}

// route is what one path answers to.
type route struct {
	method  string
	handler func(*Server, http.ResponseWriter, *http.Request)
}

// New makes the server of one rank. The configuration must come from Load, or
// from Default and Complete.
func New(config Config, clock Clock) *Server {
	s := &Server{config: &config, clock: clock, started: clock.Now(), id: newID(""), routes: routes()}
	s.engine = newEngine(s.config, clock)
	s.engine.fake = s.faked.Load
	s.faked.Store(config.FakeMetrics)
	s.loras.init(&config)
	s.port = strconv.Itoa(config.Port)
	s.scratch.New = func() any { return &exchange{} }
	s.ready.Store(true)
	return s
}

func routes() map[string]route {
	return map[string]route{
		"/v1/chat/completions":    {http.MethodPost, (*Server).chat},
		"/v1/completions":         {http.MethodPost, (*Server).complete},
		"/v1/embeddings":          {http.MethodPost, (*Server).embed},
		"/v1/models":              {http.MethodGet, (*Server).listModels},
		"/v1/load_lora_adapter":   {http.MethodPost, (*Server).loadAdapter},
		"/v1/unload_lora_adapter": {http.MethodPost, (*Server).unloadAdapter},
		"/tokenize":               {http.MethodPost, (*Server).tokenize},
		"/fake_metrics":           {http.MethodPost, (*Server).setFakeMetrics},
		"/sleep":                  {http.MethodPost, (*Server).sleep},
		"/wake_up":                {http.MethodPost, (*Server).wakeUp},
		"/is_sleeping":            {http.MethodGet, (*Server).isSleeping},
		"/health":                 {http.MethodGet, (*Server).health},
		"/ready":                  {http.MethodGet, (*Server).readiness},
		"/health/ready":           {http.MethodGet, (*Server).readiness},
		"/metrics":                {http.MethodGet, (*Server).exposeMetrics},
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, ok := s.routes[r.URL.Path]
	switch {
	case !ok:
		plain(w, http.StatusNotFound, "Not Found")
	case r.Method != found.method && !(r.Method == http.MethodHead && found.method == http.MethodGet):
		w.Header().Set("Allow", found.method)
		plain(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	default:
		if found.method == http.MethodPost {
			s.sign(w.Header(), r)
		}
		found.handler(s, w, r)
	}
}

// sign names the pod that answers, and the request when that is asked for.
func (s *Server) sign(header http.Header, r *http.Request) {
	if s.config.Pod != "" {
		header.Set("X-Inference-Pod", s.config.Pod)
		header.Set("X-Inference-Port", s.port)
	}
	if s.config.Namespace != "" {
		header.Set("X-Inference-Namespace", s.config.Namespace)
	}
	if s.config.RequestIDs {
		id := r.Header.Get("X-Request-Id")
		if id == "" {
			id = newID("")
		}
		header.Set("X-Request-Id", id)
	}
}

// plain answers with a line of text.
func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, text)
}

// Options are what a run of the simulator gets from outside.
type Options struct {
	Clock Clock
	// Log gets a line for what a user should know; no request is logged.
	Log io.Writer
	// Listening, when set, is called once all ranks listen, with their
	// addresses.
	Listening func([]net.Addr)
}

// Run serves every rank until the context ends, then drains: readiness says
// no, requests are taken for DrainDelay more, and those in flight have
// GracePeriod to finish. It returns nil after a stop, also when the grace
// period cut requests off, and an error when it can't listen or serve.
func Run(ctx context.Context, config Config, options Options) error {
	tlsConfig, err := serverTLS(&config, options.Clock.Now())
	if err != nil {
		return err
	}
	fleet, err := listen(config, options, tlsConfig)
	if err != nil {
		return err
	}
	fmt.Fprintf(options.Log, "serving %q on %s (simulated: %s mode)\n", config.ServedModelNames[0], fleet.addresses()[0], config.Mode)
	if options.Listening != nil {
		options.Listening(fleet.addresses())
	}
	failed := make(chan error, len(fleet))
	for _, r := range fleet {
		go func() { failed <- r.http.Serve(r.listener) }()
	}
	select {
	case err := <-failed:
		fleet.close()
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	fmt.Fprintln(options.Log, "stopping: letting requests in flight finish")
	if cut := fleet.drain(config, options.Clock); cut > 0 {
		fmt.Fprintf(options.Log, "the grace period of %s is over; %d ranks still had requests, which are cut off\n", config.GracePeriod, cut)
	}
	return nil
}

// rank is one server on its own port.
type rank struct {
	server   *Server
	http     *http.Server
	listener net.Listener
}

type ranks []rank

// listen opens every rank's port, or none.
func listen(config Config, options Options, tlsConfig *tls.Config) (ranks, error) {
	var fleet ranks
	for i := range config.Ranks {
		own := config
		if config.Port != 0 {
			own.Port = config.Port + i
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(own.Host, strconv.Itoa(own.Port)))
		if err != nil {
			fleet.close()
			return nil, fmt.Errorf("port %d can't be listened on; choose another with --port or PORT: %w", own.Port, err)
		}
		own.Port = listener.Addr().(*net.TCPAddr).Port
		if tlsConfig != nil {
			listener = tls.NewListener(listener, tlsConfig)
		}
		server := New(own, options.Clock)
		fleet = append(fleet, rank{server: server, listener: listener, http: &http.Server{
			Handler:           server,
			ReadHeaderTimeout: headerTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			ErrorLog:          log.New(&quiet{out: options.Log}, "", 0),
		}})
	}
	return fleet, nil
}

func (f ranks) addresses() []net.Addr {
	addresses := make([]net.Addr, len(f))
	for i, r := range f {
		addresses[i] = r.listener.Addr()
	}
	return addresses
}

func (f ranks) close() {
	for _, r := range f {
		r.http.Close()
		r.listener.Close()
	}
}

// drain stops every rank, and returns how many of them had to be cut off.
func (f ranks) drain(config Config, clock Clock) (cut int64) {
	for _, r := range f {
		r.server.ready.Store(false)
		r.http.SetKeepAlivesEnabled(false)
	}
	if config.DrainDelay > 0 {
		_ = clock.Sleep(context.Background(), config.DrainDelay)
	}
	ctx, cancel := context.WithTimeout(context.Background(), config.GracePeriod)
	defer cancel()
	var unfinished atomic.Int64
	var all sync.WaitGroup
	for _, r := range f {
		all.Go(func() {
			if err := r.http.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
				unfinished.Add(1)
				r.http.Close()
			}
		})
	}
	all.Wait()
	return unfinished.Load()
}

// quiet drops what every public server hears all day: clients that hang up
// during the TLS handshake, as TCP probes do.
type quiet struct{ out io.Writer }

func (q *quiet) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		return len(line), nil
	}
	return q.out.Write(line)
}
