package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/slipway-dev/slipway/internal/latency"
	"github.com/slipway-dev/slipway/internal/openai"
)

// maxChoices bounds the answers to one request: prompts times n.
const maxChoices = 128

// flushAt is how many bytes of events are gathered when no latency asks for
// each token to be sent at once.
const flushAt = 16 << 10

// query is a chat or completion request, reduced to what matters from here on.
type query struct {
	chat      bool
	model     string
	n         *int64
	maxTokens *int64
	stream    bool
	usage     bool // a stream shall end with the usage
	ignoreEOS bool
	seed      *int64
	stop      []string
	threshold *float64
	transfer  *openai.KVTransferParams
	tools     []openai.Tool
	choice    *openai.ToolChoice
	first     bool     // nobody has answered in this chat yet
	texts     []string // what is answered: the last message, or each prompt
}

// exchange is the memory in which one request is answered. It is used again
// for later requests.
type exchange struct {
	query
	tokens  []uint32 // of all prompts
	ends    []int    // where each prompt ends in tokens
	said    []string // room for the tokens of all answers
	answers []answer
	stay    stay
	events  openai.ChunkWriter
	usage   openai.Usage
	display string // the model's name in answers
	adapter string
	id      string
}

// acquire takes an exchange that holds nothing of an earlier request.
func (s *Server) acquire() *exchange {
	x := s.scratch.Get().(*exchange)
	x.query = query{}
	x.tokens, x.ends, x.said, x.answers = x.tokens[:0], x.ends[:0], x.said[:0], x.answers[:0]
	x.stay = stay{engine: s.engine, blocks: x.stay.blocks[:0], rng: x.stay.rng}
	x.usage = openai.Usage{}
	return x
}

// release keeps an exchange for another request, unless it has grown large.
func (s *Server) release(x *exchange) {
	if cap(x.tokens) <= keepBuffer/4 && cap(x.events.Buf) <= keepBuffer && cap(x.said) <= keepBuffer/16 {
		clear(x.said[:cap(x.said)])
		clear(x.answers)
		s.scratch.Put(x)
	}
}

// serve answers a query whose prompts stand in the exchange.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, x *exchange) {
	if fault := s.admit(x); fault != nil {
		refuse(w, fault)
		return
	}
	if err := x.stay.enter(r.Context(), x.adapter); err != nil {
		s.fail(w, err)
		return
	}
	defer x.stay.quit()
	x.usage = openai.Usage{PromptTokens: len(x.tokens), PromptTokensDetails: &openai.PromptDetails{CachedTokens: x.stay.prompt.Cached}}
	if !x.warmEnough() {
		x.refuseCold()
	}
	if err := x.stay.prefill(r.Context()); err != nil {
		s.fail(w, err)
		return
	}
	if x.stream {
		s.streamAnswer(w, r.Context(), x)
	} else {
		s.wholeAnswer(w, r.Context(), x)
	}
}

// fail answers with an error that is one of the API's, and with nothing when
// the client is gone.
func (s *Server) fail(w http.ResponseWriter, err error) {
	var fault *openai.Error
	switch {
	case errors.As(err, &fault):
		refuse(w, fault)
	case !gone(err):
		refuse(w, openai.Errorf(http.StatusInternalServerError, "%v", err))
	}
}

// admit checks a query and prepares its answers.
func (s *Server) admit(x *exchange) *openai.Error {
	if s.engine.asleep.Load() {
		return openai.Errorf(http.StatusServiceUnavailable, "The engine is asleep; POST /wake_up first.")
	}
	var fault *openai.Error
	if x.display, x.adapter, fault = s.resolve(x.model); fault != nil {
		return fault
	}
	if fault := s.checkQuery(x); fault != nil {
		return fault
	}
	x.stay.seedFor(x.seed)
	if fault := inject(s.config, x.stay.rng); fault != nil {
		return fault
	}
	if fault := s.answer(x); fault != nil {
		return fault
	}
	prefix := "cmpl-"
	if x.chat {
		prefix = "chatcmpl-"
	}
	x.id = newID(prefix)
	x.stay.prompt = latency.Prompt{Tokens: len(x.tokens), Remote: x.transfer != nil && x.transfer.DoRemotePrefill}
	if s.config.EnableKVCache {
		start := 0
		for _, end := range x.ends {
			x.stay.blocks = append(x.stay.blocks, latency.Blocks(s.config.HashSeed+"\x00"+x.adapter, x.tokens[start:end], s.config.BlockSize)...)
			start = end
		}
	}
	return nil
}

// checkQuery refuses what no engine could serve.
func (s *Server) checkQuery(x *exchange) *openai.Error {
	if x.maxTokens != nil && *x.maxTokens <= 0 {
		return openai.Errorf(http.StatusBadRequest, "max_tokens must be at least 1, got %d.", *x.maxTokens)
	}
	if x.n != nil && (*x.n < 1 || *x.n*int64(len(x.ends)) > maxChoices) {
		return openai.Errorf(http.StatusBadRequest, "n is %d; it must be at least 1, and at most %d answers are given at once.", *x.n, maxChoices)
	}
	if len(x.ends) > maxChoices {
		return openai.Errorf(http.StatusBadRequest, "The request has %d prompts; at most %d are taken at once.", len(x.ends), maxChoices)
	}
	if x.transfer != nil && x.transfer.DoRemoteDecode && x.stream {
		return openai.Errorf(http.StatusBadRequest, "A request with do_remote_decode can't be streamed; leave stream out.")
	}
	if x.threshold != nil && !(*x.threshold >= 0 && *x.threshold <= 1) {
		return openai.Errorf(http.StatusBadRequest, "cache_hit_threshold is %g; it must be from 0 to 1.", *x.threshold)
	}
	start := 0
	for _, end := range x.ends {
		if fault := s.checkLength(end-start, x.maxTokens); fault != nil {
			return fault
		}
		start = end
	}
	return nil
}

