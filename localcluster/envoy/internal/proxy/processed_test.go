package proxy_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// byModel sends each request to the upstream that its body names.
func byModel(endpoints map[string]string) func(seen) (string, *servicev3.ImmediateResponse, error) {
	return func(request seen) (string, *servicev3.ImmediateResponse, error) {
		var body struct{ Model string }
		if err := json.Unmarshal(request.body, &body); err != nil {
			return "", immediate(http.StatusBadRequest, "no JSON"), nil
		}
		if endpoints[body.Model] == "" {
			return "", immediate(http.StatusTooManyRequests, "no worker for "+body.Model), nil
		}
		return endpoints[body.Model], nil, nil
	}
}

func TestSteering(t *testing.T) {
	one, other := upstream(t, echo("one")), upstream(t, echo("other"))
	r := behind((&picker{pick: byModel(map[string]string{"a": one, "b": other})}).start(t)).start(t, nil)
	for range 3 {
		r.post(t, "/v1/completions", `{"model":"a"}`).want(t, 200, `one /v1/completions {"model":"a"}`)
		r.post(t, "/v1/completions", `{"model":"b"}`).want(t, 200, `other /v1/completions {"model":"b"}`)
	}
	r.post(t, "/v1/completions", `{"model":"c"}`).want(t, 429, "no worker for c")
	r.post(t, "/v1/completions", `{`).want(t, 400, "no JSON")
	got := r.post(t, "/v1/completions", `{"model":"a"}`)
	if got.header.Get("X-Went-Into-Resp-Headers") != "true" || got.header.Get("Content-Length") != "" || got.header.Get("Server") != "envoy" {
		t.Errorf("response headers: %v", got.header)
	}
	for name, want := range map[string]string{
		"http.in.ext_proc.streams_started": "9", "http.in.downstream_rq_2xx": "7", "http.in.downstream_rq_4xx": "2",
		"cluster.original.upstream_rq_total": "7", "cluster.original.membership_total": "2", "http.in.ext_proc.streams_failed": "",
	} {
		if got := r.counted(name); got != want && (want != "" || got != "0") {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestClientCantSteer has a client name an address itself.
func TestClientCantSteer(t *testing.T) {
	right, wrong := upstream(t, echo("right")), upstream(t, echo("wrong"))
	r := behind((&picker{pick: to(right)}).start(t)).start(t, nil)
	for _, body := range []io.Reader{nil, strings.NewReader("{}")} {
		request, err := http.NewRequest(http.MethodPost, r.url, body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Gateway-Destination-Endpoint", wrong)
		if got := r.do(t, request); !strings.HasPrefix(got.body, "right") {
			t.Errorf("the client chose: %d %q", got.status, got.body)
		}
	}
}

func TestPickedNowhere(t *testing.T) {
	for _, address := range []string{"", "nonsense", "10.0.0.1", "host:80"} {
		r := behind((&picker{pick: to(address)}).start(t)).start(t, nil)
		r.post(t, "/", "{}").want(t, 503, "no healthy upstream")
	}
}

// TestWhatThePickerSees looks at a request without a body, and at one whose body
// has a known and an unknown length.
func TestWhatThePickerSees(t *testing.T) {
	came := make(chan http.Header, 1)
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Clone()
		header.Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
		came <- header
		_, _ = io.Copy(w, r.Body)
	})
	requests := make(chan seen, 1)
	pick := &picker{pick: func(request seen) (string, *servicev3.ImmediateResponse, error) {
		requests <- request
		return decode, nil, nil
	}}
	r := behind(pick.start(t)).start(t, nil)
	r.get(t, "/v1/models?x=1").want(t, 200, "")
	saw := within(t, requests, "the request")
	if !saw.bodyless || saw.header[":method"] != "GET" || saw.header[":path"] != "/v1/models?x=1" || saw.header[":authority"] == "" ||
		saw.header[":scheme"] != "http" || len(saw.header["x-request-id"]) != 36 {
		t.Errorf("without a body: %+v", saw)
	}
	if header := within(t, came, "the request at the upstream"); header.Get("X-Gateway-Destination-Endpoint") != decode || header.Get("X-Length") != "0" {
		t.Errorf("the upstream got %v", header)
	}
	for name, body := range map[string]io.Reader{"known": strings.NewReader("{}"), "unknown": io.MultiReader(strings.NewReader("{}"))} {
		request, err := http.NewRequest(http.MethodPost, r.url, body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Mine", "1")
		r.do(t, request).want(t, 200, "{}")
		if saw := within(t, requests, "the request"); saw.bodyless || !saw.endOfBody || string(saw.body) != "{}" || saw.header["x-mine"] != "1" {
			t.Errorf("%s length: the picker saw %+v", name, saw)
		}
		// Content-length is gone: a streamed body may have any.
		if header := within(t, came, "the request at the upstream"); header.Get("X-Mine") != "1" || header.Get("X-Length") != "-1" || len(header["X-Mine"]) != 1 {
			t.Errorf("%s length: the upstream got %v", name, header)
		}
	}
}

// TestLargeBodies sends bodies both ways that no window holds.
func TestLargeBodies(t *testing.T) {
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Sum", fmt.Sprintf("%x", sha256.Sum256(body)))
		for _, b := range [][]byte{body[:100], body[100:]} {
			_, _ = w.Write(bytes.ToUpper(b))
		}
	})
	r := behind((&picker{pick: to(decode)}).start(t)).start(t, nil)
	body := strings.Repeat("abcdefghijk", 700_000)
	got := r.post(t, "/", body)
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(body))); got.header.Get("X-Sum") != want {
		t.Errorf("the upstream got another body")
	}
	if got.body != strings.ToUpper(body) {
		t.Errorf("the client got another body, of %d bytes", len(got.body))
	}
}

