package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestRetries(t *testing.T) {
	var tries atomic.Int64
	flaky := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if tries.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprintf(w, "%d bytes", len(body))
	})
	r := setup{
		routes: `{match: {prefix: /retried}, route: {cluster: flaky, retry_policy: {retry_on: 5xx, num_retries: 2}}},
			{match: {prefix: /half}, route: {cluster: half, retry_policy: {retry_on: connect-failure, num_retries: 3}}}, ` + route("flaky"),
		clusters: endpoint("flaky", "", flaky) + ", " + endpoint("half", "", flaky, nobody(t)),
	}.start(t, nil)
	r.post(t, "/retried", strings.Repeat("x", 100_000)).want(t, 200, "100000 bytes")
	if got := tries.Load(); got != 3 {
		t.Errorf("%d tries, want 3", got)
	}
	// Too long to be kept: the first answer stands.
	r.post(t, "/retried", strings.Repeat("x", 2<<20)).want(t, 500, fmt.Sprintf("%d bytes", 2<<20))
	r.get(t, "/once").want(t, 500, "0 bytes")
	for range 6 {
		if got := r.post(t, "/half", "abc"); got.body != "3 bytes" {
			t.Errorf("with half of the hosts gone: got %d %q", got.status, got.body)
		}
	}
}

// TestBreaker fills the only connection and the only place to wait.
func TestBreaker(t *testing.T) {
	came, go1 := make(chan struct{}, 2), make(chan struct{})
	decode := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		came <- struct{}{}
		<-go1
	})
	r := setup{routes: route("decode"),
		clusters: endpoint("decode", "circuit_breakers: {thresholds: [{max_connections: 1, max_pending_requests: 1}]}", decode)}.start(t, nil)
	answers := make(chan int, 3)
	get := func() {
		response, err := r.client.Get(r.url)
		if err != nil {
			answers <- 0
			return
		}
		response.Body.Close()
		answers <- response.StatusCode
	}
	go get()
	within(t, came, "the first request")
	go get()
	go get()
	if got := within(t, answers, "the refusal"); got != http.StatusServiceUnavailable {
		t.Errorf("beyond the breaker: got %d, want 503", got)
	}
	close(go1)
	for range 2 {
		if got := within(t, answers, "an answer"); got != http.StatusOK {
			t.Errorf("within the breaker: got %d, want 200", got)
		}
	}
	if got := r.counted("cluster.decode.upstream_rq_pending_overflow"); got != "1" {
		t.Errorf("overflow: got %s, want 1", got)
	}
}

// TestClientGone has the client go away in the middle: the upstream must hear.
func TestClientGone(t *testing.T) {
	gone := make(chan struct{})
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	})
	pick := &picker{pick: to(decode), ended: make(chan struct{}, 10)}
	for name, s := range map[string]setup{
		"plain":          {routes: route("decode"), clusters: endpoint("decode", "", decode)},
		"through picker": behind(pick.start(t)),
	} {
		t.Run(name, func(t *testing.T) {
			r := s.start(t, nil)
			ctx, cancel := context.WithCancel(context.Background())
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := r.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if _, err := response.Body.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			cancel()
			within(t, gone, "the upstream's news of it")
			if name != "plain" {
				within(t, pick.ended, "the picker's news of it")
			}
			until(t, "no request active", func() bool { return r.counted("http.in.downstream_rq_active") == "0" })
		})
	}
}

// TestUpstreamGone has the upstream break off in the middle: the client must see
// that the response isn't whole. It gets the head at least, unless the picker
// still had that in hand.
func TestUpstreamGone(t *testing.T) {
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	pick := &picker{pick: to(decode)}
	for name, s := range map[string]setup{
		"plain":          {routes: route("decode"), clusters: endpoint("decode", "", decode)},
		"through picker": behind(pick.start(t)),
	} {
		t.Run(name, func(t *testing.T) {
			r := s.start(t, nil)
			response, err := r.client.Post(r.url, "", strings.NewReader("{}"))
			if err != nil && name != "plain" {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if text, err := io.ReadAll(response.Body); err == nil {
				t.Errorf("read %q to its end, and the upstream had broken off", text)
			}
		})
	}
}

// TestSlowClient has a client send its headers and nothing more.
func TestSlowClient(t *testing.T) {
	decode := upstream(t, echo("decode"))
	for manager, want := range map[string]string{
		"request_timeout: 0.05s,":     "408 Request Timeout",
		"stream_idle_timeout: 0.05s,": "504 Gateway Timeout",
	} {
		for name, s := range map[string]setup{
			"plain":          {routes: route("decode"), clusters: endpoint("decode", "", decode), manager: manager},
			"through picker": {routes: route("original"), filters: pickerFilter, manager: manager, clusters: originalCluster + ", " + endpoint("epp", http2, (&picker{pick: to(decode)}).start(t))},
		} {
			t.Run(name+" "+manager, func(t *testing.T) {
				r := s.start(t, nil)
				conn, err := net.Dial("tcp", r.Addresses()[0])
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(limit))
				fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
				text, err := io.ReadAll(conn)
				if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 "+want) {
					t.Errorf("got %q, %v; want %s and the connection closed", text, err, want)
				}
			})
		}
	}
}

func TestBounds(t *testing.T) {
	decode := upstream(t, echo("decode"))
	r := setup{routes: route("decode"), clusters: endpoint("decode", "", decode), overload: `{resource_monitors: [{name: envoy.resource_monitors.global_downstream_max_connections,
		typed_config: {"@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig, max_active_downstream_connections: 1}}]}`}.start(t, nil)
	request, err := http.NewRequest(http.MethodGet, r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Long", strings.Repeat("x", 70<<10))
	if got := r.do(t, request); got.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("70 KiB of headers: got %d, want 431", got.status)
	}
	until(t, "a connection", func() bool {
		response, err := r.client.Get(r.url)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		return true
	})
	second := &http.Client{Transport: &http.Transport{}, Timeout: limit}
	if response, err := second.Get(r.url); err == nil {
		response.Body.Close()
		t.Error("a second connection was served; only one may be")
	}
	if got := r.counted("listener.127.0.0.1_0.downstream_cx_overflow"); got == "0" {
		t.Error("the overflow wasn't counted")
	}
}

// TestPerTryTimeout has the first host stand still while the client has sent all
// of its body, and while it hasn't.
func TestPerTryTimeout(t *testing.T) {
	never := make(chan struct{})
	var tries atomic.Int64
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) == 1 {
			select {
			case <-never:
			case <-r.Context().Done():
			}
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	t.Cleanup(func() { close(never) })
	r := setup{
		routes:   `{match: {prefix: /}, route: {cluster: decode, timeout: 0s, retry_policy: {retry_on: 5xx, num_retries: 1, per_try_timeout: 0.1s}}}`,
		clusters: endpoint("decode", "", decode),
	}.start(t, nil)
	r.post(t, "/", "again").want(t, 200, "again")
	tries.Store(0)
	body, pipe := io.Pipe()
	defer pipe.Close()
	go fmt.Fprint(pipe, "half")
	response, err := r.client.Post(r.url, "", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("half of a body: got %d %q, want 504", response.StatusCode, text)
	}
}
