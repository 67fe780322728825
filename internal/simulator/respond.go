package simulator

import (
	"context"
	"fmt"
	"net/http"

	"github.com/slipway-dev/slipway/internal/openai"
)

// flushAt is how many bytes of events are gathered when no latency asks for
// each token to be sent at once.
const flushAt = 16 << 10

// settle counts an answered request.
func (s *Server) settle(x *exchange) {
	for i := range x.answers {
		x.usage.CompletionTokens += x.answers[i].steps()
	}
	x.usage.TotalTokens = x.usage.PromptTokens + x.usage.CompletionTokens
	end := x.stay.first
	if s.engine.paced {
		end = s.clock.Now()
	}
	limit := 0
	if x.maxTokens != nil {
		limit = int(*x.maxTokens)
	}
	s.engine.metrics.record(&x.stay, end, x.usage, x.steps(), x.answers[0].finish, limit)
}

// wholeAnswer waits for all tokens and sends one answer.
func (s *Server) wholeAnswer(ctx context.Context, w http.ResponseWriter, x *exchange) {
	for range x.steps() - 1 {
		if err := x.stay.step(ctx); err != nil {
			return // The client is gone.
		}
	}
	s.settle(x)
	created := s.clock.Now().Unix()
	if x.chat {
		reply(w, x.chatResponse(created, s.transferred(x)))
	} else {
		reply(w, x.completionResponse(created, s.transferred(x)))
	}
}

func (x *exchange) chatResponse(created int64, transfer *openai.KVTransferParams) *openai.ChatResponse {
	response := &openai.ChatResponse{
		ID: x.id, Object: openai.ObjectChat, Created: created, Model: x.display,
		Choices: make([]openai.ChatChoice, len(x.answers)), Usage: &x.usage, KVTransferParams: transfer,
	}
	for i := range x.answers {
		a := &x.answers[i]
		choice := openai.ChatChoice{Index: i, FinishReason: a.finish, Message: openai.ChatMessage{Role: "assistant"}}
		if a.calls != nil {
			choice.Message.ToolCalls = a.calls
		} else {
			text := a.text()
			choice.Message.Content = &text
		}
		response.Choices[i] = choice
	}
	return response
}

func (x *exchange) completionResponse(created int64, transfer *openai.KVTransferParams) *openai.CompletionResponse {
	response := &openai.CompletionResponse{
		ID: x.id, Object: openai.ObjectCompletion, Created: created, Model: x.display,
		Choices: make([]openai.CompletionChoice, len(x.answers)), Usage: &x.usage, KVTransferParams: transfer,
	}
	for i := range x.answers {
		a := &x.answers[i]
		response.Choices[i] = openai.CompletionChoice{Index: i, Text: a.text(), FinishReason: &a.finish}
	}
	return response
}

// streamAnswer sends each token as an event: at once while latency is
// simulated, and gathered into larger writes when tokens come without delay.
func (s *Server) streamAnswer(ctx context.Context, w http.ResponseWriter, x *exchange) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	x.events.Start(x.chat, x.id, x.display, s.clock.Now().Unix())
	for i := range x.answers {
		x.events.Role(i)
	}
	for step := range x.steps() {
		if step > 0 {
			if err := x.stay.step(ctx); err != nil {
				return // The client is gone.
			}
		}
		if err := x.emit(step); err != nil {
			x.events.Error(openai.Errorf(http.StatusInternalServerError, "%v", err))
			break
		}
		if s.engine.paced || len(x.events.Buf) >= flushAt {
			if !send(w, control, x) {
				return
			}
		}
	}
	for i := range x.answers {
		x.events.Finish(i, x.answers[i].finish)
	}
	s.settle(x)
	if x.query.usage {
		x.events.Usage(x.usage)
	}
	x.events.Done()
	w.Write(x.events.Buf) // The handler's end flushes; an error means that the client is gone.
}

// emit adds the events of one step of every answer that is that long.
func (x *exchange) emit(step int) error {
	for i := range x.answers {
		a := &x.answers[i]
		switch {
		case step < len(a.tokens):
			x.events.Token(i, a.tokens[step])
		case step < len(a.pieces):
			if err := x.events.Call(i, a.pieces[step]); err != nil {
				return fmt.Errorf("encode a tool call: %w", err)
			}
		}
	}
	return nil
}

// send writes out what has gathered, and tells whether the client took it.
func send(w http.ResponseWriter, control *http.ResponseController, x *exchange) bool {
	if _, err := w.Write(x.events.Buf); err != nil {
		return false
	}
	x.events.Buf = x.events.Buf[:0]
	return control.Flush() == nil
}
