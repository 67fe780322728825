package latency_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slipway-dev/slipway/internal/latency"
)

const ms = time.Millisecond

// still is a source whose every draw is the mean.
type still struct{}

func (still) NormFloat64() float64 { return 0 }

// fixed always draws the same.
type fixed float64

func (f fixed) NormFloat64() float64 { return float64(f) }

func TestTimeToFirstToken(t *testing.T) {
	for _, test := range []struct {
		name    string
		profile latency.Profile
		prompt  latency.Prompt
		running int
		want    time.Duration
	}{
		{"nothing set", latency.Profile{}, latency.Prompt{Tokens: 10}, 1, 0},
		{"fixed", latency.Profile{FirstToken: latency.Spread{Mean: 100 * ms}, PrefillPerToken: ms}, latency.Prompt{Tokens: 10}, 1, 100 * ms},
		{"by token", latency.Profile{PrefillOverhead: 5 * ms, PrefillPerToken: 2 * ms}, latency.Prompt{Tokens: 10}, 1, 25 * ms},
		{"cached", latency.Profile{PrefillOverhead: 5 * ms, PrefillPerToken: 2 * ms}, latency.Prompt{Tokens: 10, Cached: 8}, 1, 9 * ms},
		{"all cached", latency.Profile{PrefillOverhead: 5 * ms, PrefillPerToken: 2 * ms}, latency.Prompt{Tokens: 10, Cached: 16}, 1, 5 * ms},
		{"remote", latency.Profile{FirstToken: latency.Spread{Mean: 100 * ms}, Transfer: latency.Spread{Mean: 7 * ms}}, latency.Prompt{Tokens: 10, Remote: true}, 1, 7 * ms},
		{"remote by token", latency.Profile{FirstToken: latency.Spread{Mean: 100 * ms}, TransferPerToken: latency.Spread{Mean: ms}}, latency.Prompt{Tokens: 10, Remote: true}, 1, 10 * ms},
		{"full batch", latency.Profile{FirstToken: latency.Spread{Mean: 100 * ms}, LoadFactor: 3, BatchLimit: 5}, latency.Prompt{}, 5, 300 * ms},
		{"half batch", latency.Profile{FirstToken: latency.Spread{Mean: 100 * ms}, LoadFactor: 3, BatchLimit: 5}, latency.Prompt{}, 3, 200 * ms},
		{"batch of one", latency.Profile{FirstToken: latency.Spread{Mean: 100 * ms}, LoadFactor: 3, BatchLimit: 1}, latency.Prompt{}, 1, 100 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.profile.TimeToFirstToken(still{}, test.prompt, test.running); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestInstant(t *testing.T) {
	if !(&latency.Profile{LoadFactor: 5, BatchLimit: 3}).Instant() {
		t.Error("a profile without times isn't instant")
	}
	for name, profile := range map[string]latency.Profile{
		"first":    {FirstToken: latency.Spread{Mean: 1}},
		"inter":    {InterToken: latency.Spread{Mean: 1}},
		"overhead": {PrefillOverhead: 1},
		"prefill":  {PrefillPerToken: 1},
		"transfer": {Transfer: latency.Spread{Mean: 1}},
		"by token": {TransferPerToken: latency.Spread{Mean: 1}},
	} {
		if profile.Instant() {
			t.Errorf("a profile with %s is instant", name)
		}
	}
}

// Samples stay within 30 % and 170 % of the mean, and their mean is the mean.
func TestSample(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	spread := latency.Spread{Mean: 100 * ms, StdDev: 30 * ms}
	var sum time.Duration
	const draws = 20000
	for range draws {
		sample := spread.Sample(rng)
		if sample < 30*ms || sample > 170*ms {
			t.Fatalf("a sample is %s", sample)
		}
		sum += sample
	}
	if mean := sum / draws; mean < 99*ms || mean > 101*ms {
		t.Errorf("the mean is %s", mean)
	}
	if low := spread.Sample(fixed(-10)); low != 30*ms {
		t.Errorf("the lowest sample is %s", low)
	}
	if high := spread.Sample(fixed(10)); high != 170*ms {
		t.Errorf("the highest sample is %s", high)
	}
}

// With one and the same draw, a prompt of which more is cached is never slower,
// and more load is never faster.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.Map(rapid.Int64Range(0, int64(time.Hour)), func(n int64) time.Duration { return time.Duration(n) })
		profile := latency.Profile{
			FirstToken:      latency.Spread{Mean: rapid.Just(time.Duration(0)).Draw(t, "ttft")},
			PrefillOverhead: duration.Draw(t, "overhead"),
			PrefillPerToken: duration.Draw(t, "per token"),
			PrefillStdDev:   duration.Draw(t, "std dev"),
			LoadFactor:      rapid.Float64Range(1, 100).Draw(t, "factor"),
			BatchLimit:      rapid.IntRange(1, 1000).Draw(t, "limit"),
		}
		tokens := rapid.IntRange(0, 1<<20).Draw(t, "tokens")
		cached := rapid.IntRange(0, tokens).Draw(t, "cached")
		more := rapid.IntRange(cached, tokens).Draw(t, "more cached")
		running := rapid.IntRange(1, profile.BatchLimit).Draw(t, "running")
		busier := rapid.IntRange(running, profile.BatchLimit).Draw(t, "busier")
		draw := fixed(rapid.Float64Range(-6, 6).Draw(t, "draw"))

		slow := profile.TimeToFirstToken(draw, latency.Prompt{Tokens: tokens, Cached: cached}, running)
		fast := profile.TimeToFirstToken(draw, latency.Prompt{Tokens: tokens, Cached: more}, running)
		if fast > slow {
			t.Fatalf("%d cached takes %s, %d cached takes %s", cached, slow, more, fast)
		}
		if busy := profile.TimeToFirstToken(draw, latency.Prompt{Tokens: tokens, Cached: cached}, busier); busy < slow {
			t.Fatalf("%d running takes %s, %d running takes %s", running, slow, busier, busy)
		}
		if slow < 0 || slow > 24*time.Hour {
			t.Fatalf("prefill takes %s", slow)
		}
	})
}

