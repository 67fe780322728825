package proxy_test

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// chunkLimit is the most that a picker puts into one piece of a body, in bytes.
const chunkLimit = 62000

// seen is a request as the picker saw it.
type seen struct {
	header    map[string]string
	body      []byte
	bodyless  bool
	endOfBody bool
}

// errLeave has a picker end the stream in peace without an answer.
var errLeave = errors.New("leave")

// picker is an endpoint picker as the ones in the field behave: it answers only
// once the request has ended, first the headers, then the body in pieces; a
// streamed response it passes on piece by piece, any other when it has ended.
type picker struct {
	servicev3.UnimplementedExternalProcessorServer
	// pick names the endpoint, or gives another answer to the request.
	pick func(seen) (endpoint string, instead *servicev3.ImmediateResponse, err error)
	// silent keeps it from asking for the route to be matched again.
	silent bool
	// onResponse, if not nil, is called with each message about a response.
	onResponse func(*servicev3.ProcessingRequest) error

	mutex   sync.Mutex
	streams int
	open    int
	ended   chan struct{}
}

// start serves the picker until the test ends.
func (p *picker) start(t testing.TB, options ...grpc.ServerOption) string {
	t.Helper()
	return serve(t, p, "127.0.0.1:0", options...)
}

// serve serves a processor until the test ends, and gives its address.
func serve(t testing.TB, processor servicev3.ExternalProcessorServer, address string, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	servicev3.RegisterExternalProcessorServer(server, processor)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return listener.Addr().String()
}

// Process is one request's stream.
func (p *picker) Process(stream servicev3.ExternalProcessor_ProcessServer) error {
	p.mutex.Lock()
	p.streams++
	p.open++
	p.mutex.Unlock()
	defer func() {
		p.mutex.Lock()
		p.open--
		p.mutex.Unlock()
		if p.ended != nil {
			p.ended <- struct{}{}
		}
	}()
	session := &session{picker: p, stream: stream}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
			return nil
		}
		if err != nil {
			return err
		}
		if over, err := session.on(message); over || err != nil {
			return err
		}
	}
}

type session struct {
	picker   *picker
	stream   servicev3.ExternalProcessor_ProcessServer
	request  seen
	response []byte
	events   bool
}

func (s *session) on(message *servicev3.ProcessingRequest) (over bool, err error) {
	switch part := message.GetRequest().(type) {
	case *servicev3.ProcessingRequest_RequestHeaders:
		s.request.header = map[string]string{}
		for _, header := range part.RequestHeaders.GetHeaders().GetHeaders() {
			s.request.header[header.GetKey()] = string(header.GetRawValue())
		}
		if s.request.bodyless = part.RequestHeaders.GetEndOfStream(); s.request.bodyless {
			return s.answer()
		}
	case *servicev3.ProcessingRequest_RequestBody:
		s.request.body = append(s.request.body, part.RequestBody.GetBody()...)
		if part.RequestBody.GetEndOfStream() {
			s.request.endOfBody = true
			return s.answer()
		}
	default:
		if s.picker.onResponse != nil {
			if err := s.picker.onResponse(message); err != nil {
				return true, err
			}
		}
		return false, s.onResponse(message)
	}
	return false, nil
}

func (s *session) onResponse(message *servicev3.ProcessingRequest) error {
	switch part := message.GetRequest().(type) {
	case *servicev3.ProcessingRequest_ResponseHeaders:
		for _, header := range part.ResponseHeaders.GetHeaders().GetHeaders() {
			if header.GetKey() == "content-type" && strings.Contains(string(header.GetRawValue()), "text/event-stream") {
				s.events = true
			}
		}
		return s.stream.Send(&servicev3.ProcessingResponse{Response: &servicev3.ProcessingResponse_ResponseHeaders{
			ResponseHeaders: &servicev3.HeadersResponse{Response: &servicev3.CommonResponse{
				HeaderMutation: &servicev3.HeaderMutation{SetHeaders: options("x-went-into-resp-headers", "true")},
			}},
		}})
	case *servicev3.ProcessingRequest_ResponseBody:
		end := part.ResponseBody.GetEndOfStream()
		if s.events {
			return s.pieces(part.ResponseBody.GetBody(), end, responsePiece)
		}
		if s.response = append(s.response, part.ResponseBody.GetBody()...); end {
			return s.pieces(s.response, true, responsePiece)
		}
	}
	return nil
}

// answer gives the headers and the body of a request that has ended.
func (s *session) answer() (over bool, err error) {
	endpoint, instead, err := s.picker.pick(s.request)
	if errors.Is(err, errLeave) {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	if instead != nil {
		return true, s.stream.Send(&servicev3.ProcessingResponse{Response: &servicev3.ProcessingResponse_ImmediateResponse{ImmediateResponse: instead}})
	}
	set := options("x-gateway-destination-endpoint", endpoint)
	if len(s.request.body) > 0 {
		set = append(set, options("Content-Length", strconv.Itoa(len(s.request.body)))...)
	}
	if !s.request.bodyless {
		for name, value := range s.request.header {
			set = append(set, options(name, value)...)
		}
		// What a client sent under the name of the endpoint's header comes again among
		// these, as with the pickers in the field; the endpoint must win all the same.
		set = append(set, options("x-gateway-destination-endpoint", endpoint)...)
	}
	err = s.stream.Send(&servicev3.ProcessingResponse{Response: &servicev3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &servicev3.HeadersResponse{Response: &servicev3.CommonResponse{
			ClearRouteCache: !s.picker.silent, HeaderMutation: &servicev3.HeaderMutation{SetHeaders: set},
		}},
	}})
	if err != nil || s.request.bodyless {
		return false, err
	}
	return false, s.pieces(s.request.body, true, requestPiece)
}

func (s *session) pieces(body []byte, end bool, wrap func(*servicev3.BodyResponse) *servicev3.ProcessingResponse) error {
	for {
		size := min(len(body), chunkLimit)
		last := size == len(body)
		piece := &servicev3.StreamedBodyResponse{Body: body[:size], EndOfStream: end && last}
		if err := s.stream.Send(wrap(&servicev3.BodyResponse{Response: &servicev3.CommonResponse{
			BodyMutation: &servicev3.BodyMutation{Mutation: &servicev3.BodyMutation_StreamedResponse{StreamedResponse: piece}},
		}})); err != nil || last {
			return err
		}
		body = body[size:]
	}
}

func requestPiece(body *servicev3.BodyResponse) *servicev3.ProcessingResponse {
	return &servicev3.ProcessingResponse{Response: &servicev3.ProcessingResponse_RequestBody{RequestBody: body}}
}

func responsePiece(body *servicev3.BodyResponse) *servicev3.ProcessingResponse {
	return &servicev3.ProcessingResponse{Response: &servicev3.ProcessingResponse_ResponseBody{ResponseBody: body}}
}

func options(name, value string) []*corev3.HeaderValueOption {
	return []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: name, RawValue: []byte(value)}}}
}

func immediate(code int, body string) *servicev3.ImmediateResponse {
	return &servicev3.ImmediateResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode(code)}, Body: []byte(body)} //nolint:gosec // a status code
}

func to(endpoint string) func(seen) (string, *servicev3.ImmediateResponse, error) {
	return func(seen) (string, *servicev3.ImmediateResponse, error) { return endpoint, nil, nil }
}
