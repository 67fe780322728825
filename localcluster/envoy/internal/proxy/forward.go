package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/cluster"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/extproc"
)

// backoff is the longest pause before the first retry; it doubles. That is
// Envoy's default.
const backoff = 25 * time.Millisecond

// maxBackoff bounds the pause, ten times the first.
const maxBackoff = 10 * backoff

// forward sends the request to the route's cluster, again where the retry policy
// says so, and returns what is to be answered. body is nil if there is none.
func (x *exchange) forward(body io.Reader, length int64) *reply {
	if x.route == nil {
		return local(http.StatusNotFound, "", "NR", "route_not_found")
	}
	if direct := x.route.Direct; direct != nil {
		return local(direct.Status, direct.Body, "-", "direct_response")
	}
	upstream := x.m.clusters[x.route.Cluster]
	for _, name := range x.route.Remove {
		x.header.Del(name)
	}
	if x.route.Timeout > 0 {
		x.header["X-Envoy-Expected-Rq-Timeout-Ms"] = []string{milliseconds(x.route.Timeout)}
	}
	var again *replay
	if body != nil {
		again = &replay{source: body, keep: len(x.route.Retry.On) > 0, ended: x.requestEnded}
	} else {
		x.requestEnded()
	}
	for attempt := 0; ; attempt++ {
		answer := x.attempt(upstream, again, length, attempt)
		if attempt >= x.route.Retry.Max || !retriable(x.route.Retry, answer) || x.ctx.Err() != nil || !again.again(x.ctx) {
			return answer
		}
		if !upstream.BeginRetry() {
			return answer
		}
		answer.close()
		x.pause(attempt)
		upstream.EndRetry()
		if x.ctx.Err() != nil {
			return x.gone(upstream, nil, false)
		}
	}
}

// pause waits before a retry: a fraction of a bound that doubles, the same for
// the same instant, so that it needs no source of chance.
func (x *exchange) pause(attempt int) {
	bound := min(backoff<<attempt, maxBackoff)
	timer := time.NewTimer(time.Duration(time.Now().UnixNano()) % bound)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.ctx.Done():
	}
}

// retriable tells whether a policy wants an answer of this kind tried again.
func retriable(policy bootstrap.Retry, answer *reply) bool {
	on := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(policy.On, name) })
	}
	if answer.reset != nil {
		connect := errors.Is(answer.reset, cluster.ErrConnect)
		if errors.Is(answer.reset, cluster.ErrNoHost) || errors.Is(answer.reset, cluster.ErrOverflow) {
			return false
		}
		return on("5xx", "gateway-error", "reset") || (connect && on("connect-failure"))
	}
	if answer.details != viaUpstream {
		return false
	}
	switch {
	case answer.status >= 500 && on("5xx"):
		return true
	case answer.status >= 502 && answer.status <= 504 && on("gateway-error"):
		return true
	case answer.status == http.StatusConflict && on("retriable-4xx"):
		return true
	}
	return on("retriable-status-codes") && slices.Contains(policy.StatusCodes, answer.status)
}

// viaUpstream marks an answer that an upstream gave.
const viaUpstream = "via_upstream"

// attempt asks one host.
func (x *exchange) attempt(upstream *cluster.Cluster, again *replay, length int64, number int) *reply {
	ctx, cancel := context.WithCancelCause(x.ctx)
	place, err := upstream.Begin(ctx, x.header)
	if err != nil {
		cancel(errOver)
		return x.gone(upstream, err, number > 0)
	}
	release := func() {
		cancel(errOver)
		place.Done()
	}
	x.upstreamHost = place.Host.Address
	if limit := x.route.Retry.PerTryTimeout; limit > 0 {
		timer := time.AfterFunc(limit, func() {
			if !x.body.ended.Load() {
				// Without its body the request can't be tried again.
				x.cancel(errPerTryTimeout)
			}
			cancel(errPerTryTimeout)
		})
		defer timer.Stop()
	}
	began := time.Now()
	kept := func() bool { return true }
	if again != nil {
		// The upstream's connection waits for who reads the body.
		kept = context.AfterFunc(x.ctx, x.interrupt)
	}
	response, err := place.Do(x.outgoing(ctx, again, length))
	kept()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		release()
		return x.gone(upstream, err, number > 0)
	}
	return x.upstreamReply(response, time.Since(began), release)
}

func (x *exchange) upstreamReply(response *http.Response, took time.Duration, release func()) *reply {
	header := response.Header
	removeHopByHop(header)
	x.serviceTime = milliseconds(took)
	header["X-Envoy-Upstream-Service-Time"] = []string{x.serviceTime}
	answer := &reply{
		status: response.StatusCode, header: header, body: response.Body, length: response.ContentLength, details: viaUpstream,
		trailer: func() http.Header { return response.Trailer },
		close: func() {
			response.Body.Close()
			release()
		},
	}
	if response.ContentLength == 0 || response.Body == http.NoBody || x.r.Method == http.MethodHead {
		answer.body = nil
	}
	return answer
}

// gone is the answer when no upstream gave one.
func (x *exchange) gone(upstream *cluster.Cluster, err error, retried bool) *reply {
	if cause := context.Cause(x.ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errRouteTimeout) {
		upstream.TimedOut()
	}
	var failure *extproc.Failure
	var immediate *extproc.Immediate
	if errors.As(err, &failure) || errors.As(err, &immediate) || errors.Is(err, extproc.ErrSpurious) {
		return x.unprocessed(err)
	}
	answer := failed(err, retried)
	answer.reset = err
	upstream.Gone(answer.status)
	return answer
}

// outgoing is the request as the upstream gets it.
func (x *exchange) outgoing(ctx context.Context, again *replay, length int64) *http.Request {
	target := &url.URL{Path: x.r.URL.Path, RawPath: x.r.URL.RawPath, RawQuery: x.r.URL.RawQuery, ForceQuery: x.r.URL.ForceQuery}
	if x.path != x.originalPath {
		if parsed, err := url.ParseRequestURI(x.path); err == nil {
			target = parsed
		}
	}
	request := &http.Request{
		Method: x.r.Method, URL: target, Host: x.r.Host, Header: x.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if again != nil {
		request.Body, request.ContentLength, request.Trailer = again.open(), length, x.r.Trailer
	}
	return request.WithContext(ctx)
}
