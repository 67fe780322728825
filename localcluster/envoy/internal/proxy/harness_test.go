package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/proxy"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/stats"
)

// limit bounds every wait of a test. Nothing waits that long unless it's broken.
const limit = 20 * time.Second

// setup is a bootstrap to be made: what stands between the braces.
type setup struct {
	// routes, filters and clusters are YAML in the flow style.
	routes, filters, clusters string
	// manager is further fields of the connection manager.
	manager  string
	overload string
}

const routerFilter = `{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}`

// pickerFilter is the ext_proc filter that Slipway renders.
const pickerFilter = `{name: envoy.filters.http.ext_proc, typed_config: {
  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor,
  grpc_service: {envoy_grpc: {cluster_name: epp}},
  processing_mode: {
    request_header_mode: SEND, request_body_mode: FULL_DUPLEX_STREAMED, request_trailer_mode: SEND,
    response_header_mode: SEND, response_body_mode: FULL_DUPLEX_STREAMED, response_trailer_mode: SEND}}}`

const originalCluster = `{name: original, type: ORIGINAL_DST, lb_policy: CLUSTER_PROVIDED,
  original_dst_lb_config: {use_http_header: true, http_header_name: x-gateway-destination-endpoint}}`

func (s setup) read(t testing.TB) *bootstrap.Config {
	t.Helper()
	filters := routerFilter
	if s.filters != "" {
		filters = s.filters + ", " + routerFilter
	}
	overload := s.overload
	if overload == "" {
		overload = "null"
	}
	text := fmt.Sprintf(`
overload_manager: %s
static_resources:
  clusters: [%s]
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains: [{filters: [{name: http, typed_config: {
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
      stat_prefix: in, %s
      access_log: [{name: log, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog}}],
      route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [%s]}]},
      http_filters: [%s]}}]}]
`, overload, s.clusters, s.manager, s.routes, filters)
	config, err := bootstrap.Read([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return config
}

// endpoint is a cluster of fixed hosts.
func endpoint(name, more string, addresses ...string) string {
	var hosts []string
	for _, address := range addresses {
		host, port, _ := net.SplitHostPort(address)
		hosts = append(hosts, fmt.Sprintf("{endpoint: {address: {socket_address: {address: %q, port_value: %s}}}}", host, port))
	}
	kind := "STATIC"
	if len(addresses) > 0 {
		if host, _, _ := net.SplitHostPort(addresses[0]); net.ParseIP(host) == nil {
			kind = "STRICT_DNS"
		}
	}
	if more != "" {
		more = ", " + more
	}
	return fmt.Sprintf("{name: %[1]s, type: %[2]s, load_assignment: {cluster_name: %[1]s, endpoints: [{lb_endpoints: [%[3]s]}]}%[4]s}",
		name, kind, strings.Join(hosts, ", "), more)
}

const http2 = `typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {
  "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http2_protocol_options: {}}}}`

func route(cluster string) string {
	return fmt.Sprintf("{match: {prefix: /}, route: {cluster: %s, timeout: 0s}}", cluster)
}

// behind is the bootstrap of a gateway with a picker.
func behind(picker string) setup {
	return setup{routes: route("original"), filters: pickerFilter, clusters: originalCluster + ", " + endpoint("epp", http2, picker)}
}

// names resolves names from a table that a test may change.
type names struct {
	mutex  sync.Mutex
	table  map[string][]string
	failed error
	asked  chan struct{}
}

// LookupNetIP is part of cluster.Resolver.
func (n *names) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if network == "ip6" {
		return nil, &net.DNSError{Name: host, IsNotFound: true}
	}
	if n.asked != nil {
		select {
		case n.asked <- struct{}{}:
		default:
		}
	}
	if n.failed != nil {
		return nil, n.failed
	}
	var found []netip.Addr
	for _, address := range n.table[host] {
		found = append(found, netip.MustParseAddr(address))
	}
	if len(found) == 0 {
		return nil, &net.DNSError{Name: host, IsNotFound: true}
	}
	return found, nil
}

func (n *names) set(host string, addresses ...string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.table[host] = addresses
}

// running is a proxy that serves until the test ends.
type running struct {
	*proxy.Server
	url    string
	client *http.Client
	stats  *stats.Store
	log    *lockedBuffer
	stop   func()
}

type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
}

func (s setup) start(t testing.TB, resolver *names) *running {
	t.Helper()
	if resolver == nil {
		resolver = &names{}
	}
	r := &running{stats: &stats.Store{}, log: &lockedBuffer{}}
	var err error
	if r.Server, err = proxy.New(s.read(t), resolver, r.stats, proxy.Files{Stdout: r.log, Stderr: r.log}); err != nil {
		t.Fatal(err)
	}
	if err := r.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Serve(ctx, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	}()
	<-ready
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(r.stop)
	r.url = "http://" + r.Addresses()[0]
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = &http.Client{Transport: transport, Timeout: limit}
	return r
}

// counted is a counter's value in the text of /stats.
func (r *running) counted(name string) string {
	var out bytes.Buffer
	r.stats.WriteText(&out, func(other string) bool { return other == name })
	_, value, _ := strings.Cut(strings.TrimSpace(out.String()), ": ")
	return value
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (r *running) do(t testing.TB, request *http.Request) answer {
	t.Helper()
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func (r *running) get(t testing.TB, path string) answer {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.do(t, request)
}

func (r *running) post(t testing.TB, path, body string) answer {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r.do(t, request)
}

func (a answer) want(t testing.TB, status int, body string) {
	t.Helper()
	if a.status != status || a.body != body {
		t.Errorf("got %d %q, want %d %q", a.status, a.body, status, body)
	}
}

// upstream serves a handler until the test ends, and gives its address.
func upstream(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// echo answers with a name and the body that came.
func echo(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "%s %s %s", name, r.RequestURI, body)
	}
}

// nobody is an address that refuses connections.
func nobody(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// within waits for an event, and fails the test if it doesn't come.
func within[T any](t testing.TB, events <-chan T, what string) T {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-time.After(limit):
		t.Fatalf("%s: didn't happen", what)
		panic("unreachable")
	}
}

// until asks again and again, as fast as it can, until it is so.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: didn't come to be", what)
		}
	}
}