func TestPickerFails(t *testing.T) {
	decode := upstream(t, echo("decode"))
	refuse := func(seen) (string, *servicev3.ImmediateResponse, error) {
		return "", nil, status.Error(codes.Internal, "not today")
	}
	leave := func(seen) (string, *servicev3.ImmediateResponse, error) { return "", nil, errLeave }
	broken := &picker{pick: to(decode), onResponse: func(*servicev3.ProcessingRequest) error { return status.Error(codes.Internal, "no response") }}
	for name, address := range map[string]string{
		"is absent":             nobody(t),
		"fails":                 (&picker{pick: refuse}).start(t),
		"leaves":                (&picker{pick: leave}).start(t),
		"fails on the response": broken.start(t),
	} {
		t.Run(name, func(t *testing.T) {
			r := behind(address).start(t, nil)
			r.post(t, "/", "{}").want(t, 500, "")
			r.get(t, "/").want(t, 500, "")
		})
	}
}

// TestPickerOnlyPicks lets the picker go once it has picked: the response passes
// by without it.
func TestPickerOnlyPicks(t *testing.T) {
	decode := upstream(t, echo("decode"))
	modes := "request_header_mode: SEND, request_body_mode: NONE, response_header_mode: SEND"
	filter := strings.Split(pickerFilter, "processing_mode")[0] + "processing_mode: {" + modes + "}}}"
	r := setup{routes: route("original"), filters: filter, clusters: originalCluster + ", " + endpoint("epp", http2, serve(t, pickOnly{decode}, "127.0.0.1:0"))}.start(t, nil)
	for range 20 {
		r.post(t, "/x", "abc").want(t, 200, "decode /x abc")
	}
}

type pickOnly struct{ endpoint string }

func (p pickOnly) Process(stream servicev3.ExternalProcessor_ProcessServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	return stream.Send(&servicev3.ProcessingResponse{Response: &servicev3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &servicev3.HeadersResponse{Response: &servicev3.CommonResponse{
			HeaderMutation: &servicev3.HeaderMutation{SetHeaders: options("x-gateway-destination-endpoint", p.endpoint)},
		}},
	}})
}

