package simulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// stamped notes when each flush of an answer happened.
type stamped struct {
	*httptest.ResponseRecorder
	start  time.Time
	pieces []string
	at     []time.Duration
	sent   int
}

func newStamped() *stamped {
	return &stamped{ResponseRecorder: httptest.NewRecorder(), start: time.Now()}
}

func (s *stamped) FlushError() error {
	s.pieces = append(s.pieces, s.Body.String()[s.sent:])
	s.sent = s.Body.Len()
	s.at = append(s.at, time.Since(s.start))
	return nil
}

func post(ctx context.Context, path, body string) *http.Request {
	return httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
}

// timed sends a request and returns the status and how long the answer took.
func timed(t *testing.T, server *Server, body string) (int, time.Duration) {
	start := time.Now()
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, post(t.Context(), "/v1/completions", body))
	return recorder.Code, time.Since(start)
}

const fiveTokens = `{"model":"m","prompt":"one two three four five"}`

func TestTokensComeAtTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, "--mode", "echo", "--time-to-first-token", "100ms", "--inter-token-latency", "20")
		w := newStamped()
		server.ServeHTTP(w, post(t.Context(), "/v1/completions", `{"model":"m","stream":true,"prompt":"one two three four five"}`))
		want := []time.Duration{100, 120, 140, 160, 180}
		if len(w.at) != len(want) {
			t.Fatalf("%d flushes at %v: %q", len(w.at), w.at, w.pieces)
		}
		for i := range want {
			if w.at[i] != want[i]*time.Millisecond || strings.Count(w.pieces[i], "data: ") != 1 {
				t.Errorf("flush %d at %s: %q", i, w.at[i], w.pieces[i])
			}
		}
		if code, took := timed(t, server, fiveTokens); code != 200 || took != 180*time.Millisecond {
			t.Errorf("a whole answer: %d after %s", code, took)
		}
	})
}

func TestPrefillTakesItsTime(t *testing.T) {
	for _, test := range []struct {
		name, args, more string
		want             time.Duration
	}{
		{"by token", "--prefill-overhead 10 --prefill-time-per-token 2", "", 20 * time.Millisecond},
		{"fixed goes first", "--time-to-first-token 70ms --prefill-overhead 10 --prefill-time-per-token 2", "", 70 * time.Millisecond},
		{"per-token calculator", "--latency-calculator per-token --time-to-first-token 70ms --prefill-overhead 10 --prefill-time-per-token 2", "", 20 * time.Millisecond},
		{"transfer", "--time-to-first-token 70ms --kv-cache-transfer-latency 5", `,"kv_transfer_params":{"do_remote_prefill":true}`, 5 * time.Millisecond},
		{"transfer by token", "--time-to-first-token 70ms --kv-cache-transfer-time-per-token 3", `,"kv_transfer_params":{"do_remote_prefill":true}`, 15 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, append(strings.Fields(test.args), "--mode", "echo")...)
				if _, took := timed(t, server, strings.TrimSuffix(fiveTokens, "}")+test.more+"}"); took != test.want {
					t.Errorf("it took %s, want %s", took, test.want)
				}
			})
		})
	}
}

func TestCacheShortensPrefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, "--mode", "echo", "--enable-kvcache", "--block-size", "8", "--prefill-time-per-token", "1ms")
		body := `{"model":"m","max_tokens":1,"prompt":"` + strings.TrimSpace(strings.Repeat("word ", 20)) + `"}`
		_, cold := timed(t, server, body)
		_, warm := timed(t, server, body)
		if cold != 20*time.Millisecond || warm != 4*time.Millisecond {
			t.Errorf("cold %s, warm %s", cold, warm)
		}
	})
}

