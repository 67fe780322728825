package chat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-dev/slipway/internal/cli/chat"
	"github.com/slipway-dev/slipway/internal/openai"
	"github.com/slipway-dev/slipway/internal/simulator"
)

// serve starts a server and returns what connects to it, and how often that
// was done.
func serve(t *testing.T, handler http.Handler) (connect func(context.Context) (*chat.Client, error), connections *atomic.Int64) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	connections = &atomic.Int64{}
	return func(context.Context) (*chat.Client, error) {
		connections.Add(1)
		return &chat.Client{HTTP: server.Client(), BaseURL: server.URL, Close: func() {}}, nil
	}, connections
}

// simulated returns a simulator with these flags.
func simulated(t *testing.T, args ...string) http.Handler {
	t.Helper()
	config, err := simulator.Load(args, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return simulator.New(config, simulator.SystemClock{})
}

func TestAsk(t *testing.T) {
	connect, _ := serve(t, simulated(t, "--model", "m", "--mode", "echo"))
	var out, notices bytes.Buffer
	session := chat.Session{Connect: connect, Out: &out, Err: &notices}
	if err := session.Ask(t.Context(), "How are you, ship?"); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "How are you, ship?\n" || notices.Len() > 0 {
		t.Errorf("out %q, notices %q", got, notices.String())
	}
}

func TestMaxTokens(t *testing.T) {
	connect, _ := serve(t, simulated(t, "--model", "m", "--mode", "echo"))
	var out bytes.Buffer
	session := chat.Session{Connect: connect, Out: &out, Err: io.Discard, MaxTokens: 3}
	if err := session.Ask(t.Context(), "one two three four five"); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "one two three\n" {
		t.Errorf("three tokens are %q", got)
	}
}

// handshake is a server that sends a token only when the one before was seen.
type handshake struct{ seen chan string }

func (h handshake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		io.WriteString(w, `{"data":[{"id":"m"}]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	var chunks openai.ChunkWriter
	chunks.Start(true, "id", "m", 1)
	for _, token := range []string{"one", " two", " three"} {
		chunks.Token(0, token)
		w.Write(chunks.Buf)
		w.(http.Flusher).Flush()
		chunks.Buf = chunks.Buf[:0]
		select {
		case got := <-h.seen:
			if got != token {
				panic(fmt.Sprintf("saw %q after %q", got, token))
			}
		case <-r.Context().Done():
			return
		}
	}
	chunks.Finish(0, openai.FinishStop)
	chunks.Done()
	w.Write(chunks.Buf)
}

// Write makes the handshake the session's output as well.
func (h handshake) Write(data []byte) (int, error) {
	if string(data) != "\n" {
		h.seen <- string(data)
	}
	return len(data), nil
}

func TestEachTokenIsShownAtOnce(t *testing.T) {
	h := handshake{seen: make(chan string)}
	connect, _ := serve(t, h)
	session := chat.Session{Connect: connect, Out: h, Err: io.Discard}
	if err := session.Ask(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
}

func TestConverse(t *testing.T) {
	var asked []string
	inner := simulated(t, "--model", "m", "--mode", "echo")
	connect, connections := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" {
			body, _ := io.ReadAll(r.Body)
			asked = append(asked, string(body))
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		inner.ServeHTTP(w, r)
	}))
	var out, notices bytes.Buffer
	session := chat.Session{Connect: connect, Out: &out, Err: &notices}
	if err := session.Converse(t.Context(), strings.NewReader("first\n\n  second  \n"), ""); err != nil {
		t.Fatal(err)
	}
	if out.String() != "first\nsecond\n" || notices.Len() > 0 {
		t.Errorf("out %q, notices %q", out.String(), notices.String())
	}
	want := `"messages":[{"role":"user","content":"first"},{"role":"assistant","content":"first"},{"role":"user","content":"second"}]`
	if len(asked) != 2 || !strings.Contains(asked[1], want) {
		t.Errorf("asked %q", asked)
	}
	if connections.Load() != 1 {
		t.Errorf("%d connections for one session", connections.Load())
	}
}

func TestPrompt(t *testing.T) {
	connect, _ := serve(t, simulated(t, "--model", "m", "--mode", "echo"))
	var notices bytes.Buffer
	session := chat.Session{Connect: connect, Out: io.Discard, Err: &notices}
	if err := session.Converse(t.Context(), strings.NewReader("a\n"), "> "); err != nil {
		t.Fatal(err)
	}
	if notices.String() != "> > \n" {
		t.Errorf("notices are %q", notices.String())
	}
}

// A conversation that outgrows the model loses its oldest turns and goes on.
func TestForgets(t *testing.T) {
	connect, _ := serve(t, simulated(t, "--model", "m", "--mode", "echo", "--max-model-len", "40"))
	var out, notices bytes.Buffer
	session := chat.Session{Connect: connect, Out: &out, Err: &notices}
	var in, want strings.Builder
	for i := range 30 {
		fmt.Fprintf(&in, "message number %d\n", i)
		fmt.Fprintf(&want, "message number %d\n", i)
	}
	if err := session.Converse(t.Context(), strings.NewReader(in.String()), ""); err != nil {
		t.Fatal(err)
	}
	if out.String() != want.String() || notices.Len() > 0 {
		t.Errorf("out %q, notices %q", out.String(), notices.String())
	}
}

func TestRefusalEndsNoSession(t *testing.T) {
	connect, _ := serve(t, simulated(t, "--model", "m", "--mode", "echo", "--max-model-len", "8"))
	var out, notices bytes.Buffer
	session := chat.Session{Connect: connect, Out: &out, Err: &notices}
	in := strings.Repeat("word ", 20) + "\nshort\n"
	if err := session.Converse(t.Context(), strings.NewReader(in), ""); err != nil {
		t.Fatal(err)
	}
	if out.String() != "short\n" || !strings.HasPrefix(notices.String(), "error: This model's maximum context length is 8 tokens.") {
		t.Errorf("out %q, notices %q", out.String(), notices.String())
	}
}

func TestRefusedQuestion(t *testing.T) {
	connect, _ := serve(t, simulated(t, "--model", "m", "--failure-injection-rate", "100", "--failure-types", "rate_limit"))
	session := chat.Session{Connect: connect, Out: io.Discard, Err: io.Discard}
	err := session.Ask(t.Context(), "hello")
	var refusal *openai.Error
	if !errors.As(err, &refusal) || refusal.Code != http.StatusTooManyRequests {
		t.Errorf("the error is %v", err)
	}
}

func TestNothingReady(t *testing.T) {
	notReady := errors.New("chat-service is not ready: 0/2 pods run")
	session := chat.Session{Out: io.Discard, Err: io.Discard, Connect: func(context.Context) (*chat.Client, error) { return nil, notReady }}
	if err := session.Ask(t.Context(), "hello"); !errors.Is(err, notReady) {
		t.Errorf("the error is %v", err)
	}
	if err := session.Converse(t.Context(), strings.NewReader("hello\n"), ""); !errors.Is(err, notReady) {
		t.Errorf("the error is %v", err)
	}
}

// A pod that goes away between two messages costs a new connection, not the
// session.
func TestReconnects(t *testing.T) {
	inner := simulated(t, "--model", "m", "--mode", "echo")
	var requests atomic.Int64
	connect, connections := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" && requests.Add(1) == 2 {
			panic(http.ErrAbortHandler) // Hang up.
		}
		inner.ServeHTTP(w, r)
	}))
	var out bytes.Buffer
	session := chat.Session{Connect: connect, Out: &out, Err: io.Discard}
	if err := session.Converse(t.Context(), strings.NewReader("a\nb\nc\n"), ""); err != nil {
		t.Fatal(err)
	}
	if out.String() != "a\nb\nc\n" || connections.Load() != 2 {
		t.Errorf("out %q after %d connections", out.String(), connections.Load())
	}
}

// An answer that breaks off after its first word is an error, not the same
// answer again.
func TestBreaksOff(t *testing.T) {
	connect, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			io.WriteString(w, `{"data":[{"id":"m"}]}`)
			return
		}
		var chunks openai.ChunkWriter
		chunks.Start(true, "id", "m", 1)
		chunks.Token(0, "half")
		w.Write(chunks.Buf)
	}))
	var out bytes.Buffer
	session := chat.Session{Connect: connect, Out: &out, Err: io.Discard}
	err := session.Ask(t.Context(), "hello")
	if err == nil || !strings.Contains(err.Error(), "broke off") || out.String() != "half\n" {
		t.Errorf("out %q, error %v", out.String(), err)
	}
}

func TestServersThatAreNone(t *testing.T) {
	for _, test := range []struct {
		name, models, answer, want string
	}{
		{"no model", `{"data":[]}`, "", "lists no model"},
		{"no list", `<html>`, "", "no list of models"},
		{"error in the stream", `{"data":[{"id":"m"}]}`, "data: {\"error\":{\"message\":\"out of memory\"}}\n\n", "out of memory"},
		{"no chunk", `{"data":[{"id":"m"}]}`, "data: hello\n\n", "isn't a chunk"},
	} {
		t.Run(test.name, func(t *testing.T) {
			connect, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/models" {
					io.WriteString(w, test.models)
				} else {
					io.WriteString(w, test.answer)
				}
			}))
			session := chat.Session{Connect: connect, Out: io.Discard, Err: io.Discard}
			if err := session.Ask(t.Context(), "hello"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}

// A signal ends a session that waits for its user.
func TestInterrupt(t *testing.T) {
	connect, _ := serve(t, simulated(t, "--model", "m"))
	ctx, cancel := context.WithCancel(t.Context())
	in, keyboard := io.Pipe()
	defer keyboard.Close()
	done := make(chan error, 1)
	session := chat.Session{Connect: connect, Out: io.Discard, Err: io.Discard}
	go func() { done <- session.Converse(ctx, in, "> ") }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the session ended with %v", err)
	}
}
