package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/extproc"
)

// exchange is one request with its response.
type exchange struct {
	m       *manager
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	ctx     context.Context //nolint:containedctx // an exchange is the life of one request
	cancel  context.CancelCauseFunc
	start   time.Time

	// header and path are what the filters made of the request's.
	header             http.Header
	path, originalPath string
	route              *bootstrap.Route
	body               *requestBody
	processing         *extproc.Exchange
	// reading are bodies that somebody still reads.
	reading []<-chan struct{}

	// whole is the time limit of the request's reception.
	whole       *time.Timer
	idle        *time.Timer
	idleAfter   time.Duration
	timing      sync.Mutex
	timeout     *time.Timer
	headersSent atomic.Bool

	status                           int
	sent                             int64
	flags, serviceTime, upstreamHost string
	// abort says that the response can't be ended in order.
	abort bool
}

// clientGone tells whether the exchange ended because its client went away.
func (x *exchange) clientGone() bool {
	cause := context.Cause(x.ctx)
	return errors.Is(cause, context.Canceled) || errors.Is(cause, errClientGone)
}

// bodyFailed ends the exchange because the client broke off its request, unless
// it is the proxy that wants no more of it.
func (x *exchange) bodyFailed(err error) {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		x.cancel(errClientGone)
	}
}

func (m *manager) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{m: m, w: w, r: r, control: http.NewResponseController(w), start: time.Now()}
	x.ctx, x.cancel = context.WithCancelCause(r.Context())
	x.header = upstreamHeader(m.config, r)
	x.path = r.RequestURI
	if strings.HasPrefix(x.path, "http://") || strings.HasPrefix(x.path, "https://") {
		x.path = r.URL.RequestURI()
	}
	x.originalPath = x.path
	x.body = &requestBody{source: r.Body, length: r.ContentLength, touch: x.touch, failed: x.bodyFailed}
	if r.Body == http.NoBody || r.ContentLength == 0 {
		x.body.ended.Store(true)
	} else {
		// Otherwise Go would read the whole request before it lets a response out.
		_ = x.control.EnableFullDuplex()
		if m.config.RequestTimeout > 0 {
			x.whole = time.AfterFunc(m.config.RequestTimeout, x.requestTimedOut)
		}
	}
	return x
}

// requestTimedOut ends the exchange if the request isn't here whole yet.
func (x *exchange) requestTimedOut() {
	if !x.body.ended.Load() {
		x.cancel(errRequestTimeout)
	}
}

// interrupt has nobody wait for the rest of the request's body any more. Go then
// takes the client for gone, so that the exchange must have ended before.
func (x *exchange) interrupt() {
	if !x.body.ended.Load() {
		_ = x.control.SetReadDeadline(past)
	}
}

// past is a deadline that lets nothing wait.
var past = time.Unix(1, 0)

// touch notes that a byte went by.
func (x *exchange) touch() {
	if x.idle != nil {
		x.idle.Reset(x.idleAfter)
	}
}

// watch ends the exchange when no byte has gone by for so long.
func (x *exchange) watch(after time.Duration) {
	if after <= 0 {
		return
	}
	x.idleAfter = after
	x.idle = time.AfterFunc(after, func() {
		x.m.timeouts.Inc()
		x.cancel(errIdle)
		if x.headersSent.Load() {
			// The client may be the one that reads nothing.
			_ = x.control.SetWriteDeadline(past)
		}
	})
}

// requestEnded starts the route's timeout: Envoy counts it from the end of the
// request.
func (x *exchange) requestEnded() {
	x.timing.Lock()
	defer x.timing.Unlock()
	if x.timeout == nil && x.route.Timeout > 0 {
		x.timeout = time.AfterFunc(x.route.Timeout, func() { x.cancel(errRouteTimeout) })
	}
}

// end lets go of all that the exchange holds.
func (x *exchange) end() {
	if x.idle != nil {
		x.idle.Stop()
	}
	if x.whole != nil {
		x.whole.Stop()
	}
	x.timing.Lock()
	if x.timeout != nil {
		x.timeout.Stop()
	}
	x.timing.Unlock()
	x.cancel(errOver)
	x.interrupt()
	if x.processing != nil {
		x.processing.End()
	}
	for _, done := range x.reading {
		<-done
	}
}

func (x *exchange) serve() {
	config := x.m.config
	if config.HealthCheck != nil && allHeaders(config.HealthCheck.Headers, withPseudo(x.header, x.r.Method, x.r.Host, x.path)) {
		x.respond(x.m.health(), false)
		return
	}
	if x.r.Method == http.MethodConnect || x.r.Header.Get("Upgrade") != "" {
		x.respond(local(http.StatusForbidden, "", "-", "upgrade_failed"), false)
		return
	}
	x.matchRoute()
	idle := config.StreamIdleTimeout
	if x.route != nil && x.route.IdleTimeout != nil {
		idle = *x.route.IdleTimeout
	}
	x.watch(idle)
	if x.m.processor != nil {
		x.serveProcessed()
		return
	}
	x.respond(x.forward(x.plainBody(), x.r.ContentLength), false)
}

// plainBody is the request's own body, or nil.
func (x *exchange) plainBody() io.Reader {
	if x.r.Body == http.NoBody || x.r.ContentLength == 0 {
		return nil
	}
	return x.body
}

func (m *manager) health() *reply {
	if m.failing() {
		return local(http.StatusServiceUnavailable, "", "-", "health_check_failed")
	}
	return local(http.StatusOK, "", "-", "health_check_ok")
}

func (x *exchange) matchRoute() {
	x.route = match(x.m.config.VirtualHosts, x.r.Host, x.path, x.header)
}

// serveProcessed takes the request through the processor first.
func (x *exchange) serveProcessed() {
	processing, err := x.m.processor.Begin(x.ctx)
	if err != nil {
		x.respond(x.unprocessed(err), false)
		return
	}
	x.processing = processing
	answer, read, err := processing.Request(extproc.Message{
		Pseudo: []string{":method", x.r.Method, ":path", x.path, ":authority", x.r.Host, ":scheme", "http"},
		Header: x.header, Body: x.plainBody(), Length: x.r.ContentLength,
		Trailer: func() http.Header { return x.r.Trailer },
	})
	x.reading = append(x.reading, read)
	if err != nil {
		x.respond(x.unprocessed(err), false)
		return
	}
	target := extproc.Target{Header: x.header, Path: &x.path}
	if err := x.m.processor.Mutate(target, answer.Response.GetHeaderMutation()); err != nil {
		x.respond(x.unprocessed(err), false)
		return
	}
	if answer.Response.GetClearRouteCache() {
		x.matchRoute()
	}
	body, length := answer.Body, int64(-1)
	if body == nil {
		body, length = x.plainBody(), x.r.ContentLength
	}
	x.respond(x.forward(body, length), true)
}
