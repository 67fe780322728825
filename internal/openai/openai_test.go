package openai_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/slipway-dev/slipway/internal/openai"
)

func TestContent(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"string", `"hello"`, "hello"},
		{"null", `null`, ""},
		{"parts", `[{"type":"text","text":"one "},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"two"}]`, "one two"},
		{"no parts", `[]`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var message openai.Message
			if err := json.Unmarshal([]byte(`{"role":"user","content":`+test.in+`}`), &message); err != nil {
				t.Fatal(err)
			}
			if string(message.Content) != test.want {
				t.Errorf("content is %q, want %q", message.Content, test.want)
			}
		})
	}
	for _, bad := range []string{`7`, `{}`, `true`, `[1]`} {
		var content openai.Content
		if err := json.Unmarshal([]byte(bad), &content); err == nil {
			t.Errorf("content %s was accepted", bad)
		}
	}
}

func TestPrompt(t *testing.T) {
	for _, test := range []struct {
		in   string
		want openai.Prompt
	}{
		{`"a"`, openai.Prompt{Texts: []string{"a"}}},
		{` [ "a" , "b" ]`, openai.Prompt{Texts: []string{"a", "b"}}},
		{`[1,2]`, openai.Prompt{Tokens: [][]uint32{{1, 2}}}},
		{`[[1],[2,3]]`, openai.Prompt{Tokens: [][]uint32{{1}, {2, 3}}}},
		{`[]`, openai.Prompt{}},
		{`null`, openai.Prompt{}},
	} {
		var got openai.Prompt
		if err := json.Unmarshal([]byte(test.in), &got); err != nil {
			t.Errorf("%s: %v", test.in, err)
		} else if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.in, diff)
		}
	}
	for _, bad := range []string{`7`, `{}`, `["a",1]`, `[1,"a"]`, `[-1]`, `[[1],"a"]`} {
		var prompt openai.Prompt
		if err := json.Unmarshal([]byte(bad), &prompt); err == nil {
			t.Errorf("prompt %s was accepted as %+v", bad, prompt)
		}
	}
}

func TestToolChoice(t *testing.T) {
	for in, want := range map[string]openai.ToolChoice{
		`"auto"`: {Mode: "auto"},
		`{"type":"function","function":{"name":"f"}}`: {Function: "f"},
	} {
		var got openai.ToolChoice
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", in, got, err)
		}
	}
}

func TestErrorTypes(t *testing.T) {
	for status, want := range map[int]string{
		400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError",
		413: "BadRequestError", 429: "RateLimitError", 500: "InternalServerError", 503: "InternalServerError",
	} {
		fault := openai.Errorf(status, "no %s", "luck")
		if fault.Type != want || fault.Code != status || fault.Message != "no luck" {
			t.Errorf("status %d gives %+v", status, fault)
		}
		if diff := cmp.Diff(fault, openai.DecodeError(status, fault.Encode())); diff != "" {
			t.Errorf("status %d does not survive the wire: %s", status, diff)
		}
	}
	want := `{"error":{"message":"m","type":"NotFoundError","param":null,"code":404}}`
	if got := string(openai.Errorf(http.StatusNotFound, "m").Encode()); got != want {
		t.Errorf("encoded as %s, want %s", got, want)
	}
	long := openai.DecodeError(502, []byte(strings.Repeat("x", 1000)))
	if len(long.Message) > 250 || !strings.HasPrefix(long.Message, "HTTP 502: xxx") {
		t.Errorf("a foreign body gives %q", long.Message)
	}
}

func TestEventReader(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"two", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"cr", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"no blank", "data:a\n\n", []string{"a"}},
		{"only one blank goes", "data:  a\n\n", []string{" a"}},
		{"comment", ": ping\n\ndata: a\n\n", []string{"a"}},
		{"other fields", "event: x\nid: 1\ndata: a\nretry: 5\n\n", []string{"a"}},
		{"several lines", "data: a\ndata: b\n\n", []string{"a\nb"}},
		{"empty data", "data:\n\n", []string{""}},
		{"cut off", "data: a\n\ndata: b\n", []string{"a"}},
		{"nothing", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(test.in), iotest.OneByteReader(strings.NewReader(test.in))} {
				if diff := cmp.Diff(test.want, readAll(t, in)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
		})
	}
}

