package simulator

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/internal/openai"
)

// newServer makes a server with these flags, model "m" among them.
func newServer(t testing.TB, args ...string) *Server {
	t.Helper()
	config, err := Load(append([]string{"--model", "m", "--seed", "1"}, args...), env("POD_NAME", "pod-1", "POD_NAMESPACE", "ns"))
	if err != nil {
		t.Fatal(err)
	}
	return New(config, SystemClock{})
}

// call sends a request straight to the handler.
func call(t testing.TB, handler http.Handler, method, path, body string) *http.Response {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return recorder.Result()
}

// decode sends a request that must succeed, and reads its answer into value.
func decode(t testing.TB, handler http.Handler, path, body string, value any) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	response := call(t, handler, method, path, body)
	data := read(t, response)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s", path, body, response.StatusCode, data)
	}
	if err := json.Unmarshal([]byte(data), value); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
}

func read(t testing.TB, response *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// events returns the data of a streamed answer's events.
func events(t testing.TB, handler http.Handler, path, body string) []string {
	t.Helper()
	response := call(t, handler, http.MethodPost, path, body)
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("%d %s: %s", response.StatusCode, kind, read(t, response))
	}
	var all []string
	reader := openai.NewEventReader(response.Body)
	for {
		data, err := reader.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(data))
	}
}

func chatBody(text, more string) string {
	data, _ := json.Marshal(text)
	return `{"model":"m","messages":[{"role":"user","content":` + string(data) + `}]` + more + `}`
}

func TestChat(t *testing.T) {
	var answer openai.ChatResponse
	decode(t, newServer(t, "--mode", "echo"), "/v1/chat/completions", chatBody("Hello there, ship!", ""), &answer)
	if !strings.HasPrefix(answer.ID, "chatcmpl-") || len(answer.ID) != len("chatcmpl-")+36 || answer.Object != "chat.completion" || answer.Model != "m" {
		t.Errorf("the answer is %+v", answer)
	}
	text := "Hello there, ship!"
	want := []openai.ChatChoice{{Message: openai.ChatMessage{Role: "assistant", Content: &text}, FinishReason: "stop"}}
	if diff := cmp.Diff(want, answer.Choices); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	usage := &openai.Usage{PromptTokens: 6, CompletionTokens: 5, TotalTokens: 11, PromptTokensDetails: &openai.PromptDetails{}}
	if diff := cmp.Diff(usage, answer.Usage); diff != "" {
		t.Errorf("usage (-want +got)\n%s", diff)
	}
}

func TestCompletion(t *testing.T) {
	server := newServer(t, "--mode", "echo")
	for name, test := range map[string]struct {
		body   string
		texts  []string
		finish string
		prompt int
	}{
		"text":    {`{"model":"m","prompt":"one two three"}`, []string{"one two three"}, "stop", 3},
		"cut":     {`{"model":"m","prompt":"one two three","max_tokens":2}`, []string{"one two"}, "length", 3},
		"two":     {`{"model":"m","prompt":["one","two three"]}`, []string{"one", "two three"}, "stop", 3},
		"n":       {`{"model":"m","prompt":"one","n":2}`, []string{"one", "one"}, "stop", 1},
		"tokens":  {`{"model":"m","prompt":[1,2,3]}`, []string{"1,2,3"}, "stop", 3},
		"stop":    {`{"model":"m","prompt":"one two three","stop":"wo t"}`, []string{"one t"}, "stop", 3},
		"stops":   {`{"model":"m","prompt":"one two three","stop":["three","two"]}`, []string{"one "}, "stop", 3},
		"exactly": {`{"model":"m","prompt":"a b","max_tokens":5,"ignore_eos":true}`, []string{"a ba ba"}, "length", 2},
		"empty":   {`{"model":"m","prompt":""}`, []string{""}, "stop", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var answer openai.CompletionResponse
			decode(t, server, "/v1/completions", test.body, &answer)
			var texts []string
			for i, choice := range answer.Choices {
				texts = append(texts, choice.Text)
				if choice.Index != i || *choice.FinishReason != test.finish {
					t.Errorf("choice %d is %+v, %s", i, choice, *choice.FinishReason)
				}
			}
			if diff := cmp.Diff(test.texts, texts); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if answer.Object != "text_completion" || !strings.HasPrefix(answer.ID, "cmpl-") || answer.Usage.PromptTokens != test.prompt {
				t.Errorf("the answer is %+v, %+v", answer, answer.Usage)
			}
		})
	}
}

