package simulator

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"

	"github.com/slipway-dev/slipway/internal/latency"
	"github.com/slipway-dev/slipway/internal/openai"
)

// maxChoices bounds the answers to one request: prompts times n.
const maxChoices = 128

// maxAnswers bounds the tokens of all answers to one request.
const maxAnswers = maxModelLen

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
	// Answers are made by those that run alone, so that a long queue needs
	// little memory.
	if fault := s.answer(x); fault != nil {
		refuse(w, fault)
		return
	}
	x.usage = openai.Usage{PromptTokens: len(x.tokens), PromptTokensDetails: &openai.PromptDetails{CachedTokens: x.stay.prompt.Cached}}
	if x.stay.cold() {
		x.refuseCold()
	}
	if err := x.stay.prefill(r.Context()); err != nil {
		s.fail(w, err)
		return
	}
	if x.stream {
		s.streamAnswer(r.Context(), w, x)
	} else {
		s.wholeAnswer(r.Context(), w, x)
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

// admit checks a query and prepares its stay in the engine.
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
	prefix := "cmpl-"
	if x.chat {
		prefix = "chatcmpl-"
	}
	x.id = newID(prefix)
	x.stay.prompt = latency.Prompt{Tokens: len(x.tokens), Remote: x.transfer != nil && x.transfer.DoRemotePrefill}
	x.stay.threshold = s.config.HitThreshold
	if x.threshold != nil {
		x.stay.threshold = *x.threshold
	}
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
	if fault := x.checkChoices(); fault != nil {
		return fault
	}
	if x.transfer != nil && x.transfer.DoRemoteDecode && x.stream {
		return openai.Errorf(http.StatusBadRequest, "A request with do_remote_decode can't be streamed; leave stream out.")
	}
	if x.threshold != nil && (*x.threshold < 0 || *x.threshold > 1) {
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

// checkChoices bounds the answers to one request, and their tokens.
func (x *exchange) checkChoices() *openai.Error {
	n := int64(1)
	if x.n != nil {
		n = *x.n
	}
	if n < 1 || n > maxChoices || n*int64(len(x.ends)) > maxChoices {
		return openai.Errorf(http.StatusBadRequest,
			"n is %d for %d prompts; n must be at least 1, and n times the prompts at most %d.", n, len(x.ends), maxChoices)
	}
	if x.maxTokens != nil && *x.maxTokens > maxAnswers/(n*int64(len(x.ends))) {
		return openai.Errorf(http.StatusBadRequest,
			"max_tokens is %d for each of %d answers; all together may have at most %d tokens.", *x.maxTokens, n*int64(len(x.ends)), maxAnswers)
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
		longest, int64(prompt)+completion, prompt, completion)
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

// refuseCold leaves the answers empty, so that the caller can have the prompt
// prefilled elsewhere.
func (x *exchange) refuseCold() {
	for i := range x.answers {
		x.answers[i] = answer{finish: openai.FinishCacheThreshold}
	}
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