func readAll(t *testing.T, in io.Reader) []string {
	t.Helper()
	var events []string
	reader := openai.NewEventReader(in)
	for {
		data, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, string(data))
	}
}

func TestEventReaderBounds(t *testing.T) {
	long := strings.Repeat("x", openai.MaxEvent+1)
	lines := strings.Repeat("data: "+strings.Repeat("y", 1000)+"\n", openai.MaxEvent/1000+2)
	for name, in := range map[string]string{"one line": "data: " + long + "\n\n", "many lines": lines, "a comment": ":" + long} {
		if _, err := openai.NewEventReader(strings.NewReader(in)).Next(); !errors.Is(err, openai.ErrEventTooLarge) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	broken := errors.New("broken")
	if _, err := openai.NewEventReader(iotest.ErrReader(broken)).Next(); !errors.Is(err, broken) {
		t.Errorf("a read error comes out as %v", err)
	}
}

// What AppendEvent writes, EventReader reads back, with every kind of line end
// turned into \n.
func TestEventsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payloads := rapid.SliceOf(rapid.StringOf(rapid.RuneFrom([]rune("ab: \r\né\u2028{}")))).Draw(t, "payloads")
		var wire []byte
		var want []string
		for _, payload := range payloads {
			wire = openai.AppendEvent(wire, []byte(payload))
			want = append(want, strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(payload))
		}
		reader := openai.NewEventReader(strings.NewReader(string(wire)))
		for i, payload := range want {
			got, err := reader.Next()
			if err != nil || string(got) != payload {
				t.Fatalf("event %d: got %q, %v; want %q", i, got, err, payload)
			}
		}
		if _, err := reader.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last event: %v", err)
		}
	})
}

// AppendString agrees with encoding/json about every string.
func TestAppendString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkString(t, string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		checkString(t, rapid.String().Draw(t, "text"))
	})
}

func checkString(t interface{ Fatalf(string, ...any) }, s string) {
	var got string
	if err := json.Unmarshal(openai.AppendString(nil, s), &got); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	if want := asText(s); got != want {
		t.Fatalf("%q came back as %q, want %q", s, got, want)
	}
}

// asText is what encoding/json makes of a string: each byte that isn't UTF-8
// becomes one U+FFFD.
func asText(s string) string { return string([]rune(s)) }

// A stream that ChunkWriter makes decodes into the same answer.
func TestChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOf(rapid.String()).Draw(t, "tokens")
		model := rapid.String().Draw(t, "model")
		chat := rapid.Bool().Draw(t, "chat")
		var chunks openai.ChunkWriter
		chunks.Start(!chat, "an earlier answer", "m", 1)
		chunks.Token(0, "left over")
		chunks.Start(chat, "id", model, 42)
		chunks.Role(0)
		for _, token := range tokens {
			chunks.Token(0, token)
		}
		chunks.Finish(0, openai.FinishStop)
		chunks.Usage(openai.Usage{PromptTokens: 3, CompletionTokens: len(tokens), TotalTokens: 3 + len(tokens)})
		chunks.Done()

		var text strings.Builder
		var finish string
		var usage *openai.Usage
		reader := openai.NewEventReader(strings.NewReader(string(chunks.Buf)))
		for {
			data, err := reader.Next()
			if err != nil {
				t.Fatal(err)
			}
			if string(data) == openai.Done {
				break
			}
			text.WriteString(decodeChunk(t, data, chat, model, &finish, &usage))
		}
		if want := asText(strings.Join(tokens, "")); text.String() != want {
			t.Fatalf("the text is %q, want %q", text.String(), want)
		}
		if finish != openai.FinishStop || usage == nil || usage.CompletionTokens != len(tokens) {
			t.Fatalf("finish %q, usage %+v", finish, usage)
		}
	})
}

