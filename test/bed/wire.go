// Package bed is what the tests of the apply engine and of the controllers on
// it share: a transport that sees and disturbs requests to the API server, an
// owner with its inventory, objects to want, and a picture of the world to
// compare. It asserts nothing about the engine.
package bed

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Fault is what happens to one write.
type Fault int

// The faults. After a death no request is answered any more, until the wire is
// mended: the process is gone.
const (
	None       Fault = iota
	DieBefore        // dead before the write was sent
	DieAfter         // dead after the write took effect, its answer unread
	LoseAnswer       // the write takes effect, its answer never comes
	Fail             // 500, nothing is written
	Conflict         // 409, nothing is written
	Throttle         // 429 without Retry-After, nothing is written
)

// String names a fault in a test.
func (f Fault) String() string {
	return [...]string{"none", "death-before", "death-after", "lost-answer", "500", "409", "429"}[f]
}

// Lethal reports whether the process is gone after the fault.
func (f Fault) Lethal() bool { return f == DieBefore || f == DieAfter }

// Call is a request that was made.
type Call struct {
	Method string
	Path   string
}

// Writes reports whether a request may have changed something.
func (c Call) Writes() bool { return c.Method != http.MethodGet }

// Wire is the way to the API server.
type Wire struct {
	mu      sync.Mutex
	calls   []Call
	writes  int
	disturb func(n int, call Call) Fault
	dead    bool
}

// errDead and errLost are how a client sees what happened to its request.
var (
	errDead = errors.New("the process is dead")
	errLost = errors.New("read tcp: i/o timeout")
)

// Through gives a configuration whose requests go over the wire, without a
// limit on their rate.
func (w *Wire) Through(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &end{wire: w, next: next} })
	return config
}

// Disturb asks a function what happens to each write from now on, numbered from
// 1. Nil mends the wire.
func (w *Wire) Disturb(disturb func(n int, call Call) Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disturb, w.writes, w.dead = disturb, 0, false
}

// DisturbOne lets one fault happen, to the n-th write from now on.
func (w *Wire) DisturbOne(n int, fault Fault) {
	w.Disturb(func(at int, _ Call) Fault {
		if at == n {
			return fault
		}
		return None
	})
}

// Take gives the requests since the last Take, watches and discovery left out.
func (w *Wire) Take() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

// TakeWrites is Take without the reads.
func (w *Wire) TakeWrites() []Call {
	var writes []Call
	for _, call := range w.Take() {
		if call.Writes() {
			writes = append(writes, call)
		}
	}
	return writes
}

func (w *Wire) next(request *http.Request) Fault {
	call, n, disturb, dead := w.note(request)
	switch {
	case dead:
		return DieBefore
	case disturb == nil:
		return None
	}
	fault := disturb(n, call)
	if fault.Lethal() {
		w.mu.Lock()
		w.dead = true
		w.mu.Unlock()
	}
	return fault
}

// note counts a request and gives what there is to ask about it.
func (w *Wire) note(request *http.Request) (Call, int, func(int, Call) Fault, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	query := request.URL.Query()
	call := Call{Method: request.Method, Path: request.URL.Path}
	if w.dead || query.Get("watch") != "" || isDiscovery(call) {
		return call, 0, nil, w.dead
	}
	w.calls = append(w.calls, call)
	if !call.Writes() || query.Get("dryRun") != "" {
		return call, 0, nil, false
	}
	w.writes++
	return call, w.writes, w.disturb, false
}

// isDiscovery reports whether a request asks which kinds are served: /api,
// /apis/GROUP/VERSION and the like. A namespace's own path is longer.
func isDiscovery(call Call) bool {
	parts := strings.Split(strings.Trim(call.Path, "/"), "/")
	return !call.Writes() && (parts[0] == "api" && len(parts) < 3 || parts[0] == "apis" && len(parts) < 4)
}

type end struct {
	wire *Wire
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (e *end) RoundTrip(request *http.Request) (*http.Response, error) {
	fault := e.wire.next(request)
	switch fault {
	case DieBefore:
		return nil, errDead
	case Fail:
		return refusal(request, http.StatusInternalServerError, "InternalError"), nil
	case Conflict:
		return refusal(request, http.StatusConflict, "Conflict"), nil
	case Throttle:
		return refusal(request, http.StatusTooManyRequests, "TooManyRequests"), nil
	case None, DieAfter, LoseAnswer:
	}
	response, err := e.next.RoundTrip(request)
	if err != nil || fault == None {
		return response, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if fault == DieAfter {
		return nil, errDead
	}
	return nil, errLost
}

func refusal(request *http.Request, code int, reason string) *http.Response {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":"` + reason + `"}`
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{"Content-Type": []string{"application/json"}},
		Body:    io.NopCloser(strings.NewReader(body)),
		Request: request,
	}
}
