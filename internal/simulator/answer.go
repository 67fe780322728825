package simulator

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"github.com/slipway-dev/slipway/internal/openai"
)

// answer is what the engine says for one choice: text in tokens, or pieces of
// tool calls, one for each token's time.
type answer struct {
	tokens []string
	calls  []openai.ToolCall
	pieces []openai.ToolCall
	finish string
}

// steps returns how many tokens the answer takes to say.
func (a *answer) steps() int { return max(len(a.tokens), len(a.pieces)) }

// text returns the answer's whole text.
func (a *answer) text() string { return strings.Join(a.tokens, "") }

// question is what an answer is made from.
type question struct {
	chat bool
	// text is the last message of a chat, or the prompt.
	text string
	// first tells that nobody has answered in this chat yet.
	first bool
	// limit is the most tokens to say; capped tells that the request set it.
	limit  int
	capped bool
	// exact asks for limit tokens, whatever the model would say (ignore_eos).
	exact bool
	stop  []string
}

// say answers a question in one of the two modes. It writes into the memory of
// tokens.
func say(mode string, rng *rand.Rand, q question, tokens []string) answer {
	var a answer
	if mode == ModeEcho {
		a = echo(q, tokens)
	} else {
		a = speak(rng, q, tokens)
	}
	a.cut(q.stop)
	return a
}

// echo repeats the text, cut at the limit.
func echo(q question, tokens []string) answer {
	tokens = appendTokens(tokens, q.text)
	for q.exact && len(tokens) > 0 && len(tokens) < q.limit {
		tokens = append(tokens, tokens[:min(len(tokens), q.limit-len(tokens))]...)
	}
	if len(tokens) > q.limit || q.exact {
		return answer{tokens: tokens[:min(q.limit, len(tokens))], finish: openai.FinishLength}
	}
	return answer{tokens: tokens, finish: openai.FinishStop}
}

// The length of an answer without a limit is normal around 40 tokens, as in
// llm-d-inference-sim.
const (
	usualLength       = 40
	usualLengthStdDev = 20
)

// lengthWeights are the chances, in percent, of an answer's length falling in
// each of six buckets up to its limit. The buckets are equal up to a limit of
// 120; above, all have 20 tokens but the fourth, which has the rest. So
// llm-d-inference-sim documents it.
var lengthWeights = [...]int{20, 30, 20, 5, 10, 15}

const (
	wideBucket    = 3
	fixedBucket   = 20
	equalBuckets  = fixedBucket * len(lengthWeights)
	beforeTheWide = fixedBucket * wideBucket
	afterTheWide  = fixedBucket * (len(lengthWeights) - wideBucket - 1)
)

// bucket returns the lengths that fall in a bucket: above low, up to high.
func bucket(i, limit int) (low, high int) {
	switch {
	case limit <= equalBuckets:
		return limit * i / len(lengthWeights), limit * (i + 1) / len(lengthWeights)
	case i < wideBucket:
		return i * fixedBucket, (i + 1) * fixedBucket
	case i == wideBucket:
		return beforeTheWide, limit - afterTheWide
	}
	low = limit - (len(lengthWeights)-i)*fixedBucket
	return low, low + fixedBucket
}

// drawLength returns how many tokens to say.
func drawLength(rng *rand.Rand, q question) int {
	switch {
	case q.exact:
		return q.limit
	case !q.capped:
		n := int(usualLength + rng.NormFloat64()*usualLengthStdDev)
		return min(max(n, 1), min(2*usualLength, q.limit))
	}
	draw, i := rng.IntN(100), 0
	for draw >= lengthWeights[i] {
		draw -= lengthWeights[i]
		i++
	}
	low, high := bucket(i, q.limit)
	return low + 1 + rng.IntN(max(high-low, 1))
}