// checkLength holds a prompt and its answer to the model's length. Without a
// limit there must be room for one token.
func (s *Server) checkLength(prompt int, limit *int64) *openai.Error {
	longest := int64(s.config.MaxModelLen)
	completion, room := int64(0), longest-int64(prompt)
	if limit != nil {
		completion = *limit
	}
	if room >= max(completion, 1) {
		return nil
	}
	return openai.Errorf(http.StatusBadRequest, "This model's maximum context length is %d tokens. However, you requested %d tokens "+
		"(%d in the messages, %d in the completion). Please reduce the length of the messages or completion",
		longest, int64(prompt)+min(completion, maxModelLen), prompt, completion)
}

// answer makes every choice's answer.
func (s *Server) answer(x *exchange) *openai.Error {
	n := 1
	if x.n != nil {
		n = int(*x.n)
	}
	start := 0
	for i, end := range x.ends {
		for range n {
			a, fault := s.answerOne(x, x.texts[i], end-start)
			if fault != nil {
				return fault
			}
			x.answers = append(x.answers, a)
		}
		start = end
	}
	return nil
}

func (s *Server) answerOne(x *exchange, text string, prompt int) (answer, *openai.Error) {
	q := question{
		chat: x.chat, text: text, first: x.first, limit: s.config.MaxModelLen - prompt,
		exact: x.ignoreEOS && x.maxTokens != nil, stop: x.stop,
	}
	if x.maxTokens != nil {
		q.limit, q.capped = int(*x.maxTokens), true
	}
	if x.transfer != nil && x.transfer.DoRemoteDecode {
		q.limit, q.exact = 1, true
	}
	if len(x.tools) > 0 && s.config.Mode == ModeRandom {
		a, called, fault := callTools(s.config.Tools, x.stay.rng, x.tools, x.choice)
		if called || fault != nil {
			return a, fault
		}
	}
	before := len(x.said)
	a := say(s.config.Mode, x.stay.rng, q, x.said[before:before])
	if before+len(a.tokens) <= cap(x.said) {
		x.said = x.said[:before+len(a.tokens)]
	} else if before == 0 {
		x.said = a.tokens // The room has grown for the next request.
	}
	if x.transfer != nil && x.transfer.DoRemoteDecode {
		a.finish = openai.FinishRemoteDecode
	}
	return a, nil
}

// warmEnough tells whether the prefix cache holds as much of the prompt as the
// request asks for.
func (x *exchange) warmEnough() bool {
	if x.threshold == nil || len(x.tokens) == 0 {
		return true
	}
	return float64(x.stay.prompt.Cached) >= *x.threshold*float64(len(x.tokens))
}

// refuseCold leaves the answers empty, so that the caller can have the prompt
// prefilled elsewhere. The prompt is not computed here either.
func (x *exchange) refuseCold() {
	for i := range x.answers {
		x.answers[i] = answer{finish: openai.FinishCacheThreshold}
	}
	x.stay.prompt.Cached = x.stay.prompt.Tokens
}

// transferred is what the prefill engine hands over to the decode engine.
func (s *Server) transferred(x *exchange) *openai.KVTransferParams {
	if x.transfer == nil || !x.transfer.DoRemoteDecode {
		return nil
	}
	blocks := make([]int, len(x.tokens)/s.config.BlockSize+1)
	for i := range blocks {
		blocks[i] = i
	}
	ids, err := json.Marshal(blocks)
	if err != nil { // A list of numbers always encodes.
		panic(err)
	}
	host := s.config.Pod
	if host == "" {
		host = "localhost"
	}
	hostPort, err := json.Marshal(s.config.Port)
	if err != nil {
		panic(err)
	}
	return &openai.KVTransferParams{
		DoRemotePrefill: true, RemoteBlockIDs: ids, RemoteEngineID: s.id, RemoteHost: host, RemotePort: hostPort, TPSize: 1,
	}
}

// steps returns how many tokens the longest answer has.
func (x *exchange) steps() int {
	most := 0
	for i := range x.answers {
		most = max(most, x.answers[i].steps())
	}
	return most
}

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
	m := s.engine.metrics
	if more := x.steps() - 1; more > 0 {
		m.tokens(end.Sub(x.stay.first)/time.Duration(more), more)
	}
	m.record(&x.stay, end, x.usage, x.answers[0].finish, limit)
}

// wholeAnswer waits for all tokens and sends one answer.
func (s *Server) wholeAnswer(w http.ResponseWriter, ctx context.Context, x *exchange) {
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
func (s *Server) streamAnswer(w http.ResponseWriter, ctx context.Context, x *exchange) {
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

// newID returns a prefix and a random UUID (RFC 9562, version 4).
func newID(prefix string) string {
	const digits = "0123456789abcdef"
	var bits [2]uint64
	bits[0] = rand.Uint64()&^0xf000 | 0x4000
	bits[1] = rand.Uint64()&^(3<<62) | 1<<63
	id := make([]byte, 0, len(prefix)+36)
	id = append(id, prefix...)
	for i := range 32 {
		if i == 8 || i == 12 || i == 16 || i == 20 {
			id = append(id, '-')
		}
		id = append(id, digits[bits[i/16]>>(60-4*(i%16))&15])
	}
	return string(id)
}
