package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestPlain(t *testing.T) {
	type request struct {
		uri, host, method string
		header            http.Header
	}
	came := make(chan request, 1)
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		came <- request{r.RequestURI, r.Host, r.Method, r.Header}
		w.Header().Set("Server", "mine")
		w.Header().Set("X-Own", "yes")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "short and stout")
	})
	r := setup{routes: route("decode"), clusters: endpoint("decode", "", decode), manager: "use_remote_address: true,"}.start(t, nil)
	request1, err := http.NewRequest(http.MethodGet, r.url+"/a%2Fb/c?x=1&y=%20", nil)
	if err != nil {
		t.Fatal(err)
	}
	request1.Host = "model.example.com"
	request1.Header.Set("X-Mine", "1")
	request1.Header.Set("Connection", "x-secret")
	request1.Header.Set("X-Secret", "1")
	got := r.do(t, request1)
	got.want(t, http.StatusTeapot, "short and stout")
	if got.header.Get("Server") != "envoy" || got.header.Get("X-Own") != "yes" || got.header.Get("X-Envoy-Upstream-Service-Time") == "" ||
		got.header.Get("Keep-Alive") != "" || got.header.Get("Content-Length") != "15" {
		t.Errorf("response headers: %v", got.header)
	}
	sent := within(t, came, "the request")
	if sent.uri != "/a%2Fb/c?x=1&y=%20" || sent.host != "model.example.com" || sent.method != http.MethodGet {
		t.Errorf("the upstream got %+v", sent)
	}
	for name, want := range map[string]string{"X-Mine": "1", "X-Secret": "", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http"} {
		if sent.header.Get(name) != want {
			t.Errorf("%s: got %q, want %q", name, sent.header.Get(name), want)
		}
	}
	if len(sent.header.Get("X-Request-Id")) != 36 {
		t.Errorf("x-request-id %q is no UUID", sent.header.Get("X-Request-Id"))
	}
	until(t, "the access log's line", func() bool {
		return strings.Contains(r.log.String(), `"GET /a%2Fb/c?x=1&y=%20 HTTP/1.1" 418 - 0 15 `) && strings.Contains(r.log.String(), fmt.Sprintf(`"model.example.com" "%s"`, decode))
	})
	for name, want := range map[string]string{
		"http.in.downstream_rq_total": "1", "http.in.downstream_rq_4xx": "1", "cluster.decode.upstream_rq_total": "1",
		"cluster.decode.upstream_rq_418": "1", "cluster.decode.upstream_rq_4xx": "1", "cluster.decode.membership_total": "1",
	} {
		if got := r.counted(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestOneRequestPerConnection counts the connections that reach the upstream, and
// looks for what the route removes.
func TestOneRequestPerConnection(t *testing.T) {
	var mutex sync.Mutex
	from := map[string]bool{}
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		from[r.RemoteAddr] = true
		fmt.Fprint(w, r.Header.Get("X-Prefiller-Host-Port")+r.Header.Get("X-Kept"))
	})
	const once = `typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {
		"@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http_protocol_options: {}},
		common_http_protocol_options: {max_requests_per_connection: 1}}}`
	r := setup{
		routes:   "{match: {prefix: /}, request_headers_to_remove: [x-prefiller-host-port], route: {cluster: decode}}",
		clusters: endpoint("decode", once, decode),
	}.start(t, nil)
	for range 5 {
		request, err := http.NewRequest(http.MethodGet, r.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Prefiller-Host-Port", "10.0.0.1:1")
		request.Header.Set("X-Kept", "kept")
		r.do(t, request).want(t, 200, "kept")
	}
	mutex.Lock()
	defer mutex.Unlock()
	if len(from) != 5 {
		t.Errorf("5 requests came on %d connections", len(from))
	}
}

// TestConnectionAge has connections grow old, and looks for when they are closed:
// after a response, and only then.
func TestConnectionAge(t *testing.T) {
	decode := upstream(t, echo("decode"))
	for age, closes := range map[string]bool{"0.001s": true, "3600s": false} {
		r := setup{
			routes: route("decode"), clusters: endpoint("decode", "", decode),
			manager: fmt.Sprintf("http1_safe_max_connection_duration: true, common_http_protocol_options: {max_connection_duration: %s},", age),
		}.start(t, nil)
		again := func() bool {
			r.get(t, "/").want(t, 200, "decode / ")
			return r.counted("http.in.downstream_cx_total") != "1"
		}
		if closes {
			until(t, "a connection older than "+age+" is closed", again)
		} else if again() || again() {
			t.Errorf("a connection younger than %s is closed", age)
		}
	}
}

func TestHTTP2(t *testing.T) {
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
	r := setup{routes: route("decode"), clusters: endpoint("decode", http2, decode)}.start(t, nil)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	r.client.Transport = transport
	response, err := r.client.Get(r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.Proto != "HTTP/2.0" || string(body) != "HTTP/2.0" {
		t.Errorf("the client spoke %s, the upstream %s; want HTTP/2.0 for both", response.Proto, body)
	}
}

// TestTokenByToken has the upstream send a token only once the client has read
// the last one: anything that holds back a byte stands still.
func TestTokenByToken(t *testing.T) {
	read := make(chan struct{})
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) { stream(w, r, read) })
	pick := &picker{pick: to(decode)}
	for name, s := range map[string]setup{
		"plain":          {routes: route("decode"), clusters: endpoint("decode", "", decode)},
		"plain to HTTP2": {routes: route("decode"), clusters: endpoint("decode", http2, decode)},
		"through picker": behind(pick.start(t)),
	} {
		t.Run(name, func(t *testing.T) {
			r := s.start(t, nil)
			response, err := r.client.Post(r.url+"/v1/completions", "application/json", strings.NewReader(`{"stream":true}`))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			lines := bufio.NewScanner(response.Body)
			for i := range tokens {
				for lines.Scan() && lines.Text() == "" {
				}
				if want := fmt.Sprintf("data: token %d", i); lines.Text() != want {
					t.Fatalf("got %q, want %q", lines.Text(), want)
				}
				read <- struct{}{}
			}
			if lines.Scan() && lines.Scan() {
				t.Errorf("more came: %q", lines.Text())
			}
		})
	}
}

