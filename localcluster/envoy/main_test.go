package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// limit bounds every wait of a test.
const limit = 20 * time.Second

const plain = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: decode, timeout: 0s}}]}]
          http_filters:
          - name: health
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.health_check.v3.HealthCheck
              pass_through_mode: false
              headers: [{name: ":path", string_match: {exact: /proxy}}]
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - {name: decode, type: STATIC, load_assignment: {cluster_name: decode, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: PORT}}}}]}]}}
`

// program is the whole program while it runs.
type program struct {
	url, admin string
	signals    chan os.Signal
	done       chan error
	errors     *lockedBuffer
}

type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
	wrote  chan struct{}
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	select {
	case b.wrote <- struct{}{}:
	default:
	}
	return b.buffer.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
}

var listening = regexp.MustCompile(`listening on \[(\S+)\]; administration on (\S+)`)

func start(t *testing.T, upstream http.HandlerFunc, args ...string) *program {
	t.Helper()
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port
	text := strings.Replace(plain, "PORT", fmt.Sprint(port), 1)
	p := &program{signals: make(chan os.Signal, 4), done: make(chan error, 1), errors: &lockedBuffer{wrote: make(chan struct{}, 1)}}
	go func() {
		p.done <- run(context.Background(), append([]string{"envoy", "--config-yaml", text}, args...), func(string) string { return "" },
			net.DefaultResolver, streams{io.Discard, p.errors}, p.signals)
	}()
	t.Cleanup(func() {
		p.signals <- syscall.SIGTERM
		p.signals <- syscall.SIGTERM
	})
	for deadline := time.After(limit); ; {
		if found := listening.FindStringSubmatch(p.errors.String()); found != nil {
			p.url, p.admin = "http://"+found[1], "http://"+found[2]
			return p
		}
		select {
		case <-p.errors.wrote:
		case err := <-p.done:
			t.Fatalf("it ended: %v", err)
		case <-deadline:
			t.Fatal("it doesn't listen")
		}
	}
}

func ask(t *testing.T, method, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return response.StatusCode, err.Error()
	}
	return response.StatusCode, string(body)
}

func want(t *testing.T, method, url string, code int, part string) {
	t.Helper()
	if got, body := ask(t, method, url); got != code || !strings.Contains(body, part) {
		t.Errorf("%s %s: got %d %q, want %d with %q", method, url, got, body, code, part)
	}
}

func ended(t *testing.T, p *program) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(limit):
		t.Fatal("it doesn't end")
		return nil
	}
}

func TestAdministration(t *testing.T) {
	p := start(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, "--service-node", "gateway-1", "--service-cluster", "gateway")
	if first, _, _ := strings.Cut(p.errors.String(), "\n"); first != notice {
		t.Errorf("the first line is %q", first)
	}
	want(t, "GET", p.url+"/x", 200, "ok")
	want(t, "GET", p.url+"/proxy", 200, "")
	want(t, "GET", p.admin+"/ready", 200, "LIVE")
	want(t, "GET", p.admin+"/stats", 200, "\nhttp.in.downstream_rq_2xx: 2\n")
	want(t, "GET", p.admin+"/stats?filter=upstream_rq_200$", 200, "cluster.decode.upstream_rq_200: 1\n")
	want(t, "GET", p.admin+"/stats/prometheus", 200, `envoy_cluster_upstream_rq{envoy_response_code="200",envoy_cluster_name="decode"} 1`)
	want(t, "GET", p.admin+"/stats?format=prometheus", 200, `envoy_http_downstream_rq_xx{envoy_response_code_class="2",envoy_http_conn_manager_prefix="in"} 2`)
	want(t, "GET", p.admin+"/clusters", 200, "::rq_total::1\n")
	want(t, "GET", p.admin+"/config_dump", 200, `"statPrefix":"in"`)
	_, text := ask(t, "GET", p.admin+"/server_info")
	var info struct {
		Version, State string
		Node           struct{ ID, Cluster string }
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil || info.State != "LIVE" || info.Node.ID != "gateway-1" || info.Node.Cluster != "gateway" ||
		!strings.Contains(info.Version, "stand-in") {
		t.Errorf("server_info: %s, %v", text, err)
	}
	want(t, "GET", p.admin+"/quitquitquit", 405, "")
	want(t, "POST", p.admin+"/healthcheck/fail", 200, "OK")
	want(t, "GET", p.admin+"/ready", 503, "DRAINING")
	want(t, "GET", p.url+"/proxy", 503, "")
	want(t, "POST", p.admin+"/healthcheck/ok", 200, "OK")
	want(t, "GET", p.admin+"/ready", 200, "LIVE")
	want(t, "POST", p.admin+"/quitquitquit", 200, "OK")
	if err := ended(t, p); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestSignals sends SIGTERM while a request is in flight: with the listeners
// drained before, it is answered; without, it is cut off, as with Envoy.
func TestSignals(t *testing.T) {
	for name, test := range map[string]struct {
		drain bool
		args  []string
		code  int
	}{
		"at once":                   {false, nil, 0},
		"after a drain":             {true, nil, 200},
		"after a drain in vain":     {true, []string{"--drain-time-s", "0"}, 0},
		"after a drain, concurrent": {true, []string{"--concurrency", "1"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			came, leave := make(chan struct{}), make(chan struct{})
			p := start(t, func(_ http.ResponseWriter, r *http.Request) {
				came <- struct{}{}
				select {
				case <-leave:
				case <-r.Context().Done():
				}
			}, test.args...)
			answers := make(chan int, 1)
			go func() {
				code, _ := ask(t, "GET", p.url)
				answers <- code
			}()
			<-came
			if test.drain {
				want(t, "POST", p.admin+"/drain_listeners", 200, "OK")
				for code := -1; code != 0; {
					// Until the address is closed, which happens right after the answer.
					code, _ = dial(p.url)
				}
			}
			p.signals <- syscall.SIGTERM
			if test.code == 200 {
				for code := 0; code != 503; {
					code, _ = ask(t, "GET", p.admin+"/ready")
				}
				close(leave)
			}
			if got := <-answers; got != test.code {
				t.Errorf("the request in flight: got %d, want %d", got, test.code)
			}
			if err := ended(t, p); err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// dial gives 0 if the address refuses connections.
func dial(url string) (int, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return 0, err
	}
	conn.Close()
	return 1, nil
}

func TestGracefulDrain(t *testing.T) {
	p := start(t, func(http.ResponseWriter, *http.Request) {}, "--drain-time-s", "600")
	want(t, "POST", p.admin+"/drain_listeners?graceful", 200, "OK")
	response, err := http.Get(p.url)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 || !response.Close {
		t.Errorf("while it drains: got %d, connection closed %v; want 200 and true", response.StatusCode, response.Close)
	}
	want(t, "POST", p.admin+"/drain_listeners?skip_exit", 400, "skip_exit requires graceful")
}

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", strings.Replace(plain, "PORT", "80", 1))
	filled := write("template.yaml", strings.Replace(strings.Replace(plain, "PORT", "80", 1), "stat_prefix: in", `stat_prefix: "in-{{.PodName}}"`, 1))
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"a file":           {[]string{"envoy", "-c", good, "--mode", "validate"}, nil, ""},
		"the long name":    {[]string{"/usr/local/bin/envoy", "--config-path", good, "--mode=validate", "-l", "debug", "--component-log-level", "x:debug"}, nil, ""},
		"envoyinit":        {[]string{"/usr/local/bin/envoyinit", "--disable-hot-restart", "--mode", "validate"}, map[string]string{"INPUT_CONF": filled}, ""},
		"no template":      {[]string{"envoyinit", "--mode", "validate"}, map[string]string{"INPUT_CONF": write("broken.yaml", "{{")}, "envoyinit: template: broken.yaml:1:"},
		"unknown field":    {[]string{"envoyinit"}, map[string]string{"INPUT_CONF": write("unknown.yaml", "{{.Nope}}")}, "envoyinit: template: unknown.yaml"},
		"envoyinit and -c": {[]string{"envoyinit", "-c", good}, nil, "envoyinit reads /etc/envoy/envoy.yaml and takes no -c"},
		"no such file":     {[]string{"envoy", "-c", filepath.Join(dir, "none")}, nil, "no bootstrap: open "},
		"nothing":          {[]string{"envoy"}, nil, "no bootstrap: give -c FILE or --config-yaml TEXT"},
		"both":             {[]string{"envoy", "-c", good, "--config-yaml", "{}"}, nil, "the stand-in doesn't merge them"},
		"a strange flag":   {[]string{"envoy", "-c", good, "--base-id", "1"}, nil, "flag provided but not defined: -base-id; the stand-in takes -c, "},
		"a stray word":     {[]string{"envoy", "proxy"}, nil, `"proxy" is no flag`},
		"a level":          {[]string{"envoy", "-c", good, "-l", "loud"}, nil, "--log-level loud: is none of trace, debug"},
		"a mode":           {[]string{"envoy", "-c", good, "--mode", "init_only"}, nil, "--mode init_only: the stand-in knows serve and validate"},
		"negative":         {[]string{"envoy", "-c", good, "--drain-time-s", "-1"}, nil, "can't be negative"},
		"a bad bootstrap":  {[]string{"envoy", "--config-yaml", "{admn: 1}"}, nil, "admn: Envoy has no such field"},
	} {
		var out bytes.Buffer
		err := run(context.Background(), test.args, func(name string) string { return test.env[name] }, nil, streams{&out, io.Discard}, nil)
		switch {
		case test.want == "" && (err != nil || out.String() != "configuration OK\n"):
			t.Errorf("%s: got %q, %v", name, out.String(), err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got %v, want %q in one line", name, err, test.want)
		}
	}
}

// TestSizeBound gives a file that is too long.
func TestSizeBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.yaml")
	if err := os.WriteFile(path, bytes.Repeat([]byte("#"), 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(context.Background(), []string{"envoy", "-c", path}, os.Getenv, nil, streams{io.Discard, io.Discard}, nil)
	if err == nil || !strings.Contains(err.Error(), "at most 1048576 are read") {
		t.Errorf("got %v", err)
	}
}
