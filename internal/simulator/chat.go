package simulator

import (
	"net/http"
	"strconv"

	"github.com/slipway-dev/slipway/internal/openai"
)

// chat serves POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var request openai.ChatRequest
	if fault := s.readJSON(w, r, &request); fault != nil {
		refuse(w, fault)
		return
	}
	if len(request.Messages) == 0 {
		refuse(w, openai.Errorf(http.StatusBadRequest, "messages is empty; send at least one message."))
		return
	}
	x := s.acquire()
	defer s.release(x)
	x.query = query{
		chat: true, model: request.Model, n: request.N, maxTokens: request.Limit(), stream: request.Stream,
		usage:     request.StreamOptions != nil && request.StreamOptions.IncludeUsage,
		ignoreEOS: request.IgnoreEOS, seed: request.Seed, stop: request.Stop, threshold: request.CacheHitThreshold,
		transfer: request.KVTransferParams, tools: request.Tools, choice: request.ToolChoice, first: true,
	}
	for i := range request.Messages {
		if request.Messages[i].Role == "assistant" {
			x.first = false
		}
	}
	x.texts = []string{string(request.Messages[len(request.Messages)-1].Content)}
	x.tokens = appendMessages(x.tokens, request.Messages)
	x.ends = append(x.ends, len(x.tokens))
	s.serve(w, r, x)
}

// complete serves POST /v1/completions.
func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	var request openai.CompletionRequest
	if fault := s.readJSON(w, r, &request); fault != nil {
		refuse(w, fault)
		return
	}
	x := s.acquire()
	defer s.release(x)
	x.query = query{
		model: request.Model, n: request.N, maxTokens: request.MaxTokens, stream: request.Stream,
		usage:     request.StreamOptions != nil && request.StreamOptions.IncludeUsage,
		ignoreEOS: request.IgnoreEOS, seed: request.Seed, stop: request.Stop, threshold: request.CacheHitThreshold,
		transfer: request.KVTransferParams,
	}
	if fault := x.prompts(request.Prompt); fault != nil {
		refuse(w, fault)
		return
	}
	s.serve(w, r, x)
}

// prompts takes the prompts of a completion, or the inputs of an embedding.
func (x *exchange) prompts(prompt openai.Prompt) *openai.Error {
	if prompt.Len() == 0 {
		return openai.Errorf(http.StatusBadRequest, "prompt is missing; send a string.")
	}
	for _, text := range prompt.Texts {
		x.texts = append(x.texts, text)
		x.tokens = appendTokenIDs(x.tokens, text)
		x.ends = append(x.ends, len(x.tokens))
	}
	for _, tokens := range prompt.Tokens {
		x.texts = append(x.texts, numbers(tokens))
		x.tokens = append(x.tokens, tokens...)
		x.ends = append(x.ends, len(x.tokens))
	}
	return nil
}

// numbers writes tokens that nobody can turn back into words as
// llm-d-inference-sim echoes them.
func numbers(tokens []uint32) string {
	var text []byte
	for i, token := range tokens {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, uint64(token), 10)
	}
	return string(text)
}
