package proxy

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// maxReplay bounds the part of a request's body that is kept for a retry, in
// bytes: Envoy's default buffer of a connection.
const maxReplay = 1 << 20

// requestBody is the downstream request's body, watched while it is read.
type requestBody struct {
	source io.ReadCloser
	length int64
	count  atomic.Int64
	ended  atomic.Bool
	touch  func()
	// failed is told why a read failed before the end.
	failed func(error)
}

// Read is part of io.Reader.
func (b *requestBody) Read(into []byte) (int, error) {
	n, err := b.source.Read(into)
	count := b.count.Add(int64(n))
	b.touch()
	if errors.Is(err, io.EOF) || (b.length >= 0 && count >= b.length) {
		b.ended.Store(true)
	} else if err != nil {
		b.failed(err)
	}
	return n, err
}

// replay gives a body to one attempt after another, as long as what was read of
// it is known.
type replay struct {
	source io.Reader
	// keep says that a further attempt may come.
	keep bool
	// ended is called when the body was read to its end, every time.
	ended func()

	mutex sync.Mutex
	kept  []byte
	lost  bool
	last  *attemptBody
}

// attemptBody is the body as one attempt reads it.
type attemptBody struct {
	replay *replay
	at     int
	once   sync.Once
	closed chan struct{}
}

// open gives the body to an attempt.
func (r *replay) open() io.ReadCloser {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.last = &attemptBody{replay: r, closed: make(chan struct{})}
	return r.last
}

// again tells whether another attempt can have the whole body. It waits until
// the last attempt lets go of it.
func (r *replay) again(ctx context.Context) bool {
	if r == nil || r.last == nil {
		return true
	}
	select {
	case <-r.last.closed:
	case <-ctx.Done():
		return false
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return !r.lost
}

// Read is part of io.Reader.
func (a *attemptBody) Read(into []byte) (int, error) {
	r := a.replay
	r.mutex.Lock()
	defer r.mutex.Unlock()
	select {
	case <-a.closed:
		return 0, io.ErrClosedPipe
	default:
	}
	if a.at < len(r.kept) {
		n := copy(into, r.kept[a.at:])
		a.at += n
		return n, nil
	}
	n, err := r.source.Read(into)
	switch {
	case !r.keep || len(r.kept)+n > maxReplay:
		r.lost = r.lost || n > 0
		r.kept = nil
	default:
		r.kept = append(r.kept, into[:n]...)
		a.at += n
	}
	if errors.Is(err, io.EOF) {
		r.ended()
	}
	return n, err
}

// Close is part of io.Closer. The body itself stays for another attempt.
func (a *attemptBody) Close() error {
	a.once.Do(func() { close(a.closed) })
	return nil
}