func decodeChunk(t *rapid.T, data []byte, chat bool, model string, finish *string, usage **openai.Usage) (text string) {
	var reason *string
	var sent *openai.Usage
	var id, name string
	if chat {
		var chunk openai.ChatChunk
		if err := json.Unmarshal(data, &chunk); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		id, name, sent = chunk.ID, chunk.Model, chunk.Usage
		if len(chunk.Choices) > 0 {
			text, reason = chunk.Choices[0].Delta.Content, chunk.Choices[0].FinishReason
		}
	} else {
		var chunk openai.CompletionResponse
		if err := json.Unmarshal(data, &chunk); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		id, name, sent = chunk.ID, chunk.Model, chunk.Usage
		if len(chunk.Choices) > 0 {
			text, reason = chunk.Choices[0].Text, chunk.Choices[0].FinishReason
		}
	}
	if id != "id" || name != asText(model) {
		t.Fatalf("the chunk is of %q by %q", id, name)
	}
	if reason != nil {
		*finish = *reason
	}
	if sent != nil {
		*usage = sent
	}
	return text
}

func TestToolCallChunk(t *testing.T) {
	var chunks openai.ChunkWriter
	chunks.Start(true, "id", "m", 1)
	index := 0
	if err := chunks.Call(0, openai.ToolCall{Index: &index, ID: "c", Type: "function", Function: openai.CallFunction{Name: "f"}}); err != nil {
		t.Fatal(err)
	}
	want := `data: {"id":"id","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` +
		`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}],"usage":null}` + "\n\n"
	if got := string(chunks.Buf); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzChatRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"auto","stop":["a"],"kv_transfer_params":{"remote_block_ids":null}}`))
	f.Add([]byte(`{"messages":[{"content":null}],"tool_choice":{"function":{"name":"f"}},"stop":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var request openai.ChatRequest
		if json.Unmarshal(data, &request) != nil {
			return
		}
		again, err := json.Marshal(request)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		var second openai.ChatRequest
		if err := json.Unmarshal(again, &second); err != nil {
			t.Fatalf("what was written can't be read: %v\n%s", err, again)
		}
	})
}

func FuzzCompletionRequest(f *testing.F) {
	f.Add([]byte(`{"prompt":"a","stop":"b"}`))
	f.Add([]byte(`{"prompt":[[1,2],[3]]}`))
	f.Add([]byte(`{"prompt":["a","b"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var request openai.CompletionRequest
		if json.Unmarshal(data, &request) != nil {
			return
		}
		again, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		var second openai.CompletionRequest
		if err := json.Unmarshal(again, &second); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if second.Prompt.Len() > 0 && second.Prompt.Len() != request.Prompt.Len() {
			t.Fatalf("%d prompts became %d: %s", request.Prompt.Len(), second.Prompt.Len(), again)
		}
	})
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\n: c\ndata:b\ndata: c\n\nevent: x\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		reader := openai.NewEventReader(strings.NewReader(string(data)))
		for range len(data) + 2 {
			event, err := reader.Next()
			if err != nil {
				return
			}
			if strings.ContainsRune(string(event), '\r') {
				t.Fatalf("an event holds a carriage return: %q", event)
			}
		}
		t.Fatal("more events than bytes")
	})
}

func FuzzDecodeError(f *testing.F) {
	f.Add(404, []byte(`{"error":{"message":"m","code":404}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if fault := openai.DecodeError(status, body); fault == nil || fault.Message == "" {
			t.Fatalf("no message for %q", body)
		}
	})
}

// A message's text is what encoding/json reads, whether or not it takes the
// short way that plain strings take.
func TestContentIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]*`)).Draw(t, "text")
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var content openai.Content
		var want string
		if err := json.Unmarshal(data, &content); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		if string(content) != want {
			t.Fatalf("%s is read as %q, want %q", data, content, want)
		}
	})
}
