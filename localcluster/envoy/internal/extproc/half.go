package extproc

import (
	"context"
	"io"
	"sync"

	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// queued is how many chunks of a body wait for a slow reader before the stream
// does. A chunk of a picker has at most 62,000 bytes, so that this is 1 MB.
const queued = 16

// half is a request or a response on its way through the processor. Its states:
//
//	idle      nothing was sent                  any answer is spurious
//	asked     headers were sent                 headers may come, once
//	streaming headers came, a body was sent     chunks and trailers may come
//	over      the last chunk or trailers came   any answer is spurious
type half struct {
	headers  chan *servicev3.CommonResponse
	chunks   chan []byte
	left     chan struct{}
	leaving  sync.Once
	trailers *servicev3.HeaderMutation

	mutex    sync.Mutex
	state    state
	streamed bool
}

type state int

const (
	idle state = iota
	asked
	streaming
	over
)

func (h *half) init() {
	h.headers = make(chan *servicev3.CommonResponse, 1)
	h.chunks = make(chan []byte, queued)
	h.left = make(chan struct{})
}

// ask notes that headers are about to be sent, and whether a body follows.
func (h *half) ask(streamed bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.state, h.streamed = asked, streamed
}

// owed tells whether the processor has yet to answer.
func (h *half) owed() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.state == asked || h.state == streaming
}

// leave notes that the processor has gone in peace.
func (h *half) leave() { h.leaving.Do(func() { close(h.left) }) }

func (h *half) gone() bool {
	select {
	case <-h.left:
		return true
	default:
		return false
	}
}

// move goes from one state to the next, or says that the answer fits none.
func (h *half) move(from, to state) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.state != from {
		return ErrSpurious
	}
	h.state = to
	return nil
}

func (h *half) onHeaders(answer *servicev3.CommonResponse) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.state != asked {
		return ErrSpurious
	}
	h.state = over
	if h.streamed {
		h.state = streaming
	}
	h.headers <- answer
	return nil
}

func (h *half) onBody(ctx context.Context, answer *servicev3.CommonResponse) error {
	chunk := answer.GetBodyMutation().GetStreamedResponse()
	if chunk == nil {
		return ErrSpurious
	}
	if err := h.move(streaming, streaming); err != nil {
		return err
	}
	if len(chunk.GetBody()) > 0 {
		select {
		case h.chunks <- chunk.GetBody():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if !chunk.GetEndOfStream() {
		return nil
	}
	close(h.chunks)
	return h.move(streaming, over)
}

func (h *half) onTrailers(mutation *servicev3.HeaderMutation) error {
	if err := h.move(streaming, over); err != nil {
		return err
	}
	h.trailers = mutation
	close(h.chunks)
	return nil
}

// body reads the chunks that the processor gives in place of a body.
type body struct {
	exchange *Exchange
	half     *half
	rest     []byte
}

// Read waits for the next chunk. Its error is io.EOF at the body's end, or why
// the exchange failed.
func (b *body) Read(into []byte) (int, error) {
	for len(b.rest) == 0 {
		select {
		case chunk, ok := <-b.half.chunks:
			if !ok {
				return 0, io.EOF
			}
			b.rest = chunk
			continue
		default:
		}
		select {
		case chunk, ok := <-b.half.chunks:
			if !ok {
				return 0, io.EOF
			}
			b.rest = chunk
		case <-b.exchange.ctx.Done():
			return 0, b.exchange.Err()
		}
	}
	n := copy(into, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// More tells whether something can be read without waiting.
func (b *body) More() bool { return len(b.rest) > 0 || len(b.half.chunks) > 0 }
