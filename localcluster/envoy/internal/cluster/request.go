package cluster

import (
	"context"
	"net/http"
	"sync/atomic"
)

// slots are a circuit breaker: so many at once, and so many more that wait.
type slots struct {
	free    chan struct{}
	pending atomic.Int64
	limit   int64
}

func newSlots(count, pending int) *slots {
	return &slots{free: make(chan struct{}, max(count, 0)), limit: int64(pending)}
}

func (s *slots) take(ctx context.Context) error {
	select {
	case s.free <- struct{}{}:
		return nil
	default:
	}
	if s.pending.Add(1) > s.limit {
		s.pending.Add(-1)
		return ErrOverflow
	}
	defer s.pending.Add(-1)
	select {
	case s.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *slots) release() { <-s.free }

// Attempt is a request's place at a host; Done gives it back.
type Attempt struct {
	Host    *Host
	cluster *Cluster
	done    atomic.Bool
}

// Begin chooses a host and takes a place within the circuit breakers, waiting
// for one if there is room to wait.
func (c *Cluster) Begin(ctx context.Context, header http.Header) (*Attempt, error) {
	host, err := c.Choose(header)
	if err != nil {
		return nil, err
	}
	if err := c.slots.take(ctx); err != nil {
		c.overflow.Inc()
		return nil, err
	}
	host.Active.Add(1)
	host.Total.Add(1)
	c.requests.Inc()
	return &Attempt{Host: host, cluster: c}, nil
}

// Do sends the request to the attempt's host. The response's body must be closed
// before Done.
func (a *Attempt) Do(request *http.Request) (*http.Response, error) {
	request.URL.Host = a.Host.Address
	request.URL.Scheme = "http"
	if a.cluster.TLS != nil {
		request.URL.Scheme = "https"
	}
	response, err := a.cluster.transport.RoundTrip(request)
	if err != nil {
		a.Host.Errors.Add(1)
		return nil, err
	}
	a.cluster.scope.Code(response.StatusCode)
	if response.StatusCode >= 500 {
		a.Host.Errors.Add(1)
	}
	return response, nil
}

// Done ends the attempt; more than once is the same as once.
func (a *Attempt) Done() {
	if a.done.CompareAndSwap(false, true) {
		a.Host.Active.Add(-1)
		a.cluster.slots.release()
	}
}

// BeginRetry takes one of the cluster's max_retries; EndRetry gives it back.
func (c *Cluster) BeginRetry() bool {
	if c.retries.Add(1) > int64(c.MaxRetries) {
		c.retries.Add(-1)
		c.scope.Counter("upstream_rq_retry_overflow").Inc()
		return false
	}
	c.scope.Counter("upstream_rq_retry").Inc()
	return true
}

// EndRetry ends what BeginRetry began.
func (c *Cluster) EndRetry() { c.retries.Add(-1) }

// TimedOut counts a request that took too long.
func (c *Cluster) TimedOut() { c.scope.Counter("upstream_rq_timeout").Inc() }

// Gone counts a request that failed locally with a status, as Envoy counts its
// own answers among the cluster's.
func (c *Cluster) Gone(code int) { c.scope.Code(code) }

// BeginStream counts a gRPC stream, which doesn't go through Begin.
func (c *Cluster) BeginStream() { c.requests.Inc() }