// With the same random draw, a prompt whose beginning is cached is never
// slower than the same prompt without a cache.
func TestCacheNeverSlows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		words := rapid.IntRange(1, 60).Draw(r, "words")
		shared := rapid.IntRange(0, words).Draw(r, "shared")
		overhead := rapid.IntRange(0, 50).Draw(r, "overhead")
		size := rapid.SampledFrom([]string{"1", "3", "100"}).Draw(r, "cache")
		synctest.Test(t, func(t *testing.T) {
			args := []string{"--mode", "echo", "--block-size", "8", "--prefill-time-per-token", "3ms",
				"--prefill-overhead", fmt.Sprint(overhead), "--prefill-time-std-dev", "5ms", "--kv-cache-size", size}
			prompt := strings.TrimSpace(strings.Repeat("word ", shared)) + strings.Repeat(" other", words-shared)
			warmUp := `{"model":"m","max_tokens":1,"prompt":"` + strings.TrimSpace(strings.Repeat("word ", shared+1)) + `"}`
			body := `{"model":"m","max_tokens":1,"seed":3,"prompt":"` + prompt + `"}`
			with, without := newServer(t, append(args, "--enable-kvcache")...), newServer(t, args...)
			timed(t, with, warmUp)
			_, cached := timed(t, with, body)
			_, fresh := timed(t, without, body)
			if cached > fresh {
				r.Fatalf("cached %s, fresh %s", cached, fresh)
			}
		})
	})
}

func TestLoadSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, "--mode", "echo", "--inter-token-latency", "10ms", "--time-factor-under-load", "3", "--max-num-seqs", "3")
		if _, took := timed(t, server, fiveTokens); took != 40*time.Millisecond {
			t.Errorf("alone it took %s", took)
		}
		var others sync.WaitGroup
		for range 2 {
			others.Go(func() { timed(t, server, `{"model":"m","prompt":"`+strings.Repeat("word ", 100)+`"}`) })
		}
		synctest.Wait()
		if _, took := timed(t, server, fiveTokens); took != 120*time.Millisecond {
			t.Errorf("in a full batch it took %s", took)
		}
		others.Wait()
	})
}

// Two run, two wait, and the fifth is refused at once; those who waited run
// when a place is free, and the metrics say so all the while.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, "--mode", "echo", "--time-to-first-token", "100ms", "--max-num-seqs", "2", "--max-waiting-queue-length", "2")
		var all sync.WaitGroup
		took := make([]time.Duration, 4)
		for i := range took {
			all.Go(func() {
				var code int
				if code, took[i] = timed(t, server, fiveTokens); code != 200 {
					t.Errorf("request %d gives %d", i, code)
				}
			})
			synctest.Wait()
		}
		metrics := string(server.engine.metrics.expose())
		if !strings.Contains(metrics, `vllm:num_requests_running{model_name="m"} 2`) || !strings.Contains(metrics, `vllm:num_requests_waiting{model_name="m"} 2`) {
			t.Errorf("the gauges are\n%s", grep(metrics, "num_requests"))
		}
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, post(t.Context(), "/v1/completions", fiveTokens))
		if recorder.Code != 429 || !strings.Contains(recorder.Body.String(), `"type":"RateLimitError"`) {
			t.Errorf("one too many gives %d %s", recorder.Code, recorder.Body)
		}
		all.Wait()
		if took[0] != 100*time.Millisecond || took[3] != 200*time.Millisecond {
			t.Errorf("they took %v", took)
		}
		metrics = string(server.engine.metrics.expose())
		for _, want := range []string{
			`vllm:num_requests_running{model_name="m"} 0`, `vllm:num_requests_waiting{model_name="m"} 0`,
			`vllm:request_queue_time_seconds_sum{model_name="m"} 0.2`, `vllm:e2e_request_latency_seconds_count{model_name="m"} 4`,
			`vllm:time_to_first_token_seconds_bucket{model_name="m",le="0.1"} 2`, `vllm:time_to_first_token_seconds_bucket{model_name="m",le="0.25"} 4`,
		} {
			if !strings.Contains(metrics, want+"\n") {
				t.Errorf("the metrics lack %s", want)
			}
		}
	})
}

// A client that goes away frees its place, whether it ran or waited.
func TestGoneClientsFreeTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, "--time-to-first-token", "1h", "--max-num-seqs", "1", "--enable-kvcache", "--block-size", "8")
		ctx, cancel := context.WithCancel(t.Context())
		body := `{"model":"m","prompt":"` + strings.Repeat("word ", 20) + `"}`
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { server.ServeHTTP(httptest.NewRecorder(), post(ctx, "/v1/completions", body)) })
			synctest.Wait()
		}
		if state := server.engine.state(); state.running != 1 || state.waiting != 2 || state.usage == 0 {
			t.Errorf("before: %+v", state)
		}
		cancel()
		all.Wait()
		if state := server.engine.state(); state.running != 0 || state.waiting != 0 || state.usage != 0 {
			t.Errorf("after: %+v", state)
		}
	})
}

