package simulator

import (
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slipway-dev/slipway/internal/openai"
)

// All tokens together are the text, none is empty, and none is longer than a
// word of the bound with its blank.
func TestTokensAreTheText(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, text string) {
		tokens := appendTokens(nil, text)
		if strings.Join(tokens, "") != text {
			t.Fatalf("%q became %q", text, tokens)
		}
		for _, token := range tokens {
			if token == "" {
				t.Fatalf("%q has an empty token", text)
			}
		}
		if ids := appendTokenIDs(nil, text); len(ids) != len(tokens) {
			t.Fatalf("%d tokens have %d numbers", len(tokens), len(ids))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.String().Draw(t, "text"))
		check(t, string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		check(t, rapid.StringMatching(`[a z\n\t.,é日 ]*`).Draw(t, "spaces"))
	})
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]string{
		"Hello, world!":        "Hello|,| world|!",
		"it's 2 o'clock":       "it's| 2| o'clock",
		"a  b":                 "a| | b",
		"a\n\nb":               "a|\n\n|b",
		"a \n b":               "a| \n| b",
		" x":                   " x",
		"  ":                   "  ",
		"abcdefghijklmnopqrst": "abcdefghijklmnop|qrst",
		"日本語":                  "日本語",
		`{"a":1}`:              `{|"|a|"|:|1|}`,
		"":                     "",
	} {
		if got := strings.Join(appendTokens(nil, text), "|"); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// An answer keeps its limit; it ends with "length" exactly when it was cut, and
// as a whole sentence otherwise.
func TestAnswersKeepTheirLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := question{
			chat: rapid.Bool().Draw(t, "chat"), first: rapid.Bool().Draw(t, "first"),
			text:   rapid.StringMatching(`[a-z é]{0,100}`).Draw(t, "text"),
			limit:  rapid.IntRange(1, 400).Draw(t, "limit"),
			capped: rapid.Bool().Draw(t, "capped"),
		}
		q.exact = q.capped && rapid.Bool().Draw(t, "exact")
		seed := rapid.Uint64().Draw(t, "seed")
		a := say(ModeRandom, rand.New(rand.NewPCG(seed, 1)), q, nil)
		text := a.text()
		switch {
		case a.steps() == 0 || a.steps() > q.limit:
			t.Fatalf("%d tokens for a limit of %d", a.steps(), q.limit)
		case q.exact && (a.steps() != q.limit || a.finish != openai.FinishLength):
			t.Fatalf("ignore_eos gives %d of %d tokens, %s", a.steps(), q.limit, a.finish)
		case a.finish == openai.FinishStop && !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, `"`):
			t.Fatalf("an answer that stopped by itself ends in %q", text)
		case a.finish == openai.FinishLength && a.steps() != q.limit:
			t.Fatalf("an answer of %d tokens was cut at %d", a.steps(), q.limit)
		}
		if again := say(ModeRandom, rand.New(rand.NewPCG(seed, 1)), q, nil); again.text() != text {
			t.Fatalf("the same seed says %q and %q", text, again.text())
		}
	})
}

func TestEchoKeepsItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := question{
			text:  rapid.String().Draw(t, "text"),
			limit: rapid.IntRange(1, 50).Draw(t, "limit"),
			exact: rapid.Bool().Draw(t, "exact"),
		}
		a := say(ModeEcho, nil, q, nil)
		switch {
		case a.steps() > q.limit:
			t.Fatalf("%d tokens for a limit of %d", a.steps(), q.limit)
		case a.finish == openai.FinishStop && a.text() != q.text:
			t.Fatalf("%q echoes as %q", q.text, a.text())
		case !strings.HasPrefix(a.text(), q.text) && !strings.HasPrefix(q.text, a.text()):
			t.Fatalf("%q echoes as %q", q.text, a.text())
		case q.exact && q.text != "" && a.steps() != q.limit:
			t.Fatalf("ignore_eos gives %d of %d tokens", a.steps(), q.limit)
		}
	})
}

// Nothing of a stop word is left, and only text behind the first is lost.
func TestStopWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[abc ]{0,40}`).Draw(t, "text")
		stop := rapid.SliceOfN(rapid.StringMatching(`[abc ]{1,3}`), 0, 3).Draw(t, "stop")
		a := say(ModeEcho, nil, question{text: text, limit: 1000, stop: stop}, nil)
		want := len(text)
		for _, word := range stop {
			if at := strings.Index(text, word); at >= 0 {
				want = min(want, at)
			}
		}
		if a.text() != text[:want] || a.finish != openai.FinishStop {
			t.Fatalf("%q with stop %q gives %q, %s", text, stop, a.text(), a.finish)
		}
	})
}

// The buckets follow one another from 0 to the limit, in the sizes that
// llm-d-inference-sim documents.
func TestBuckets(t *testing.T) {
	for limit := 1; limit < 500; limit++ {
		end := 0
		for i := range lengthWeights {
			low, high := bucket(i, limit)
			if low != end || high < low {
				t.Fatalf("limit %d: bucket %d is from %d to %d, after %d", limit, i, low, high, end)
			}
			end = high
		}
		if end != limit {
			t.Fatalf("limit %d: the buckets end at %d", limit, end)
		}
	}
	var got [][2]int
	for i := range lengthWeights {
		low, high := bucket(i, 200)
		got = append(got, [2]int{low + 1, high})
	}
	want := [][2]int{{1, 20}, {21, 40}, {41, 60}, {61, 160}, {161, 180}, {181, 200}}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("for 200, bucket %d is %v, want %v", i, got[i], want[i])
		}
	}
	rng, counts := rand.New(rand.NewPCG(1, 2)), map[int]int{}
	for range 20000 {
		n := drawLength(rng, question{limit: 200, capped: true})
		for i := range want {
			if n >= want[i][0] && n <= want[i][1] {
				counts[i]++
			}
		}
	}
	for i, weight := range lengthWeights {
		if share := counts[i] / 200; share < weight-2 || share > weight+2 {
			t.Errorf("bucket %d has %d %% of the draws, want %d %%", i, share, weight)
		}
	}
}

// The number of sentences is prime, each is one, and none says the same.
func TestSentences(t *testing.T) {
	for d := 2; d*d <= len(sentences); d++ {
		if len(sentences)%d == 0 {
			t.Errorf("%d sentences are a multiple of %d; add or remove some", len(sentences), d)
		}
	}
	seen := map[string]bool{}
	for _, sentence := range sentences {
		if seen[sentence] || sentence[0] != ' ' || !strings.HasSuffix(sentence, ".") {
			t.Errorf("%q is not a sentence of its own", sentence)
		}
		seen[sentence] = true
	}
}
