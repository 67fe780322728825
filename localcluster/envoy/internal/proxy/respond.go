package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/extproc"
)

// buffers are the windows that bodies go through.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// respond answers the client, through the processor if it is to see the answer.
func (x *exchange) respond(answer *reply, processed bool) {
	defer func() { answer.close() }()
	x.flags = answer.flags
	if processed && x.processing != nil && x.ctx.Err() == nil {
		if answer = x.process(answer); x.abort {
			return
		}
	}
	x.status = answer.status
	if x.clientGone() {
		// Nobody is there any more to answer.
		x.m.resets.Inc()
		x.flags, x.status, x.abort = "DC", 0, true
		return
	}
	x.writeHeader(answer)
	if answer.body == nil || x.r.Method == http.MethodHead {
		return
	}
	if err := x.copy(answer); err != nil {
		x.flags, x.abort = flagsOf(err), true
		// Envoy writes out what it has before it closes the connection.
		_ = x.control.Flush()
	}
}

// flagsOf says in the access log why a response ended before its end.
func flagsOf(err error) string {
	switch {
	case errors.Is(err, errRouteTimeout):
		return "UT"
	case errors.Is(err, errIdle):
		return "SI"
	case errors.Is(err, context.Canceled), errors.Is(err, errClientGone):
		return "DC"
	}
	return "UC"
}

// process takes the answer through the processor. If that fails, the answer is
// what becomes of the failure.
func (x *exchange) process(answer *reply) *reply {
	config := x.m.processor.Config().Response
	shown, read, err := x.processing.Response(extproc.Message{
		Pseudo: []string{":status", strconv.Itoa(answer.status)},
		Header: answer.header, Body: answer.body, Length: answer.length, Trailer: answer.trailer,
	})
	x.reading = append(x.reading, read)
	if err == nil {
		err = x.m.processor.Mutate(extproc.Target{Header: answer.header, Status: &answer.status}, shown.Response.GetHeaderMutation())
	}
	var broken *extproc.BodyError
	if errors.As(err, &broken) && x.ctx.Err() == nil {
		// The upstream had begun to answer, so that its end is the client's.
		x.flags, x.abort = "UC", true
		return answer
	}
	if err != nil {
		instead := x.unprocessed(err)
		instead.close = answer.close
		return instead
	}
	if shown.Body == nil {
		return answer
	}
	if config.Body == bootstrap.FullDuplex {
		delete(answer.header, "Content-Length")
	}
	answer.body, answer.length = shown.Body, -1
	trailer := answer.trailer
	answer.trailer = func() http.Header {
		if trailer == nil || len(trailer()) == 0 {
			return nil
		}
		all := trailer().Clone()
		_ = x.m.processor.Mutate(extproc.Target{Header: all}, shown.Trailers())
		return all
	}
	return answer
}

func (x *exchange) writeHeader(answer *reply) {
	header := x.w.Header()
	for name, values := range answer.header {
		header[name] = values
	}
	header["Server"] = []string{x.m.config.ServerName}
	if x.r.ProtoMajor < 2 && !x.body.ended.Load() {
		// What the client still sends of the request can't be told from the next one.
		header["Connection"] = []string{"close"}
	}
	if x.outlived() {
		// With HTTP/2 this becomes GOAWAY.
		header["Connection"] = []string{"close"}
	}
	x.headersSent.Store(true)
	x.w.WriteHeader(answer.status)
}

// copy streams the body, and lets out every piece as it comes.
func (x *exchange) copy(answer *reply) error {
	buffer := buffers.Get().(*[32 << 10]byte) //nolint:forcetypeassert // nothing else is in the pool
	defer buffers.Put(buffer)
	more, _ := answer.body.(interface{ More() bool })
	settle := x.flushSoon()
	for {
		n, err := answer.body.Read(buffer[:])
		settle()
		if n > 0 {
			x.touch()
			written, failed := x.w.Write(buffer[:n])
			x.sent += int64(written)
			if failed != nil {
				return x.cause(failed)
			}
			last := x.sent == answer.length || (more != nil && more.More())
			if err == nil && !last {
				if err := x.control.Flush(); err != nil {
					return x.cause(err)
				}
			}
		}
		if errors.Is(err, io.EOF) {
			x.writeTrailers(answer)
			return nil
		}
		if err != nil {
			return x.cause(err)
		}
	}
}

// headDelay is how long a response's headers wait for the first piece of the
// body, so that both go out together where the upstream sent them together.
const headDelay = time.Millisecond

// flushSoon lets the headers out shortly, if the body keeps them waiting. What it
// returns must be called before anything else is written.
func (x *exchange) flushSoon() (settle func()) {
	var mutex sync.Mutex
	settled := false
	timer := time.AfterFunc(headDelay, func() {
		mutex.Lock()
		defer mutex.Unlock()
		if !settled {
			_ = x.control.Flush()
		}
	})
	return func() {
		if settled {
			return
		}
		timer.Stop()
		mutex.Lock()
		defer mutex.Unlock()
		settled = true
	}
}

// cause is why the exchange ended, rather than what that made of a read.
func (x *exchange) cause(err error) error {
	if cause := context.Cause(x.ctx); cause != nil {
		return cause
	}
	return err
}

func (x *exchange) writeTrailers(answer *reply) {
	if answer.trailer == nil {
		return
	}
	trailer := answer.trailer()
	if len(trailer) > 0 {
		// A body of a known length has no trailers: the response becomes one of chunks.
		_ = x.control.Flush()
	}
	for name, values := range trailer {
		x.w.Header()[http.TrailerPrefix+name] = values
	}
}
