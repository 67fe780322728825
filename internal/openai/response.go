package openai

import "encoding/json"

// Reasons for which an answer ends. The last two are llm-d's additions for
// disaggregated prefill and for a prefix cache that held too little.
const (
	FinishStop           = "stop"
	FinishLength         = "length"
	FinishToolCalls      = "tool_calls"
	FinishRemoteDecode   = "remote_decode"
	FinishCacheThreshold = "cache_threshold"
)

// The object names of OpenAI's API.
const (
	ObjectChat       = "chat.completion"
	ObjectChatChunk  = "chat.completion.chunk"
	ObjectCompletion = "text_completion"
)

// Usage counts the tokens of a request and of its answer.
type Usage struct {
	PromptTokens        int            `json:"prompt_tokens"`
	CompletionTokens    int            `json:"completion_tokens"`
	TotalTokens         int            `json:"total_tokens"`
	PromptTokensDetails *PromptDetails `json:"prompt_tokens_details,omitempty"`
}

// PromptDetails tells how much of a prompt the prefix cache held.
type PromptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// ChatResponse is the whole answer of POST /v1/chat/completions.
type ChatResponse struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	Created          int64             `json:"created"`
	Model            string            `json:"model"`
	Choices          []ChatChoice      `json:"choices"`
	Usage            *Usage            `json:"usage"`
	KVTransferParams *KVTransferParams `json:"kv_transfer_params,omitempty"`
}

// ChatChoice is one answer of a chat.
type ChatChoice struct {
	Index        int         `json:"index"`
	Message      ChatMessage `json:"message"`
	FinishReason string      `json:"finish_reason"`
}

// ChatMessage is what the model said; Content is null beside tool calls.
type ChatMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// ToolCall is a call that the model asks for; Arguments is JSON in a string.
// Index is set in streams alone.
type ToolCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function CallFunction `json:"function"`
}

// CallFunction names the function of a call, or, in a stream, carries a piece
// of its arguments.
type CallFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// ChatChunk is one event of a streamed chat.
type ChatChunk struct {
	ID      string            `json:"id"`
	Object  string            `json:"object"`
	Created int64             `json:"created"`
	Model   string            `json:"model"`
	Choices []ChatChunkChoice `json:"choices"`
	Usage   *Usage            `json:"usage"`
}

// ChatChunkChoice is the part of an answer that an event adds. FinishReason is
// nil until the last one.
type ChatChunkChoice struct {
	Index        int     `json:"index"`
	Delta        Delta   `json:"delta"`
	FinishReason *string `json:"finish_reason"`
}

// Delta is what an event adds to the message.
type Delta struct {
	Role      string     `json:"role,omitempty"`
	Content   string     `json:"content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// CompletionResponse is the whole answer of POST /v1/completions, and the form
// of its events when it is streamed.
type CompletionResponse struct {
	ID               string             `json:"id"`
	Object           string             `json:"object"`
	Created          int64              `json:"created"`
	Model            string             `json:"model"`
	Choices          []CompletionChoice `json:"choices"`
	Usage            *Usage             `json:"usage"`
	KVTransferParams *KVTransferParams  `json:"kv_transfer_params,omitempty"`
}

// CompletionChoice is the continuation of one prompt.
type CompletionChoice struct {
	Index        int     `json:"index"`
	Text         string  `json:"text"`
	Logprobs     *string `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
}

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Model is a model that the server answers for. Parent is the base model of a
// LoRA adapter, and null for a base model.
type Model struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	Created     int64   `json:"created"`
	OwnedBy     string  `json:"owned_by"`
	Root        string  `json:"root"`
	Parent      *string `json:"parent"`
	MaxModelLen *int    `json:"max_model_len,omitempty"`
}

// EmbeddingList is the answer of POST /v1/embeddings.
type EmbeddingList struct {
	ID     string      `json:"id"`
	Object string      `json:"object"`
	Model  string      `json:"model"`
	Data   []Embedding `json:"data"`
	Usage  Usage       `json:"usage"`
}

// Embedding is one input's vector: a list of numbers, or the base64 of
// little-endian 32-bit floats when the request asked for that.
type Embedding struct {
	Object    string          `json:"object"`
	Index     int             `json:"index"`
	Embedding json.RawMessage `json:"embedding"`
}

// Tokenized is the answer of vLLM's POST /tokenize.
type Tokenized struct {
	Count        int      `json:"count"`
	MaxModelLen  int      `json:"max_model_len"`
	Tokens       []uint32 `json:"tokens"`
	TokenStrings []string `json:"token_strs"`
}
