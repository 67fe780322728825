// Package openai holds the wire types of OpenAI's HTTP API as vLLM speaks it:
// requests, answers, errors and server-sent events. It encodes and decodes,
// and never opens a connection or decides what a model says.
package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ChatRequest is the body of POST /v1/chat/completions. Fields that neither
// OpenAI's API nor vLLM's additions to it name are ignored, as vLLM does.
type ChatRequest struct {
	Model               string            `json:"model"`
	Messages            []Message         `json:"messages"`
	MaxTokens           *int64            `json:"max_tokens,omitempty"`
	MaxCompletionTokens *int64            `json:"max_completion_tokens,omitempty"`
	Stream              bool              `json:"stream,omitempty"`
	StreamOptions       *StreamOptions    `json:"stream_options,omitempty"`
	N                   *int64            `json:"n,omitempty"`
	Seed                *int64            `json:"seed,omitempty"`
	Stop                Strings           `json:"stop,omitempty"`
	Tools               []Tool            `json:"tools,omitempty"`
	ToolChoice          *ToolChoice       `json:"tool_choice,omitempty"`
	IgnoreEOS           bool              `json:"ignore_eos,omitempty"`
	CacheHitThreshold   *float64          `json:"cache_hit_threshold,omitempty"`
	KVTransferParams    *KVTransferParams `json:"kv_transfer_params,omitempty"`
}

// Limit returns the most tokens that the answer may have, or nil when the
// request sets no limit. The newer max_completion_tokens wins.
func (r *ChatRequest) Limit() *int64 {
	if r.MaxCompletionTokens != nil {
		return r.MaxCompletionTokens
	}
	return r.MaxTokens
}

// CompletionRequest is the body of POST /v1/completions.
type CompletionRequest struct {
	Model             string            `json:"model"`
	Prompt            Prompt            `json:"prompt"`
	MaxTokens         *int64            `json:"max_tokens,omitempty"`
	Stream            bool              `json:"stream,omitempty"`
	StreamOptions     *StreamOptions    `json:"stream_options,omitempty"`
	N                 *int64            `json:"n,omitempty"`
	Seed              *int64            `json:"seed,omitempty"`
	Stop              Strings           `json:"stop,omitempty"`
	IgnoreEOS         bool              `json:"ignore_eos,omitempty"`
	CacheHitThreshold *float64          `json:"cache_hit_threshold,omitempty"`
	KVTransferParams  *KVTransferParams `json:"kv_transfer_params,omitempty"`
}

