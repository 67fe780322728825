package extproc

import (
	"errors"
	"io"
	"net/http"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
)

// chunkSize is the most of a body that goes into one message, in bytes.
const chunkSize = 64 << 10

// Message is the head of a request or of a response with its body.
type Message struct {
	// Pseudo are the header fields that begin with a colon, in order, as pairs.
	Pseudo []string
	Header http.Header
	// Body is nil if there is none. Length is its number of bytes, or -1.
	Body   io.Reader
	Length int64
	// Trailer gives the trailers once the body has been read.
	Trailer func() http.Header
}

// Answer is what the processor wants changed of the headers, and the body that
// it gives in place of the message's.
type Answer struct {
	// Response is nil if the processor left before it saw the headers.
	Response *servicev3.CommonResponse
	// Body is nil if the message's own body is to be used.
	Body io.Reader
	half *half
}

// Trailers are the changes of the trailers; they are known once Body has ended.
func (a *Answer) Trailers() *servicev3.HeaderMutation {
	if a.half == nil {
		return nil
	}
	return a.half.trailers
}

// Request shows the request to the processor and waits for the answer to its
// headers. The body goes on flowing in both directions afterwards; read tells
// when no more will be read of it.
func (x *Exchange) Request(message Message) (answer *Answer, read <-chan struct{}, err error) {
	wrap := func(headers *servicev3.HttpHeaders) *servicev3.ProcessingRequest {
		return &servicev3.ProcessingRequest{Request: &servicev3.ProcessingRequest_RequestHeaders{RequestHeaders: headers}}
	}
	return x.show(&x.request, x.filter.config.Request, message, wrap, requestParts{})
}

// Response does the same for the response.
func (x *Exchange) Response(message Message) (answer *Answer, read <-chan struct{}, err error) {
	wrap := func(headers *servicev3.HttpHeaders) *servicev3.ProcessingRequest {
		return &servicev3.ProcessingRequest{Request: &servicev3.ProcessingRequest_ResponseHeaders{ResponseHeaders: headers}}
	}
	return x.show(&x.response, x.filter.config.Response, message, wrap, responseParts{})
}

// nothingRead is the end of a body of which nothing is read.
func nothingRead() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (x *Exchange) show(half *half, mode bootstrap.Processing, message Message, wrap func(*servicev3.HttpHeaders) *servicev3.ProcessingRequest,
	parts parts) (*Answer, <-chan struct{}, error) {
	read := nothingRead()
	if !mode.Headers || half.gone() {
		return &Answer{}, read, nil
	}
	streamed := mode.Body == bootstrap.FullDuplex && message.Body != nil
	half.ask(streamed)
	headers := &servicev3.HttpHeaders{Headers: &corev3.HeaderMap{Headers: toProto(message)}, EndOfStream: message.Body == nil}
	if err := x.send(wrap(headers)); err != nil {
		if half.gone() {
			return &Answer{}, read, nil
		}
		return nil, read, x.reason(err)
	}
	limit := x.filter.config.MessageTimeout
	if mode.Body == bootstrap.FullDuplex {
		limit = 0
	}
	if streamed {
		done := make(chan struct{})
		read = done
		go func() {
			defer close(done)
			x.sendBody(message, parts)
		}()
	}
	response, err := x.await(half, limit)
	if err != nil {
		return nil, read, err
	}
	answer := &Answer{Response: response}
	if streamed {
		answer.Body, answer.half = &body{exchange: x, half: half}, half
	}
	return answer, read, nil
}

// reason turns the end of the stream into why it ended.
func (x *Exchange) reason(err error) error {
	if cause := x.Err(); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return &Failure{0}
	}
	return err
}

// sendBody reads the body to its end and sends each piece as it comes.
func (x *Exchange) sendBody(message Message, parts parts) {
	sent := int64(0)
	for x.ctx.Err() == nil {
		// The stream keeps what it was given, so that each piece needs its own room.
		piece := make([]byte, sizeFor(message.Length, sent))
		n, err := message.Body.Read(piece)
		sent += int64(n)
		if err == nil && sent == message.Length && message.Length >= 0 {
			err = io.EOF
		}
		if err != nil && !errors.Is(err, io.EOF) {
			x.cancel(&BodyError{err})
			return
		}
		var trailer http.Header
		if err != nil && message.Trailer != nil {
			trailer = message.Trailer()
		}
		if n > 0 || (err != nil && len(trailer) == 0) {
			if x.send(parts.body(&servicev3.HttpBody{Body: piece[:n], EndOfStream: err != nil && len(trailer) == 0})) != nil {
				return
			}
		}
		if err == nil {
			continue
		}
		if len(trailer) > 0 {
			_ = x.send(parts.trailers(&servicev3.HttpTrailers{Trailers: &corev3.HeaderMap{Headers: toProto(Message{Header: trailer})}}))
		}
		return
	}
}

// sizeFor is how much room the next piece gets: what is known to be left, or
// little at first for a body that comes in tokens.
func sizeFor(length, sent int64) int64 {
	if length >= 0 {
		return max(1, min(length-sent, chunkSize))
	}
	if sent == 0 {
		return 4 << 10
	}
	return min(chunkSize, max(4<<10, sent))
}

// toProto is headers in the processor's form: names in lower case, values raw.
func toProto(message Message) []*corev3.HeaderValue {
	all := make([]*corev3.HeaderValue, 0, len(message.Header)+len(message.Pseudo)/2)
	for i := 0; i+1 < len(message.Pseudo); i += 2 {
		all = append(all, &corev3.HeaderValue{Key: message.Pseudo[i], RawValue: []byte(message.Pseudo[i+1])})
	}
	for name, values := range message.Header {
		for _, value := range values {
			all = append(all, &corev3.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(value)})
		}
	}
	return all
}

// parts wrap a piece of a body, or trailers, for one direction.
type parts interface {
	body(*servicev3.HttpBody) *servicev3.ProcessingRequest
	trailers(*servicev3.HttpTrailers) *servicev3.ProcessingRequest
}

type requestParts struct{}

func (requestParts) body(piece *servicev3.HttpBody) *servicev3.ProcessingRequest {
	return &servicev3.ProcessingRequest{Request: &servicev3.ProcessingRequest_RequestBody{RequestBody: piece}}
}

func (requestParts) trailers(trailers *servicev3.HttpTrailers) *servicev3.ProcessingRequest {
	return &servicev3.ProcessingRequest{Request: &servicev3.ProcessingRequest_RequestTrailers{RequestTrailers: trailers}}
}

type responseParts struct{}

func (responseParts) body(piece *servicev3.HttpBody) *servicev3.ProcessingRequest {
	return &servicev3.ProcessingRequest{Request: &servicev3.ProcessingRequest_ResponseBody{ResponseBody: piece}}
}

func (responseParts) trailers(trailers *servicev3.HttpTrailers) *servicev3.ProcessingRequest {
	return &servicev3.ProcessingRequest{Request: &servicev3.ProcessingRequest_ResponseTrailers{ResponseTrailers: trailers}}
}

// protocol tells the processor in the first message which modes it speaks with.
func (f *Filter) protocol() *servicev3.ProtocolConfiguration {
	mode := func(mode bootstrap.BodyMode) filterv3.ProcessingMode_BodySendMode {
		if mode == bootstrap.FullDuplex {
			return filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
		}
		return filterv3.ProcessingMode_NONE
	}
	return &servicev3.ProtocolConfiguration{
		RequestBodyMode: mode(f.config.Request.Body), ResponseBodyMode: mode(f.config.Response.Body),
	}
}