// At most max-loras adapters run at once; the others wait, and are listed.
func TestAdaptersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, "--time-to-first-token", "1s", "--lora-modules", `{"name":"a"}`, `{"name":"b"}`)
		var all sync.WaitGroup
		ask := func(model string) {
			all.Go(func() {
				server.ServeHTTP(httptest.NewRecorder(), post(t.Context(), "/v1/completions", `{"model":"`+model+`","prompt":"x"}`))
			})
			synctest.Wait()
		}
		ask("a")
		ask("b")
		ask("a")
		want := fmt.Sprintf(`vllm:lora_requests_info{max_lora="1",running_lora_adapters="a",waiting_lora_adapters="b"} %d`, time.Now().Unix())
		if metrics := string(server.engine.metrics.expose()); !strings.Contains(strings.ReplaceAll(metrics, "9.466848e+08", "946684800"), want) {
			t.Errorf("want %s, got %s", want, grep(metrics, "lora_requests_info{"))
		}
		if state := server.engine.state(); state.running != 2 || state.waiting != 1 {
			t.Errorf("%d run and %d wait", state.running, state.waiting)
		}
		all.Wait()
	})
}

// The queue never exceeds its limit, whatever comes at whatever time, and each
// request is either answered or refused.
func TestQueueBound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seqs, queue := rapid.IntRange(1, 3).Draw(r, "seqs"), rapid.IntRange(0, 3).Draw(r, "queue")
		gaps := rapid.SliceOfN(rapid.IntRange(0, 30), 1, 20).Draw(r, "gaps")
		synctest.Test(t, func(t *testing.T) {
			server := newServer(t, "--mode", "echo", "--time-to-first-token", "50ms", "--max-num-seqs", fmt.Sprint(seqs), "--max-waiting-queue-length", fmt.Sprint(queue))
			var all sync.WaitGroup
			var mu sync.Mutex
			codes := map[int]int{}
			for _, gap := range gaps {
				if err := (SystemClock{}).Sleep(t.Context(), time.Duration(gap)*time.Millisecond); err != nil {
					r.Fatal(err)
				}
				all.Go(func() {
					code, _ := timed(t, server, fiveTokens)
					mu.Lock()
					defer mu.Unlock()
					codes[code]++
				})
				synctest.Wait()
				if state := server.engine.state(); state.running > seqs || state.waiting > queue {
					r.Fatalf("%d of %d run, %d of %d wait", state.running, seqs, state.waiting, queue)
				}
			}
			all.Wait()
			if codes[200]+codes[429] != len(gaps) || codes[200] < min(len(gaps), seqs+queue) {
				r.Fatalf("of %d requests: %v", len(gaps), codes)
			}
		})
	})
}

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, "--startup-duration", "30s")
		check := func(want int) {
			t.Helper()
			for _, path := range []string{"/ready", "/health/ready"} {
				if got := call(t, server, http.MethodGet, path, "").StatusCode; got != want {
					t.Errorf("%s gives %d, want %d", path, got, want)
				}
			}
			if got := call(t, server, http.MethodGet, "/health", "").StatusCode; got != 200 {
				t.Errorf("/health gives %d", got)
			}
		}
		check(503)
		time.Sleep(30*time.Second - 1)
		check(503)
		time.Sleep(time.Nanosecond)
		check(200)
		server.ready.Store(false)
		check(503)
	})
}

// A client that can no longer be written to frees its place.
func TestBrokenPipeFreesTheSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, "--inter-token-latency", "10ms")
		server.ServeHTTP(brokenPipe{httptest.NewRecorder()}, post(t.Context(), "/v1/completions", `{"model":"m","stream":true,"prompt":"x"}`))
		if state := server.engine.state(); state.running != 0 {
			t.Errorf("%d run", state.running)
		}
	})
}

type brokenPipe struct{ *httptest.ResponseRecorder }

func (brokenPipe) Write([]byte) (int, error)       { return 0, errors.New("broken pipe") }
func (brokenPipe) WriteString(string) (int, error) { return 0, io.ErrClosedPipe }
func (brokenPipe) FlushError() error               { return io.ErrClosedPipe }