// TestHeadersTimeOut has a processor that answers nothing, in the mode in which
// Envoy counts the time.
func TestHeadersTimeOut(t *testing.T) {
	never := make(chan struct{})
	mute := &picker{pick: func(seen) (string, *servicev3.ImmediateResponse, error) {
		<-never
		return "", nil, nil
	}}
	address := mute.start(t)
	t.Cleanup(func() { close(never) })
	filter := strings.Split(pickerFilter, "processing_mode")[0] + "message_timeout: 0.05s, processing_mode: {request_header_mode: SEND}}}"
	r := setup{routes: route("original"), filters: filter, clusters: originalCluster + ", " + endpoint("epp", http2, address)}.start(t, nil)
	r.get(t, "/").want(t, 504, "")
	if got := r.counted("http.in.ext_proc.message_timeouts"); got != "1" {
		t.Errorf("message_timeouts: got %s, want 1", got)
	}
}

// TestPickerComes starts without a picker, which then appears under its name, and
// moves to another address.
func TestPickerComes(t *testing.T) {
	decode := upstream(t, echo("decode"))
	first := (&picker{pick: to(decode)}).start(t)
	_, port, _ := net.SplitHostPort(first)
	table := &names{table: map[string][]string{}}
	r := behind("picker.svc:" + port)
	r.clusters = strings.Replace(r.clusters, "name: epp", "name: epp, dns_refresh_rate: 0.01s", 1)
	running := r.start(t, table)
	running.post(t, "/", "{}").want(t, 500, "")
	table.set("picker.svc", "127.0.0.1")
	until(t, "the picker is found", func() bool { return running.post(t, "/", "{}").status == 200 })
	table.set("picker.svc")
	until(t, "the picker is lost", func() bool { return running.post(t, "/", "{}").status == 500 })
	serve(t, &picker{pick: to(decode)}, "127.0.0.2:"+port)
	table.set("picker.svc", "127.0.0.2")
	until(t, "the picker is found again", func() bool { return running.post(t, "/", "{}").status == 200 })
}

// TestSecurePicker speaks to a picker with a certificate that it made itself.
func TestSecurePicker(t *testing.T) {
	decode := upstream(t, echo("decode"))
	own := httptest.NewUnstartedServer(nil)
	own.StartTLS()
	certificate := own.TLS.Certificates[0]
	own.Close()
	pick := &picker{pick: to(decode)}
	address := pick.start(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})))
	s := behind(address)
	s.clusters = strings.Replace(s.clusters, "name: epp", `name: epp, transport_socket: {name: tls, typed_config: {
		"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {validation_context: {}}}}`, 1)
	s.start(t, nil).post(t, "/", "{}").want(t, 200, "decode / {}")
}

// TestMutations has the processor change what it may and what it may not.
func TestMutations(t *testing.T) {
	came := make(chan *http.Request, 1)
	decode := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		came <- r
		w.Header().Set("X-Upstream", "1")
	})
	append1 := options("x-many", "2")[0]
	append1.AppendAction = corev3.HeaderValueOption_ADD_IF_ABSENT
	overwrite := options("x-absent", "1")[0]
	overwrite.AppendAction = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS
	changing := &mutator{mutation: &servicev3.HeaderMutation{
		RemoveHeaders: []string{"X-Secret", ":method", "host"},
		SetHeaders: append(append(append(append(append(options("x-gateway-destination-endpoint", decode), options(":path", "/other?y=2")...),
			options(":authority", "elsewhere")...), options("x-envoy-internal", "true")...), options("Content-Length", "77")...), append1, overwrite),
	}}
	r := behind(serve(t, changing, "127.0.0.1:0")).start(t, nil)
	request, err := http.NewRequest(http.MethodGet, r.url+"/path", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "here"
	request.Header.Set("X-Secret", "1")
	request.Header.Set("X-Many", "1")
	r.do(t, request).want(t, 200, "")
	got := within(t, came, "the request")
	if got.RequestURI != "/other?y=2" || got.Host != "here" || got.Method != http.MethodGet || got.Header.Get("X-Secret") != "" ||
		got.Header.Get("X-Envoy-Internal") != "" || got.ContentLength != 0 || got.Header.Get("X-Many") != "1" || got.Header.Get("X-Absent") != "" {
		t.Errorf("the upstream got %s %s of %s with %v", got.Method, got.RequestURI, got.Host, got.Header)
	}
	if got := r.counted("http.in.ext_proc.rejected_header_mutations"); got != "4" {
		t.Errorf("rejected: got %s, want 4", got)
	}
	changing.mutation = &servicev3.HeaderMutation{SetHeaders: options("x bad", "1")}
	r.get(t, "/").want(t, 500, "")
}