// StreamOptions asks for a last chunk with the usage of a streamed answer.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// Message is one turn of a chat.
type Message struct {
	Role       string     `json:"role"`
	Content    Content    `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// Content is a message's text. On the wire it is a string, null, or a list of
// parts, of which the text ones are joined and all others are left out.
type Content string

// UnmarshalJSON accepts a string, null, or a list of typed parts.
func (c *Content) UnmarshalJSON(data []byte) error {
	*c = ""
	switch first(data) {
	case 'n':
		return nil
	case '"':
		if text, plain := plainString(data); plain {
			*c = Content(text)
			return nil
		}
		return json.Unmarshal(data, (*string)(c))
	case '[':
	default:
		return errors.New("content must be a string or a list of parts")
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(part.Text)
	}
	*c = Content(text.String())
	return nil
}

// plainString returns a JSON string that stands for itself: without an escape
// or a byte that isn't ASCII. Most messages are such, and are read at once. The
// decoder has checked that data is a string and nothing around it.
func plainString(data []byte) (string, bool) {
	if len(data) < 2 || data[0] != '"' || data[len(data)-1] != '"' {
		return "", false
	}
	inside := data[1 : len(data)-1]
	for _, b := range inside {
		if b == '\\' || b == '"' || b < ' ' || b >= utf8.RuneSelf {
			return "", false
		}
	}
	return string(inside), true
}

// Strings is a list of strings that may be written as one string or null.
type Strings []string

// UnmarshalJSON accepts a string, null, or a list of strings.
func (s *Strings) UnmarshalJSON(data []byte) error {
	*s = nil
	switch first(data) {
	case 'n':
		return nil
	case '"':
		*s = make(Strings, 1)
		return json.Unmarshal(data, &(*s)[0])
	}
	return json.Unmarshal(data, (*[]string)(s))
}

// Prompt is what a completion starts from: texts, or token numbers. One of the
// two lists is filled, with an entry for each prompt.
type Prompt struct {
	Texts  []string
	Tokens [][]uint32
}

// Len returns the number of prompts.
func (p Prompt) Len() int { return len(p.Texts) + len(p.Tokens) }

// UnmarshalJSON accepts a string, a list of strings, a list of token numbers,
// or a list of such lists.
func (p *Prompt) UnmarshalJSON(data []byte) error {
	*p = Prompt{}
	switch first(data) {
	case 'n':
		return nil
	case '"':
		p.Texts = make([]string, 1)
		return json.Unmarshal(data, &p.Texts[0])
	case '[':
	default:
		return errors.New("prompt must be a string, a list of strings, or a list of token numbers")
	}
	switch first(bytes.TrimLeft(data, " \t\r\n")[1:]) {
	case '"':
		return json.Unmarshal(data, &p.Texts)
	case '[':
		return json.Unmarshal(data, &p.Tokens)
	case ']':
		return nil
	}
	p.Tokens = make([][]uint32, 1)
	return json.Unmarshal(data, &p.Tokens[0])
}

// MarshalJSON writes the shortest form that UnmarshalJSON reads back.
func (p Prompt) MarshalJSON() ([]byte, error) {
	switch {
	case len(p.Texts) == 1:
		return json.Marshal(p.Texts[0])
	case len(p.Texts) > 1:
		return json.Marshal(p.Texts)
	case len(p.Tokens) == 1 && len(p.Tokens[0]) > 0:
		return json.Marshal(p.Tokens[0])
	case len(p.Tokens) > 0:
		return json.Marshal(p.Tokens)
	}
	return []byte("null"), nil
}

// Tool is a function that the model may call.
type Tool struct {
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function describes a callable function; Parameters is a JSON schema.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// ToolChoice is "none", "auto" or "required", or the name of one function.
type ToolChoice struct {
	Mode     string
	Function string
}

// UnmarshalJSON accepts the string and the object form.
func (t *ToolChoice) UnmarshalJSON(data []byte) error {
	*t = ToolChoice{}
	if first(data) == '"' {
		return json.Unmarshal(data, &t.Mode)
	}
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(data, &named); err != nil {
		return fmt.Errorf("tool_choice: %w", err)
	}
	t.Function = named.Function.Name
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (t ToolChoice) MarshalJSON() ([]byte, error) {
	if t.Function == "" {
		return json.Marshal(t.Mode)
	}
	return json.Marshal(map[string]any{"type": "function", "function": map[string]string{"name": t.Function}})
}

// KVTransferParams carries the hand-over between a prefill and a decode
// engine, as vLLM's NIXL connector names it.
type KVTransferParams struct {
	DoRemotePrefill bool            `json:"do_remote_prefill"`
	DoRemoteDecode  bool            `json:"do_remote_decode"`
	RemoteBlockIDs  json.RawMessage `json:"remote_block_ids"`
	RemoteEngineID  string          `json:"remote_engine_id"`
	RemoteHost      string          `json:"remote_host"`
	RemotePort      json.RawMessage `json:"remote_port"`
	TPSize          int             `json:"tp_size"`
}

// EmbeddingRequest is the body of POST /v1/embeddings.
type EmbeddingRequest struct {
	Model          string `json:"model"`
	Input          Prompt `json:"input"`
	EncodingFormat string `json:"encoding_format,omitempty"`
	Dimensions     *int64 `json:"dimensions,omitempty"`
}

// TokenizeRequest is the body of vLLM's POST /tokenize: a prompt or messages.
type TokenizeRequest struct {
	Model    string    `json:"model"`
	Prompt   string    `json:"prompt,omitempty"`
	Messages []Message `json:"messages,omitempty"`
}

// LoadAdapterRequest is the body of vLLM's POST /v1/load_lora_adapter and,
// with the name alone, of /v1/unload_lora_adapter.
type LoadAdapterRequest struct {
	Name string `json:"lora_name"`
	Path string `json:"lora_path,omitempty"`
}

// first returns the first byte of data that is not JSON's white space, or 0.
func first(data []byte) byte {
	for _, b := range data {
		switch b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}
