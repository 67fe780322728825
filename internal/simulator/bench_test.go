package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// discard is a response writer that keeps nothing.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) FlushError() error   { return nil }
func (d *discard) Write(data []byte) (int, error) {
	d.bytes += len(data)
	return len(data), nil
}

const (
	benchChat   = `{"model":"m","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"Tell me about ships and the sea."}],"max_tokens":40,"ignore_eos":true}`
	benchStream = `{"model":"m","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"Tell me about ships and the sea."}],"max_tokens":40,"ignore_eos":true,"stream":true}`
)

func BenchmarkHandler(b *testing.B) {
	for name, test := range map[string]struct {
		args []string
		body string
	}{
		"chat":   {nil, benchChat},
		"stream": {nil, benchStream},
		"cached": {[]string{"--enable-kvcache", "--block-size", "8"}, benchChat},
	} {
		b.Run(name, func(b *testing.B) {
			server := newServer(b, test.args...)
			request := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/chat/completions", nil)
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				request.Body = io.NopCloser(strings.NewReader(test.body))
				server.ServeHTTP(w, request)
			}
		})
	}
}

// echoJSON is the least that a JSON server does: decode, encode, answer.
func echoJSON(w http.ResponseWriter, r *http.Request) {
	var value struct {
		Model    string `json:"model"`
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&value); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value)
}

// load sends n requests to a server from several clients at once, and returns
// how many were answered in a second.
func load(t testing.TB, handler http.Handler, body string, n int) float64 {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	const clients = 4
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	send := func() {
		response, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("status %d, %v", response.StatusCode, err)
		}
	}
	for range clients {
		send() // Opens the connections.
	}
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	start := time.Now()
	for range clients {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				send()
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(start).Seconds()
}

// The simulator is no bottleneck: over real connections it answers not much
// slower than a server that only decodes and encodes JSON, in the same run and
// with the client's share in both.
func TestThroughput(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds; leave -short out to run it")
	}
	if raceEnabled {
		t.Skip("the race detector would be measured, not the server")
	}
	const rounds, requests = 3, 4000
	var echo, chat, stream float64
	for range rounds { // The best of each: other work on the machine only slows down.
		echo = max(echo, load(t, http.HandlerFunc(echoJSON), benchChat, requests))
		chat = max(chat, load(t, newServer(t), benchChat, requests))
		stream = max(stream, load(t, newServer(t), benchStream, requests))
	}
	t.Logf("JSON echo %.0f/s; chat %.0f/s, %.2f of it; stream of 40 tokens %.0f/s, %.2f of it", echo, chat, chat/echo, stream, stream/echo)
	if chat < 0.35*echo {
		t.Errorf("chat reaches %.2f of a JSON echo, want 0.35", chat/echo)
	}
	if stream < 0.2*echo {
		t.Errorf("a stream reaches %.2f of a JSON echo, want 0.2", stream/echo)
	}
}

// An answer's memory is used again: what a request allocates is bounded.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops pooled memory on purpose")
	}
	server := newServer(t)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", nil)
	w := &discard{header: http.Header{}}
	for name, test := range map[string]struct {
		body string
		most float64
	}{"chat": {benchChat, 60}, "stream": {benchStream, 60}} {
		body := []byte(test.body)
		got := testing.AllocsPerRun(200, func() {
			request.Body = io.NopCloser(bytes.NewReader(body))
			server.ServeHTTP(w, request)
		})
		t.Logf("%s: %.0f allocations", name, got)
		if got > test.most {
			t.Errorf("%s: %.0f allocations, want at most %.0f", name, got, test.most)
		}
	}
}
