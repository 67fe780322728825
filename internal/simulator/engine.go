package simulator

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/internal/latency"
	"github.com/slipway-dev/slipway/internal/openai"
)

// engine is one rank's batch, queue and prefix cache. It paces requests and
// knows nothing of HTTP.
type engine struct {
	config  *Config
	clock   Clock
	metrics *metrics
	fake    func() *FakeMetrics // nil for none
	paced   bool                // whether any latency is set at all

	sequence atomic.Uint64 // numbers the requests, for their random numbers
	asleep   atomic.Bool

	mu         sync.Mutex
	batch      latency.Batch
	cache      *latency.Cache
	lorasAt    time.Time // when the adapters that run or wait last changed
	runningNow atomic.Int64
}

func newEngine(config *Config, clock Clock) *engine {
	e := &engine{
		config: config,
		clock:  clock,
		batch: latency.Batch{
			Limit:    config.MaxNumSeqs,
			Queue:    config.MaxWaiting,
			Adapters: config.MaxLoRAs,
		},
		cache:   latency.NewCache(config.KVCacheSize),
		lorasAt: clock.Now(),
	}
	e.paced = !config.Latency.Instant()
	e.metrics = newMetrics(e)
	return e
}

// stay is one request's time in the engine: enter, prefill, step for each
// further token, leave.
type stay struct {
	engine *engine
	rng    *rand.Rand
	source rand.PCG
	seat   latency.Seat
	ready  chan struct{}
	blocks []latency.Block
	held   []latency.Block
	prompt latency.Prompt
	// threshold is the share of the prompt that must be cached for the request
	// to be answered here.
	threshold float64

	arrived, started, first, due time.Time
}

// seedFor makes a request's random numbers: from its own seed, which always
// gives the same answer, or else from the server's and the request's number.
func (s *stay) seedFor(own *int64) {
	if own != nil {
		s.source.Seed(uint64(*own), 0x736c6970)
	} else {
		// The odd factor spreads consecutive numbers over all bits.
		s.source.Seed(uint64(s.engine.config.Seed), s.engine.sequence.Add(1)*0x9e3779b97f4a7c15)
	}
	if s.rng == nil {
		s.rng = rand.New(&s.source)
	}
}

// enter waits for a place in the batch. It returns an error with status 429
// when the queue is full, and the context's when the client went away.
func (s *stay) enter(ctx context.Context, adapter string) error {
	e := s.engine
	s.arrived = e.clock.Now()
	s.seat = latency.Seat{Adapter: adapter}
	e.mu.Lock()
	verdict := e.arrive(s)
	e.mu.Unlock()
	switch verdict {
	case latency.Reject:
		return openai.Errorf(http.StatusTooManyRequests,
			"The queue is full: %d requests run and %d wait. Try again later.", e.config.MaxNumSeqs, e.config.MaxWaiting)
	case latency.Run:
		s.started = s.arrived
		return nil
	}
	select {
	case <-s.ready:
		s.started = e.clock.Now()
		return nil
	case <-ctx.Done():
		s.quit()
		return ctx.Err()
	}
}

// arrive asks for a seat and, with one, for the prompt's blocks. The caller
// holds the lock.
func (e *engine) arrive(s *stay) latency.Verdict {
	s.seat.Admitted = func() {
		e.hold(s)
		close(s.ready)
	}
	verdict := e.batch.Arrive(&s.seat)
	switch verdict {
	case latency.Run:
		e.hold(s)
	case latency.Wait:
		s.ready = make(chan struct{})
	}
	e.changed(s)
	return verdict
}

// hold takes the prompt's blocks for a request that starts now. The caller
// holds the lock.
func (e *engine) hold(s *stay) {
	if !e.config.EnableKVCache {
		return
	}
	hits := e.cache.Peek(s.blocks)
	s.prompt.Cached = hits * e.config.BlockSize
	if !s.cold() {
		_, s.held = e.cache.Acquire(s.blocks)
	}
}

// changed notes what the lock guards and others read without it.
func (e *engine) changed(s *stay) {
	e.runningNow.Store(int64(e.batch.Running()))
	if s.seat.Adapter != "" {
		e.lorasAt = e.clock.Now()
	}
}

// quit gives back the request's place and blocks.
func (s *stay) quit() {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(s.held) > 0 {
		e.cache.Release(s.held)
		s.held = nil
	}
	e.batch.Leave(&s.seat)
	e.changed(s)
}

// cold tells that the prefix cache holds less of the prompt than the request
// asks for. Such a request computes nothing, and leaves nothing in the cache.
func (s *stay) cold() bool {
	return float64(s.prompt.Cached) < s.threshold*float64(s.prompt.Tokens)
}

// prefill takes the time until the first token.
func (s *stay) prefill(ctx context.Context) error {
	e := s.engine
	if !e.paced || s.cold() {
		s.first = s.started
		return nil
	}
	wait := e.config.Latency.TimeToFirstToken(s.rng, s.prompt, int(e.runningNow.Load()))
	s.due = s.started.Add(wait)
	if err := e.sleepUntil(ctx, s.due); err != nil {
		return err
	}
	s.first = e.clock.Now()
	return nil
}

// step takes the time until the next token. Tokens are due at fixed times, so
// that a late timer does not slow down all that follow.
func (s *stay) step(ctx context.Context) error {
	e := s.engine
	if !e.paced {
		return nil
	}
	wait := e.config.Latency.TimeToNextToken(s.rng, int(e.runningNow.Load()))
	if wait == 0 {
		return nil
	}
	s.due = s.due.Add(wait)
	return e.sleepUntil(ctx, s.due)
}

func (e *engine) sleepUntil(ctx context.Context, due time.Time) error {
	if wait := due.Sub(e.clock.Now()); wait > 0 {
		return e.clock.Sleep(ctx, wait)
	}
	return nil
}

// embed paces a request that only reads its prompt.
func (s *stay) embed(ctx context.Context) error {
	if err := s.enter(ctx, ""); err != nil {
		return err
	}
	defer s.quit()
	return s.prefill(ctx)
}

// dropCache forgets every prompt that no running request uses.
func (e *engine) dropCache() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cache.Clear()
}

// gone tells that an error means that nobody waits for the answer any more.
func gone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