// Prompts share exactly the blocks up to where they first differ, and nothing
// under another salt.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "size")
		tokens := rapid.SliceOfN(rapid.Uint32(), 0, 64).Draw(t, "tokens")
		other := slices.Clone(tokens)
		differ := len(tokens)
		if len(tokens) > 0 && rapid.Bool().Draw(t, "differ") {
			differ = rapid.IntRange(0, len(tokens)-1).Draw(t, "at")
			other[differ]++
		}
		a, b := latency.Blocks("salt", tokens, size), latency.Blocks("salt", other, size)
		if len(a) != len(tokens)/size {
			t.Fatalf("%d tokens in blocks of %d make %d blocks", len(tokens), size, len(a))
		}
		for i := range a {
			if same := a[i] == b[i]; same != ((i+1)*size <= differ) {
				t.Fatalf("prompts differ from %d on; block %d same: %t", differ, i, same)
			}
		}
		if c := latency.Blocks("pepper", tokens, size); len(c) > 0 && c[0] == a[0] {
			t.Fatal("another salt gives the same block")
		}
	})
	if got := latency.Blocks("", []uint32{1, 2}, 0); got != nil {
		t.Errorf("a size of 0 gives %v", got)
	}
}

// cacheModel is the cache as its comment tells it, without regard to speed.
type cacheModel struct {
	size  int
	order []latency.Block // idle blocks, oldest first
	held  map[latency.Block]int
}

func (m *cacheModel) has(b latency.Block) bool { return m.held[b] > 0 || slices.Contains(m.order, b) }

func (m *cacheModel) acquire(blocks []latency.Block) (hits int, held []latency.Block) {
	for hits < len(blocks) && m.has(blocks[hits]) {
		hits++
	}
	for i, b := range blocks {
		if !m.has(b) && len(m.order)+len(m.held) >= m.size {
			if len(m.order) == 0 {
				return hits, blocks[:i]
			}
			m.order = m.order[1:]
		}
		if at := slices.Index(m.order, b); at >= 0 {
			m.order = slices.Delete(m.order, at, at+1)
		}
		m.held[b]++
	}
	return hits, blocks
}

func (m *cacheModel) release(held []latency.Block) {
	for _, b := range slices.Backward(held) {
		if m.held[b]--; m.held[b] == 0 {
			delete(m.held, b)
			m.order = append(m.order, b)
		}
	}
}

func TestCacheAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "size")
		cache, model := latency.NewCache(size), &cacheModel{size: size, held: map[latency.Block]int{}}
		var running [][]latency.Block
		prompt := rapid.SliceOfNDistinct(rapid.Map(rapid.IntRange(1, 12), func(n int) latency.Block { return latency.Block(n) }), 0, 10, rapid.ID[latency.Block])
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				blocks := prompt.Draw(t, "prompt")
				if peeked := cache.Peek(blocks); peeked > len(blocks) {
					t.Fatalf("%d of %d blocks are cached", peeked, len(blocks))
				}
				hits, held := cache.Acquire(blocks)
				wantHits, wantHeld := model.acquire(blocks)
				if hits != wantHits || !slices.Equal(held, wantHeld) {
					t.Fatalf("acquire %v: %d hits, held %v; want %d, %v", blocks, hits, held, wantHits, wantHeld)
				}
				running = append(running, slices.Clone(held))
			},
			"release": func(t *rapid.T) {
				if len(running) == 0 {
					t.Skip("nothing runs")
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				cache.Release(running[i])
				model.release(running[i])
				running = slices.Delete(running, i, i+1)
			},
			"clear": func(*rapid.T) {
				cache.Clear()
				model.order = nil
			},
			"": func(t *rapid.T) {
				if cache.Len() > size || cache.Len() != len(model.order)+len(model.held) {
					t.Fatalf("%d blocks in a cache of %d; want %d", cache.Len(), size, len(model.order)+len(model.held))
				}
				if want := float64(len(model.held)) / float64(size); cache.Usage() != want {
					t.Fatalf("usage is %g, want %g", cache.Usage(), want)
				}
			},
		})
	})
}

// The batch and its queue never exceed their limits, whoever fits runs, those
// who wait go in their order, and nobody is lost.
func TestBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := &latency.Batch{
			Limit:    rapid.IntRange(1, 4).Draw(t, "limit"),
			Queue:    rapid.IntRange(0, 5).Draw(t, "queue"),
			Adapters: rapid.IntRange(1, 2).Draw(t, "adapters"),
		}
		var running, waiting []*latency.Seat
		remove := func(list []*latency.Seat, seat *latency.Seat) []*latency.Seat {
			return slices.DeleteFunc(list, func(other *latency.Seat) bool { return other == seat })
		}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				seat := &latency.Seat{Adapter: rapid.SampledFrom([]string{"", "", "a", "b", "c"}).Draw(t, "adapter")}
				seat.Admitted = func() {
					for _, before := range waiting[:slices.Index(waiting, seat)] {
						if before.Adapter == seat.Adapter {
							t.Fatalf("a later request for %q overtook an earlier one", seat.Adapter)
						}
					}
					waiting = remove(waiting, seat)
					running = append(running, seat)
				}
				switch batch.Arrive(seat) {
				case latency.Run:
					running = append(running, seat)
				case latency.Wait:
					waiting = append(waiting, seat)
				case latency.Reject:
					if len(waiting) < batch.Queue {
						t.Fatal("rejected while the queue has room")
					}
				}
			},
			"leave": func(t *rapid.T) {
				all := slices.Concat(running, waiting)
				if len(all) == 0 {
					t.Skip("nobody is there")
				}
				seat := rapid.SampledFrom(all).Draw(t, "who")
				running, waiting = remove(running, seat), remove(waiting, seat)
				batch.Leave(seat)
			},
			"": func(t *rapid.T) { checkBatch(t, batch, running, waiting) },
		})
	})
}

func checkBatch(t *rapid.T, batch *latency.Batch, running, waiting []*latency.Seat) {
	if batch.Running() != len(running) || batch.Waiting() != len(waiting) {
		t.Fatalf("%d run and %d wait; want %d and %d", batch.Running(), batch.Waiting(), len(running), len(waiting))
	}
	if len(running) > batch.Limit || len(waiting) > batch.Queue {
		t.Fatalf("%d of %d run, %d of %d wait", len(running), batch.Limit, len(waiting), batch.Queue)
	}
	adapters := map[string]int{}
	for _, seat := range running {
		if seat.Adapter != "" {
			adapters[seat.Adapter]++
		}
	}
	if len(adapters) > batch.Adapters {
		t.Fatalf("%d adapters run at once: %v", len(adapters), adapters)
	}
	for name, n := range adapters {
		if batch.RunningAdapters()[name] != n {
			t.Fatalf("running adapters are %v, want %v", batch.RunningAdapters(), adapters)
		}
	}
	for _, seat := range waiting {
		fits := seat.Adapter == "" || adapters[seat.Adapter] > 0 || len(adapters) < batch.Adapters
		if len(running) < batch.Limit && fits {
			t.Fatalf("a request for %q waits though it fits", seat.Adapter)
		}
	}
}