// mutator gives the same change of headers to every request.
type mutator struct {
	mutation *servicev3.HeaderMutation
}

func (m *mutator) Process(stream servicev3.ExternalProcessor_ProcessServer) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the stream's end
		}
		// The length would be wrong, and must not reach the client.
		response := &servicev3.HeadersResponse{Response: &servicev3.CommonResponse{
			HeaderMutation: &servicev3.HeaderMutation{SetHeaders: options("Content-Length", "5")},
		}}
		answer := &servicev3.ProcessingResponse{Response: &servicev3.ProcessingResponse_ResponseHeaders{ResponseHeaders: response}}
		if message.GetRequestHeaders() != nil {
			response.Response.HeaderMutation = m.mutation
			answer.Response = &servicev3.ProcessingResponse_RequestHeaders{RequestHeaders: response}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// TestRouteIsMatchedAgain only if the processor asks for it.
func TestRouteIsMatchedAgain(t *testing.T) {
	decode := upstream(t, echo("decode"))
	routes := `{match: {prefix: /, headers: [{name: x-gateway-destination-endpoint, present_match: true}]}, route: {cluster: original}},
		{match: {prefix: /}, direct_response: {status: 421, body: {inline_string: "no endpoint"}}}`
	for silent, want := range map[bool]int{false: 200, true: 421} {
		s := behind((&picker{pick: to(decode), silent: silent}).start(t))
		s.routes = routes
		if got := s.start(t, nil).post(t, "/", "{}"); got.status != want {
			t.Errorf("silent %v: got %d %q, want %d", silent, got.status, got.body, want)
		}
	}
}

// TestManyAtOnce runs many requests through the picker, to let the race detector
// and a mix-up of streams show.
func TestManyAtOnce(t *testing.T) {
	one, other := upstream(t, echo("one")), upstream(t, echo("other"))
	pick := &picker{pick: byModel(map[string]string{"a": one, "b": other})}
	r := behind(pick.start(t)).start(t, nil)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			for j := range 20 {
				name, model := "one", "a"
				if (i+j)%2 == 1 {
					name, model = "other", "b"
				}
				body := fmt.Sprintf(`{"model":"%s","prompt":"%d %d %s"}`, model, i, j, strings.Repeat("x", 1000*j))
				r.post(t, "/", body).want(t, 200, name+" / "+body)
			}
		})
	}
	group.Wait()
	until(t, "all streams end", func() bool {
		pick.mutex.Lock()
		defer pick.mutex.Unlock()
		return pick.open == 0 && pick.streams == 400
	})
}

// TestEarlyAnswer has the picker refuse while the client still sends.
func TestEarlyAnswer(t *testing.T) {
	r := behind(serve(t, refuser{}, "127.0.0.1:0")).start(t, nil)
	body, pipe := io.Pipe()
	defer pipe.Close()
	response, err := r.client.Post(r.url, "", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusTooManyRequests || string(text) != "full" {
		t.Errorf("got %d %q, %v", response.StatusCode, text, err)
	}
	until(t, "no request active", func() bool { return r.counted("http.in.downstream_rq_active") == "0" })
}

// refuser refuses at the headers.
type refuser struct{}

func (refuser) Process(stream servicev3.ExternalProcessor_ProcessServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	return stream.Send(&servicev3.ProcessingResponse{Response: &servicev3.ProcessingResponse_ImmediateResponse{ImmediateResponse: immediate(429, "full")}})
}
