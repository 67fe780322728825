package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/status"
)

// ErrTimeout is what an answer to headers that took longer than message_timeout
// ends in. ErrSpurious is what an answer to no question ends in.
var (
	ErrTimeout  = errors.New("ext_proc_error_message_timeout")
	ErrSpurious = errors.New("ext_proc_error_spurious_message")
)

// errEnded is the cause of a context whose exchange is over.
var errEnded = errors.New("the exchange is over")

// Failure is a stream that the processor ended with an error.
type Failure struct{ Code uint32 }

// Error is the response code detail that Envoy logs.
func (f *Failure) Error() string { return fmt.Sprintf("ext_proc_error_gRPC_error_%d", f.Code) }

// BodyError is a body that broke off while it was shown to the processor.
type BodyError struct{ cause error }

// Error says why.
func (b *BodyError) Error() string { return "the body broke off: " + b.cause.Error() }

// Unwrap is the cause.
func (b *BodyError) Unwrap() error { return b.cause }

// Immediate is an answer that the processor wants sent instead of the upstream's.
type Immediate struct{ *servicev3.ImmediateResponse }

// Error says that the processor answered.
func (i *Immediate) Error() string { return "the processor answered with an immediate response" }

// Exchange is one request and its response as the processor sees them.
type Exchange struct {
	filter *Filter
	ctx    context.Context //nolint:containedctx // an exchange is the life of one request
	cancel context.CancelCauseFunc
	stream servicev3.ExternalProcessor_ProcessClient

	sending  sync.Mutex
	first    bool
	finished chan struct{}

	request, response half
}

// Begin opens the request's stream. Its error says why there is no answer.
func (f *Filter) Begin(ctx context.Context) (*Exchange, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	f.upstream.BeginStream()
	stream, err := f.client.Process(ctx)
	if err != nil {
		cancel(errEnded)
		f.failed.Inc()
		f.upstream.Gone(statusUnavailable)
		return nil, &Failure{uint32(status.Code(err))}
	}
	f.started.Inc()
	x := &Exchange{filter: f, ctx: ctx, cancel: cancel, stream: stream, first: true, finished: make(chan struct{})}
	x.request.init()
	x.response.init()
	go x.receive()
	return x, nil
}

const statusUnavailable = 503

// End closes the stream and waits until nothing of it runs any more.
func (x *Exchange) End() {
	// A send that waits for room holds the lock, and ends with the context.
	if x.sending.TryLock() {
		_ = x.stream.CloseSend()
		x.sending.Unlock()
	}
	x.cancel(errEnded)
	<-x.finished
}

// Err is why the exchange failed, nil if it didn't.
func (x *Exchange) Err() error { return context.Cause(x.ctx) }

// receive hands the processor's answers to the half that they belong to, and
// waits while that half is full.
func (x *Exchange) receive() {
	defer close(x.finished)
	for {
		message, err := x.stream.Recv()
		if err != nil {
			x.close(err)
			return
		}
		x.filter.received.Inc()
		if err := x.dispatch(message); err != nil {
			if errors.Is(err, ErrSpurious) {
				x.filter.spurious.Inc()
			}
			x.cancel(err)
			return
		}
	}
}

// close takes the stream's end into account. A processor may end a stream in
// peace once it owes no answer; what follows then passes by without it.
func (x *Exchange) close(err error) {
	switch {
	case x.ctx.Err() != nil:
		x.filter.closed.Inc()
		x.filter.upstream.Gone(200)
	case errors.Is(err, io.EOF):
		x.filter.closed.Inc()
		x.filter.upstream.Gone(200)
		if x.request.owed() || x.response.owed() {
			x.cancel(&Failure{0})
			return
		}
		x.response.leave()
	default:
		x.filter.failed.Inc()
		x.filter.upstream.Gone(statusUnavailable)
		x.cancel(&Failure{uint32(status.Code(err))})
	}
}

func (x *Exchange) dispatch(message *servicev3.ProcessingResponse) error {
	switch answer := message.GetResponse().(type) {
	case *servicev3.ProcessingResponse_ImmediateResponse:
		return &Immediate{answer.ImmediateResponse}
	case *servicev3.ProcessingResponse_RequestHeaders:
		return x.request.onHeaders(answer.RequestHeaders.GetResponse())
	case *servicev3.ProcessingResponse_RequestBody:
		return x.request.onBody(x.ctx, answer.RequestBody.GetResponse())
	case *servicev3.ProcessingResponse_RequestTrailers:
		return x.request.onTrailers(answer.RequestTrailers.GetHeaderMutation())
	case *servicev3.ProcessingResponse_ResponseHeaders:
		return x.response.onHeaders(answer.ResponseHeaders.GetResponse())
	case *servicev3.ProcessingResponse_ResponseBody:
		return x.response.onBody(x.ctx, answer.ResponseBody.GetResponse())
	case *servicev3.ProcessingResponse_ResponseTrailers:
		return x.response.onTrailers(answer.ResponseTrailers.GetHeaderMutation())
	}
	return ErrSpurious
}

// send puts one message on the stream; it waits while the stream is full.
func (x *Exchange) send(message *servicev3.ProcessingRequest) error {
	x.sending.Lock()
	defer x.sending.Unlock()
	if x.first {
		x.first = false
		message.ProtocolConfig = x.filter.protocol()
	}
	if err := x.stream.Send(message); err != nil {
		// What ended the stream, receive finds out.
		select {
		case <-x.finished:
		case <-x.ctx.Done():
		}
		if cause := x.Err(); cause != nil {
			return cause
		}
		return io.EOF
	}
	x.filter.sent.Inc()
	return nil
}

// await is the processor's answer to a half's headers. Only a half without a
// streamed body has a time limit, as with Envoy.
func (x *Exchange) await(half *half, limit time.Duration) (*servicev3.CommonResponse, error) {
	var expired <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case answer := <-half.headers:
		return answer, nil
	case <-half.left:
		return nil, nil
	case <-expired:
		x.filter.timeouts.Inc()
		x.cancel(ErrTimeout)
		return nil, ErrTimeout
	case <-x.ctx.Done():
		// An answer that came before the end counts.
		select {
		case answer := <-half.headers:
			return answer, nil
		default:
			return nil, x.Err()
		}
	}
}