const tokens = 20

// stream sends a token whenever the last was read.
func stream(w http.ResponseWriter, r *http.Request, read <-chan struct{}) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range tokens {
		fmt.Fprintf(w, "data: token %d\n\n", i)
		w.(http.Flusher).Flush()
		select {
		case <-read:
		case <-r.Context().Done():
			return
		}
	}
}

// TestRequestPieceByPiece has the client send a piece only once the upstream has
// read the last one, and the upstream answer before the request has ended.
func TestRequestPieceByPiece(t *testing.T) {
	pieces := make(chan string)
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusAccepted)
		w.(http.Flusher).Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			pieces <- lines.Text()
		}
		fmt.Fprint(w, "all read")
	})
	r := setup{routes: route("decode"), clusters: endpoint("decode", "", decode)}.start(t, nil)
	body, pipe := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, r.url, body)
	if err != nil {
		t.Fatal(err)
	}
	go fmt.Fprintln(pipe, "piece 0")
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for i := range 5 {
		if i > 0 {
			fmt.Fprintf(pipe, "piece %d\n", i)
		}
		if got := within(t, pieces, "a piece"); got != fmt.Sprintf("piece %d", i) {
			t.Fatalf("got %q", got)
		}
	}
	pipe.Close()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "all read" || response.StatusCode != http.StatusAccepted {
		t.Errorf("got %d %q, %v", response.StatusCode, text, err)
	}
}