// speak says whole sentences up to the drawn length. Only an answer that
// reaches its limit is cut within a sentence; one sentence is always said.
func speak(rng *rand.Rand, q question, tokens []string) answer {
	length := min(drawLength(rng, q), q.limit)
	cutShort := q.exact || (q.capped && length == q.limit)
	if q.chat && q.first {
		tokens = introduce(tokens, q.text)
		if !q.capped {
			length = max(length, len(tokens)+usualLength/2)
		}
	}
	start, stride := rng.IntN(len(sentences)), 1+rng.IntN(len(sentences)-1)
	for i := start; len(tokens) < min(length, q.limit); i = (i + stride) % len(sentences) {
		before := len(tokens)
		tokens = appendTokens(tokens, sentences[i])
		if before == 0 && q.chat {
			tokens[0] = strings.TrimPrefix(tokens[0], " ")
		}
		if len(tokens) > length && !cutShort && before > 0 {
			tokens = tokens[:before]
			break
		}
	}
	if cutShort || len(tokens) > q.limit {
		return answer{tokens: tokens[:min(len(tokens), q.limit)], finish: openai.FinishLength}
	}
	return answer{tokens: tokens, finish: openai.FinishStop}
}

// quoteLength is how many bytes of the user's words are quoted back.
const quoteLength = 60

// introduce says who is speaking, so that nobody takes the simulator for a
// model, and shows that the user's words arrived.
func introduce(tokens []string, text string) []string {
	tokens = appendTokens(tokens, "Hello! I am Slipway's simulator, so no real model is behind this answer.")
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return tokens
	}
	if len(text) > quoteLength {
		at := quoteLength
		for !utf8.RuneStart(text[at]) {
			at--
		}
		text = text[:at] + "…"
	}
	return appendTokens(tokens, ` You wrote: "`+text+`"`)
}

// cut ends the answer before the first of the stop words.
func (a *answer) cut(stop []string) {
	if len(stop) == 0 || len(a.tokens) == 0 {
		return
	}
	whole := a.text()
	at := -1
	for _, word := range stop {
		if i := strings.Index(whole, word); word != "" && i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at < 0 {
		return
	}
	a.finish = openai.FinishStop
	for i, token := range a.tokens {
		if at < len(token) {
			a.tokens = a.tokens[:i]
			if at > 0 {
				a.tokens = append(a.tokens, token[:at])
			}
			return
		}
		at -= len(token)
	}
}

// sentences are what the simulator says. Their number is prime, so that every
// stride through them passes each once before any comes again.
var sentences = [...]string{
	" A real engine would be reading its weights about now.",
	" Each word you see left the server as an event of its own.",
	" Your request waited in the queue, ran in a batch, and came back as a stream.",
	" The first token takes the longest, because the whole prompt is read before it.",
	" After that, tokens follow one another at a steady pace.",
	" When many requests share a batch, each of them goes a little slower.",
	" A prompt that begins like an earlier one is answered sooner, thanks to the prefix cache.",
	" The metrics of this conversation can be scraped while you read it.",
	" Nothing in this answer was learned from data.",
	" The same seed gives the same sentences again.",
	" A ship is built on land and proven on water.",
	" The slipway is where the hull first meets the sea.",
	" Calm harbours are a good place to practise for storms.",
	" Replace the image with a real engine and the question stays the same.",
	" The service found a ready pod, and that pod is speaking to you.",
	" Two replicas can share this work, and a third would not hurt.",
	" If this pod went away, the next question would go to its neighbour.",
	" Shutting down politely means finishing the sentence first.",
	" A probe asks now and then whether I am still well, and I am.",
	" Tokens are counted on the way in and on the way out.",
	" Long answers are only short answers that went on.",
	" Good tools explain what went wrong and what to do next.",
	" The quickest way to learn a system is to watch one request go through it.",
	" Latency is what you feel, and throughput is what you pay for.",
	" A cache forgets whatever has been left alone the longest.",
	" The tide comes in whether or not the paint is dry.",
	" An anchor is most useful before it is needed.",
	" Every voyage starts with a list of small things.",
	" Weather is a forecast until you are in it.",
	" The crew sleeps better when the alarms are honest.",
	" Ask me again and I will find other words.",
	" I have no opinions, but I do keep good time.",
	" This sentence is here to keep the stream flowing.",
	" Somewhere a graph has just moved by one pixel.",
	" Simple parts, joined with care, carry heavy loads.",
	" It is a fine day to test a deployment.",
	" That is all a simulator can promise, and it keeps the promise.",
}