func TestStream(t *testing.T) {
	server := newServer(t, "--mode", "echo")
	got := events(t, server, "/v1/chat/completions", chatBody("Hi ship!", `,"stream":true,"stream_options":{"include_usage":true}`))
	var first openai.ChatChunk
	if err := json.Unmarshal([]byte(got[0]), &first); err != nil {
		t.Fatal(err)
	}
	head := `{"id":"` + first.ID + `","object":"chat.completion.chunk","created":` + strconv.FormatInt(first.Created, 10) + `,"model":"m","choices":[`
	want := []string{
		head + `{"index":0,"delta":{"role":"assistant"},"finish_reason":null}],"usage":null}`,
		head + `{"index":0,"delta":{"content":"Hi"},"finish_reason":null}],"usage":null}`,
		head + `{"index":0,"delta":{"content":" ship"},"finish_reason":null}],"usage":null}`,
		head + `{"index":0,"delta":{"content":"!"},"finish_reason":null}],"usage":null}`,
		head + `{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}`,
		head + `],"usage":{"prompt_tokens":4,"completion_tokens":3,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":0}}}`,
		"[DONE]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	texts := events(t, server, "/v1/completions", `{"model":"m","prompt":"a","stream":true}`)
	if len(texts) != 3 || !strings.Contains(texts[0], `"text":"a","logprobs":null,"finish_reason":null`) ||
		!strings.Contains(texts[1], `"text":"","logprobs":null,"finish_reason":"stop"`) || texts[2] != "[DONE]" {
		t.Errorf("the events are %q", texts)
	}
}

// A stream and a whole answer to the same request say the same.
func TestStreamSaysTheSame(t *testing.T) {
	server := newServer(t)
	var whole openai.ChatResponse
	decode(t, server, "/v1/chat/completions", chatBody("Hello", `,"seed":5,"n":2`), &whole)
	texts := make([]string, 2)
	for _, event := range events(t, server, "/v1/chat/completions", chatBody("Hello", `,"seed":5,"n":2,"stream":true`)) {
		var chunk openai.ChatChunk
		if event == openai.Done {
			break
		}
		if err := json.Unmarshal([]byte(event), &chunk); err != nil {
			t.Fatal(err)
		}
		texts[chunk.Choices[0].Index] += chunk.Choices[0].Delta.Content
	}
	for i, choice := range whole.Choices {
		if texts[i] != *choice.Message.Content {
			t.Errorf("choice %d: streamed %q, whole %q", i, texts[i], *choice.Message.Content)
		}
	}
}

func TestFirstAnswerIsHonest(t *testing.T) {
	var answer openai.ChatResponse
	decode(t, newServer(t), "/v1/chat/completions", chatBody("What is   Kubernetes?", ""), &answer)
	text := *answer.Choices[0].Message.Content
	if !strings.HasPrefix(text, "Hello! I am Slipway's simulator, so no real model is behind this answer. You wrote: \"What is Kubernetes?\"") ||
		!strings.HasSuffix(text, ".") {
		t.Errorf("the first answer is %q", text)
	}
	again := `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`
	decode(t, newServer(t), "/v1/chat/completions", again, &answer)
	if text := *answer.Choices[0].Message.Content; strings.Contains(text, "I am Slipway") || text == "" || text[0] == ' ' || !strings.HasSuffix(text, ".") {
		t.Errorf("the second answer is %q", text)
	}
}

// Two servers of one seed answer the same requests alike, and another seed
// answers otherwise.
func TestSeed(t *testing.T) {
	say := func(seed string) (all []string) {
		server := newServer(t, "--seed", seed)
		for range 5 {
			var answer openai.CompletionResponse
			decode(t, server, "/v1/completions", `{"model":"m","prompt":"a"}`, &answer)
			all = append(all, answer.Choices[0].Text)
		}
		return all
	}
	one := say("7")
	if diff := cmp.Diff(one, say("7")); diff != "" {
		t.Errorf("the same seed differs: %s", diff)
	}
	if cmp.Equal(one, say("8")) || one[0] == one[1] {
		t.Errorf("answers don't vary: %q", one)
	}
}

func TestRequestFaults(t *testing.T) {
	server := newServer(t, "--max-model-len", "20", "--max-request-body-size-mb", "1")
	long := strings.Repeat("word ", 19)
	for _, test := range []struct {
		name, path, body string
		status           int
		kind, message    string
	}{
		{"unknown model", "/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"a"}]}`, 404, "NotFoundError", "The model `x` does not exist."},
		{"no model", "/v1/completions", `{"prompt":"a"}`, 404, "NotFoundError", "The model `` does not exist."},
		{"unknown model for embeddings", "/v1/embeddings", `{"model":"x","input":"a"}`, 404, "NotFoundError", "The model `x` does not exist."},
		{"no JSON", "/v1/chat/completions", `{`, 400, "BadRequestError", "The request's body is not valid: unexpected end of JSON input"},
		{"no body", "/v1/completions", ``, 400, "BadRequestError", "The request has no body; send a JSON object."},
		{"no messages", "/v1/chat/completions", `{"model":"m"}`, 400, "BadRequestError", "messages is empty; send at least one message."},
		{"no prompt", "/v1/completions", `{"model":"m"}`, 400, "BadRequestError", "prompt is missing; send a string."},
		{"max_tokens 0", "/v1/completions", `{"model":"m","prompt":"a","max_tokens":0}`, 400, "BadRequestError", "max_tokens must be at least 1, got 0."},
		{"max_completion_tokens -1", "/v1/chat/completions", chatBody("a", `,"max_completion_tokens":-1`), 400, "BadRequestError", "max_tokens must be at least 1, got -1."},
		{"too long", "/v1/completions", `{"model":"m","prompt":"one two","max_tokens":19}`, 400, "BadRequestError",
			"This model's maximum context length is 20 tokens. However, you requested 21 tokens (2 in the messages, 19 in the completion). Please reduce the length of the messages or completion"},
		{"prompt too long", "/v1/completions", `{"model":"m","prompt":"` + long + `"}`, 400, "BadRequestError",
			"This model's maximum context length is 20 tokens. However, you requested 20 tokens (20 in the messages, 0 in the completion). Please reduce the length of the messages or completion"},
		{"n too large", "/v1/completions", `{"model":"m","prompt":"a","n":4611686018427387904}`, 400, "BadRequestError", "n is 4611686018427387904 for 1 prompts; n must be at least 1, and n times the prompts at most 128."},
		{"remote decode in a stream", "/v1/completions", `{"model":"m","prompt":"a","stream":true,"kv_transfer_params":{"do_remote_decode":true}}`, 400, "BadRequestError", "A request with do_remote_decode can't be streamed; leave stream out."},
		{"threshold", "/v1/completions", `{"model":"m","prompt":"a","cache_hit_threshold":2}`, 400, "BadRequestError", "cache_hit_threshold is 2; it must be from 0 to 1."},
		{"unknown tool", "/v1/chat/completions", chatBody("a", `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}`), 400, "BadRequestError", `tool_choice names the function "g", which is not among the tools.`},
		{"bad tool choice", "/v1/chat/completions", chatBody("a", `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"maybe"`), 400, "BadRequestError", `tool_choice is "maybe"; it must be none, auto or required, or name a function.`},
		{"large body", "/v1/completions", `{"model":"m","prompt":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "BadRequestError", "The request's body is larger than 1 MiB; raise --max-request-body-size-mb."},
		{"dimensions", "/v1/embeddings", `{"model":"m","input":"a","dimensions":0}`, 400, "BadRequestError", "dimensions is 0; it must be from 1 to 16384."},
		{"encoding", "/v1/embeddings", `{"model":"m","input":"a","encoding_format":"hex"}`, 400, "BadRequestError", `encoding_format is "hex"; it must be float or base64.`},
		{"no adapter", "/v1/unload_lora_adapter", `{"lora_name":"x"}`, 404, "NotFoundError", "The lora adapter 'x' cannot be found."},
		{"fake metrics", "/fake_metrics", `{"kv-cache-usage":7}`, 400, "BadRequestError", "fake metrics: kv-cache-usage is 7; it must be from 0 to 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			response := call(t, server, http.MethodPost, test.path, test.body)
			want, _ := json.Marshal(map[string]any{"error": map[string]any{"message": test.message, "type": test.kind, "param": nil, "code": test.status}})
			var a, b any
			got := read(t, response)
			json.Unmarshal([]byte(got), &a)
			json.Unmarshal(want, &b)
			if response.StatusCode != test.status || !cmp.Equal(a, b) || response.Header.Get("Content-Type") != "application/json" {
				t.Errorf("got %d %s\nwant %s", response.StatusCode, got, want)
			}
		})
	}
}

func TestRouting(t *testing.T) {
	server := newServer(t)
	missing := call(t, server, http.MethodGet, "/nowhere", "")
	if text := read(t, missing); missing.StatusCode != 404 || text != "Not Found" {
		t.Errorf("an unknown path gives %d %q", missing.StatusCode, text)
	}
	wrong := call(t, server, http.MethodGet, "/v1/completions", "")
	if wrong.StatusCode != 405 || wrong.Header.Get("Allow") != "POST" {
		t.Errorf("a wrong method gives %d, Allow %q", wrong.StatusCode, wrong.Header.Get("Allow"))
	}
	if head := call(t, server, http.MethodHead, "/health", ""); head.StatusCode != 200 {
		t.Errorf("HEAD /health gives %d", head.StatusCode)
	}
	signed := call(t, server, http.MethodPost, "/v1/completions", `{"model":"m","prompt":"a"}`)
	for name, want := range map[string]string{"x-inference-pod": "pod-1", "x-inference-namespace": "ns", "x-inference-port": "8000"} {
		if got := signed.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if id := signed.Header.Get("X-Request-Id"); id != "" {
		t.Errorf("an X-Request-Id nobody asked for: %q", id)
	}
	if id := call(t, newServer(t, "--enable-request-id-headers"), http.MethodPost, "/v1/completions", `{"model":"m","prompt":"a"}`).Header.Get("X-Request-Id"); len(id) != 36 {
		t.Errorf("X-Request-Id is %q", id)
	}
}

func TestModels(t *testing.T) {
	server := newServer(t, "--served-model-name", "a", "b", "--max-cpu-loras", "2", "--lora-modules", `{"name":"l1","path":"/l1"}`)
	list := func() (ids []string) {
		var models openai.ModelList
		decode(t, server, "/v1/models", "", &models)
		for _, model := range models.Data {
			ids = append(ids, model.ID)
			if adapter := strings.HasPrefix(model.ID, "l"); adapter != (model.Parent != nil) || adapter != (model.MaxModelLen == nil) || model.OwnedBy != "vllm" {
				t.Errorf("listed: %+v", model)
			}
		}
		return ids
	}
	post := func(path, body string) int { return call(t, server, http.MethodPost, path, body).StatusCode }
	check := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, list()); diff != "" {
			t.Errorf("models (-want +got)\n%s", diff)
		}
	}
	check("a", "b", "l1")
	if post("/v1/load_lora_adapter", `{"lora_name":"l2","lora_path":"/l2"}`) != 200 || post("/v1/load_lora_adapter", `{"lora_name":"l2"}`) != 200 {
		t.Error("an adapter can't be loaded, or not twice")
	}
	check("a", "b", "l1", "l2")
	if got := post("/v1/load_lora_adapter", `{"lora_name":"l3"}`); got != 400 {
		t.Errorf("one adapter too many gives %d", got)
	}
	var answer openai.CompletionResponse
	decode(t, server, "/v1/completions", `{"model":"l2","prompt":"x"}`, &answer)
	if answer.Model != "l2" {
		t.Errorf("an adapter's answer is by %q", answer.Model)
	}
	decode(t, server, "/v1/completions", `{"model":"b","prompt":"x"}`, &answer)
	if answer.Model != "a" {
		t.Errorf("the second name's answer is by %q", answer.Model)
	}
	if post("/v1/completions", `{"model":"m","prompt":"x"}`) != 404 {
		t.Error("the base model's own name is served beside other names")
	}
	if post("/v1/unload_lora_adapter", `{"lora_name":"l1"}`) != 200 {
		t.Error("an adapter can't be unloaded")
	}
	check("a", "b", "l2")
}

func TestTokenize(t *testing.T) {
	server := newServer(t)
	var tokens openai.Tokenized
	decode(t, server, "/tokenize", `{"model":"m","prompt":"Hello, world!"}`, &tokens)
	if tokens.Count != 4 || len(tokens.Tokens) != 4 || tokens.MaxModelLen != 1024 || tokens.TokenStrings != nil {
		t.Errorf("tokenized: %+v", tokens)
	}
	var answer openai.ChatResponse
	decode(t, server, "/v1/chat/completions", chatBody("Hello, world!", ""), &answer)
	decode(t, server, "/tokenize", chatBody("Hello, world!", ""), &tokens)
	if tokens.Count != answer.Usage.PromptTokens {
		t.Errorf("a chat of %d tokens is used as %d", tokens.Count, answer.Usage.PromptTokens)
	}
}

func TestEmbeddings(t *testing.T) {
	server := newServer(t)
	var list struct {
		Data []struct {
			Embedding []float64 `json:"embedding"`
			Index     int       `json:"index"`
		} `json:"data"`
		Usage openai.Usage `json:"usage"`
	}
	decode(t, server, "/v1/embeddings", `{"model":"m","input":["one two","one two","three"],"dimensions":8}`, &list)
	if len(list.Data) != 3 || len(list.Data[0].Embedding) != 8 || list.Data[2].Index != 2 || list.Usage.PromptTokens != 5 {
		t.Fatalf("embedded: %+v", list)
	}
	if !cmp.Equal(list.Data[0].Embedding, list.Data[1].Embedding) || cmp.Equal(list.Data[0].Embedding, list.Data[2].Embedding) {
		t.Error("equal texts differ, or different ones don't")
	}
	var norm float64
	for _, x := range list.Data[0].Embedding {
		norm += x * x
	}
	if math.Abs(norm-1) > 1e-5 {
		t.Errorf("the vector's length is %g", norm)
	}
	var encoded struct {
		Data []struct {
			Embedding string `json:"embedding"`
		} `json:"data"`
	}
	decode(t, server, "/v1/embeddings", `{"model":"m","input":[1,2],"encoding_format":"base64"}`, &encoded)
	raw, err := base64.StdEncoding.DecodeString(encoded.Data[0].Embedding)
	if err != nil || len(raw) != 4*usualDimensions {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

func TestSleepMode(t *testing.T) {
	asleep := func(server *Server) bool {
		var state struct {
			Sleeping bool `json:"is_sleeping"`
		}
		decode(t, server, "/is_sleeping", "", &state)
		return state.Sleeping
	}
	server := newServer(t, "--enable-sleep-mode")
	if call(t, server, http.MethodPost, "/sleep", "").StatusCode != 200 || !asleep(server) {
		t.Error("the engine can't be put to sleep")
	}
	if got := call(t, server, http.MethodPost, "/v1/completions", `{"model":"m","prompt":"a"}`); got.StatusCode != 503 {
		t.Errorf("a sleeping engine answers %d", got.StatusCode)
	}
	if call(t, server, http.MethodPost, "/wake_up", "").StatusCode != 200 || asleep(server) {
		t.Error("the engine can't be woken")
	}
	plain := newServer(t)
	if call(t, plain, http.MethodPost, "/sleep", "").StatusCode != 200 || asleep(plain) {
		t.Error("without --enable-sleep-mode the engine sleeps")
	}
}

func TestFailures(t *testing.T) {
	for kind, want := range map[string]int{
		"rate_limit": 429, "invalid_api_key": 401, "context_length": 400, "server_error": 503, "invalid_request": 400, "model_not_found": 404,
	} {
		server := newServer(t, "--failure-injection-rate", "100", "--failure-types", kind)
		if got := call(t, server, http.MethodPost, "/v1/chat/completions", chatBody("a", "")); got.StatusCode != want {
			t.Errorf("%s gives %d", kind, got.StatusCode)
		}
	}
	server := newServer(t, "--failure-injection-rate", "30")
	failed, kinds := 0, map[int]bool{}
	for range 1000 {
		if status := call(t, server, http.MethodPost, "/v1/completions", `{"model":"m","prompt":"a","max_tokens":1}`).StatusCode; status != 200 {
			failed++
			kinds[status] = true
		}
	}
	if failed < 240 || failed > 360 || len(kinds) != 5 {
		t.Errorf("of 1000 requests %d failed, with %v", failed, kinds)
	}
}

func TestRemotePrefillAndDecode(t *testing.T) {
	server := newServer(t, "--port", "8200")
	var prefilled openai.ChatResponse
	decode(t, server, "/v1/chat/completions", chatBody("Hello there", `,"max_tokens":1,"stream":false,"kv_transfer_params":`+
		`{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`), &prefilled)
	params := prefilled.KVTransferParams
	if prefilled.Choices[0].FinishReason != "remote_decode" || prefilled.Usage.CompletionTokens != 1 || params == nil {
		t.Fatalf("prefill gives %+v", prefilled)
	}
	if !params.DoRemotePrefill || params.DoRemoteDecode || params.RemoteHost != "pod-1" || string(params.RemotePort) != "8200" ||
		params.RemoteEngineID == "" || !strings.HasPrefix(string(params.RemoteBlockIDs), "[") || params.TPSize != 1 {
		t.Errorf("handed over: %+v", params)
	}
	handed, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	var decoded openai.ChatResponse
	decode(t, server, "/v1/chat/completions", chatBody("Hello there", `,"kv_transfer_params":`+string(handed)), &decoded)
	if decoded.Choices[0].FinishReason != "stop" || decoded.KVTransferParams != nil || decoded.Usage.CompletionTokens < 2 {
		t.Errorf("decode gives %+v", decoded)
	}
}

func TestPrefixCache(t *testing.T) {
	server := newServer(t, "--enable-kvcache", "--block-size", "8", "--kv-cache-size", "16")
	prompt := strings.Repeat("word ", 32)
	cached := func(prompt, more string) (int, string) {
		var answer openai.CompletionResponse
		decode(t, server, "/v1/completions", `{"model":"m","prompt":"`+prompt+`"`+more+`}`, &answer)
		return answer.Usage.PromptTokensDetails.CachedTokens, *answer.Choices[0].FinishReason
	}
	if n, finish := cached(prompt, `,"cache_hit_threshold":0.5`); n != 0 || finish != "cache_threshold" {
		t.Errorf("a cold prompt below its threshold: %d cached, %s", n, finish)
	}
	if n, _ := cached(prompt, ""); n != 0 {
		t.Errorf("the first time %d are cached; a refused prompt must leave nothing", n)
	}
	if n, _ := cached(prompt+"and more", ""); n != 32 {
		t.Errorf("the second time %d are cached", n)
	}
	if n, finish := cached(prompt, `,"cache_hit_threshold":0.5`); n != 32 || finish != "stop" {
		t.Errorf("a warm prompt: %d cached, %s", n, finish)
	}
	if n, _ := cached("other "+prompt, ""); n != 0 {
		t.Errorf("another beginning has %d cached", n)
	}
	metrics := read(t, call(t, server, http.MethodGet, "/metrics", ""))
	for _, want := range []string{`vllm:prefix_cache_hits_total{model_name="m"} 64`, `vllm:prefix_cache_queries_total{model_name="m"} 167`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s in\n%s", want, grep(metrics, "prefix_cache"))
		}
	}
}

func grep(text, word string) string {
	var found []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "\n")
}

func TestTools(t *testing.T) {
	parameters := `{"type":"object","required":["city","days","tags","deep"],"properties":{"city":{"type":"string","enum":["Oslo","Rome"]},` +
		`"days":{"type":"integer","minimum":3,"maximum":5},"warm":{"type":"boolean"},"share":{"type":"number"},` +
		`"tags":{"type":"array","items":{"type":"string"},"minItems":2,"maxItems":3},` +
		`"deep":{"type":"object","properties":{"a":{"type":["null","string"]}},"required":["a"]}}}`
	tools := `,"tools":[{"type":"function","function":{"name":"weather","parameters":` + parameters + `}}]`
	server := newServer(t)
	for seed := range 50 {
		var answer openai.ChatResponse
		decode(t, server, "/v1/chat/completions", chatBody("a", tools+`,"tool_choice":"required","seed":`+strconv.Itoa(seed)), &answer)
		choice := answer.Choices[0]
		if choice.FinishReason != "tool_calls" || choice.Message.Content != nil || len(choice.Message.ToolCalls) != 1 {
			t.Fatalf("the choice is %+v", choice)
		}
		var arguments struct {
			City string         `json:"city"`
			Days int            `json:"days"`
			Tags []string       `json:"tags"`
			Deep map[string]any `json:"deep"`
		}
		called := choice.Message.ToolCalls[0]
		if err := json.Unmarshal([]byte(called.Function.Arguments), &arguments); err != nil {
			t.Fatal(err)
		}
		if (arguments.City != "Oslo" && arguments.City != "Rome") || arguments.Days < 3 || arguments.Days > 5 || len(arguments.Tags) < 2 || len(arguments.Tags) > 3 {
			t.Errorf("the arguments are %s", called.Function.Arguments)
		}
		if value, ok := arguments.Deep["a"]; !ok || value != nil {
			t.Errorf("the nested argument is %v", arguments.Deep)
		}
		var streamed, name string
		for _, event := range events(t, server, "/v1/chat/completions", chatBody("a", tools+`,"tool_choice":"required","stream":true,"seed":`+strconv.Itoa(seed))) {
			var chunk openai.ChatChunk
			if event == openai.Done {
				break
			}
			if err := json.Unmarshal([]byte(event), &chunk); err != nil {
				t.Fatal(err)
			}
			for _, call := range chunk.Choices[0].Delta.ToolCalls {
				streamed += call.Function.Arguments
				name += call.Function.Name
			}
		}
		if streamed != called.Function.Arguments || name != "weather" {
			t.Fatalf("streamed %s of %q, whole %s", streamed, name, called.Function.Arguments)
		}
	}
	for choice, want := range map[string]string{`"none"`: "stop", `{"type":"function","function":{"name":"weather"}}`: "tool_calls"} {
		var answer openai.ChatResponse
		decode(t, server, "/v1/chat/completions", chatBody("a", tools+`,"tool_choice":`+choice), &answer)
		if answer.Choices[0].FinishReason != want {
			t.Errorf("tool_choice %s ends with %s", choice, answer.Choices[0].FinishReason)
		}
	}
}

// FuzzRequest sends anything anywhere: the server never panics, and always
// answers with a status that it knows.
func FuzzRequest(f *testing.F) {
	f.Add("/v1/chat/completions", []byte(chatBody("a", `,"stream":true,"n":2,"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"array","items":{"type":"array"}}}}}}],"tool_choice":"required"`)))
	f.Add("/v1/completions", []byte(`{"model":"m","prompt":[[1,2],[3]],"stop":["a"],"cache_hit_threshold":0.1,"ignore_eos":true,"max_tokens":5}`))
	f.Add("/v1/embeddings", []byte(`{"model":"m","input":["a"],"dimensions":2,"encoding_format":"base64"}`))
	f.Add("/tokenize", []byte(`{"messages":[{"role":"a","tool_calls":[{"function":{"name":"f"}}]}]}`))
	f.Add("/v1/load_lora_adapter", []byte(`{"lora_name":"l"}`))
	f.Add("/fake_metrics", []byte(`{"loras":[{"timestamp":1e300}],"request-success-total":{"stop":1},"ttft-buckets-values":[1,2]}`))
	server := newServer(f, "--enable-kvcache", "--kv-cache-size", "8")
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if strings.HasPrefix(path, "/sleep") || !strings.HasPrefix(path, "/") {
			return
		}
		request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		request.URL.Path = path
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, request)
		switch recorder.Code {
		case 200, 400, 404, 405, 413:
		default:
			t.Fatalf("%s %q gives %d: %s", path, body, recorder.Code, recorder.Body)
		}
		if recorder.Code == 400 && !json.Valid(recorder.Body.Bytes()) {
			t.Fatalf("an error that isn't JSON: %s", recorder.Body)
		}
		if state := server.engine.state(); state.running != 0 || state.waiting != 0 || state.usage != 0 {
			t.Fatalf("something was left behind: %+v", state)
		}
	})
}