func TestNoUpstream(t *testing.T) {
	const prefix = "upstream connect error or disconnect/reset before headers. "
	slow := make(chan struct{})
	stuck := upstream(t, func(http.ResponseWriter, *http.Request) { <-slow })
	t.Cleanup(func() { close(slow) })
	broken := upstream(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	r := setup{
		routes: `{match: {path: /direct}, direct_response: {status: 418, body: {inline_string: tea}}},
			{match: {prefix: /none}, route: {cluster: none}},
			{match: {prefix: /refused}, route: {cluster: refused}},
			{match: {prefix: /stuck}, route: {cluster: stuck, timeout: 0.05s}},
			{match: {prefix: /idle}, route: {cluster: stuck, timeout: 0s, idle_timeout: 0.05s}},
			{match: {prefix: /broken}, route: {cluster: broken}}`,
		clusters: strings.Join([]string{endpoint("none", ""), endpoint("refused", "", nobody(t)), endpoint("stuck", "", stuck), endpoint("broken", "", broken)}, ", "),
	}.start(t, nil)
	for path, want := range map[string]struct {
		status int
		body   string
		flags  string
	}{
		"/direct":  {418, "tea", "-"},
		"/nowhere": {404, "", "NR"},
		"/none":    {503, "no healthy upstream", "UH"},
		"/refused": {503, prefix + "reset reason: remote connection failure, transport failure reason: delayed connect error: Connection refused", "UF"},
		"/stuck":   {504, "upstream request timeout", "UT"},
		"/idle":    {504, "stream timeout", "SI"},
		"/broken":  {503, prefix + "reset reason: connection termination", "UC"},
	} {
		r.get(t, path).want(t, want.status, want.body)
		until(t, path+" in the access log", func() bool {
			return strings.Contains(r.log.String(), fmt.Sprintf("%s HTTP/1.1\" %d %s ", path, want.status, want.flags))
		})
	}
	if got := r.counted("cluster.refused.upstream_cx_connect_fail"); got != "1" {
		t.Errorf("upstream_cx_connect_fail: got %s", got)
	}
	if got := r.counted("cluster.stuck.upstream_rq_timeout"); got != "1" {
		t.Errorf("upstream_rq_timeout: got %s", got)
	}
}

func TestRoutes(t *testing.T) {
	direct := func(match, name string) string {
		return fmt.Sprintf("{match: {%s}, direct_response: {status: 200, body: {inline_string: %s}}}", match, name)
	}
	r := setup{routes: strings.Join([]string{
		direct("path: /exact", "exact"),
		direct(`safe_regex: {regex: "/v[12]/.*"}`, "expression"),
		direct(`prefix: /h, headers: [{name: x-tier, string_match: {prefix: go}}]`, "header"),
		direct(`prefix: /h, headers: [{name: x-tier, present_match: true, invert_match: true}]`, "without"),
		direct("prefix: /p", "prefix"),
	}, ", ")}.start(t, nil)
	for _, test := range []struct{ path, tier, want string }{
		{"/exact", "", "exact"}, {"/exact?x", "", "exact"}, {"/exact/", "", ""}, {"/v1/models?x=1", "", "expression"}, {"/v3/models", "", ""},
		{"/h", "gold", "header"}, {"/h", "", "without"}, {"/h", "silver", ""}, {"/p/q", "", "prefix"}, {"/q", "", ""},
	} {
		request, err := http.NewRequest(http.MethodGet, r.url+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.tier != "" {
			request.Header.Set("X-Tier", test.tier)
		}
		if got := r.do(t, request); got.body != test.want {
			t.Errorf("%s with tier %q: got %q, want %q", test.path, test.tier, got.body, test.want)
		}
	}
}

// TestAnswerBeforeRequestEnds has the upstream answer a client that still sends.
func TestAnswerBeforeRequestEnds(t *testing.T) {
	decode := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		// Otherwise it would read the rest of the request first.
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		fmt.Fprint(w, "too much")
	})
	r := setup{routes: route("decode"), clusters: endpoint("decode", "", decode)}.start(t, nil)
	body, pipe := io.Pipe()
	defer pipe.Close()
	go fmt.Fprint(pipe, "half")
	response, err := r.client.Post(r.url, "", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "too much" || response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %q, %v", response.StatusCode, text, err)
	}
	until(t, "no request active", func() bool { return r.counted("http.in.downstream_rq_active") == "0" })
	r.post(t, "/", "").want(t, http.StatusRequestEntityTooLarge, "too much")
}

func TestTrailers(t *testing.T) {
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprintf(w, "%s %s", body, r.Trailer.Get("X-Of-Request"))
		w.Header().Set("X-Sum", "7")
	})
	r := setup{routes: route("decode"), clusters: endpoint("decode", "", decode)}.start(t, nil)
	request, err := http.NewRequest(http.MethodPost, r.url, io.MultiReader(strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	request.Trailer = http.Header{"X-Of-Request": {"3"}}
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "body 3" || response.Trailer.Get("X-Sum") != "7" {
		t.Errorf("got %q with %v, %v", text, response.Trailer, err)
	}
}

func TestUpgradeIsRefused(t *testing.T) {
	decode := upstream(t, echo("decode"))
	r := setup{routes: route("decode"), clusters: endpoint("decode", "", decode)}.start(t, nil)
	request, err := http.NewRequest(http.MethodGet, r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "websocket")
	if got := r.do(t, request); got.status != http.StatusForbidden {
		t.Errorf("got %d, want 403", got.status)
	}
}

func TestStop(t *testing.T) {
	r := setup{routes: route("none"), clusters: endpoint("none", "")}.start(t, nil)
	r.get(t, "/").want(t, 503, "no healthy upstream")
	r.stop()
	if _, err := r.client.Get(r.url); err == nil {
		t.Error("it still serves")
	} else if errors.Is(err, context.DeadlineExceeded) {
		t.Error("the connection hangs")
	}
}
