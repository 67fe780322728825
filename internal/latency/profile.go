// Package latency is the simulator's model of an inference engine's time and
// memory: prefill, decode, batching under load, and the prefix cache. It is
// arithmetic on values: it never sleeps, reads a clock or starts a goroutine,
// and none of its types locks.
package latency

import (
	"time"
)

// Rand is where samples come from: math/rand/v2's Rand fits.
type Rand interface {
	// NormFloat64 returns a sample of the standard normal distribution.
	NormFloat64() float64
}

// Spread is a duration and the standard deviation around it.
type Spread struct {
	Mean   time.Duration
	StdDev time.Duration
}

// Bounds of a sample around its mean, as llm-d-inference-sim keeps them: a
// latency never falls below 30 % nor rises above 170 % of what was asked for.
const (
	lowest  = 0.3
	highest = 1.7
)

// zero tells that neither part is set.
func (s Spread) zero() bool { return s.Mean == 0 && s.StdDev == 0 }

// Sample draws a duration. With one and the same draw of rand, a larger mean
// never gives a smaller sample.
func (s Spread) Sample(rand Rand) time.Duration {
	if s.StdDev <= 0 || s.Mean <= 0 {
		return min(max(s.Mean, 0), longest)
	}
	mean := float64(s.Mean)
	sample := mean + rand.NormFloat64()*float64(s.StdDev)
	return clamp(min(max(sample, mean*lowest), mean*highest))
}

// Profile says how long an engine takes for what.
type Profile struct {
	// FirstToken is the time to the first token, whatever the prompt's length.
	// When it is zero, PrefillOverhead and PrefillPerToken decide.
	FirstToken Spread
	// InterToken is the time between two tokens of an answer.
	InterToken Spread
	// PrefillOverhead and PrefillPerToken make up the time to the first token:
	// the overhead, and so much for each prompt token that isn't cached.
	PrefillOverhead time.Duration
	PrefillPerToken time.Duration
	PrefillStdDev   time.Duration
	// Transfer is the time in which a decode engine gets the KV cache of a
	// remote prefill. When it is zero, TransferPerToken counts for each token
	// of the prompt.
	Transfer         Spread
	TransferPerToken Spread
	// LoadFactor is by how much a full batch is slower than a batch of one; 1
	// means that load costs nothing.
	LoadFactor float64
	// BatchLimit is the most requests that run at once.
	BatchLimit int
}

// Prompt is what prefill has to work on, in tokens.
type Prompt struct {
	Tokens int
	// Cached is how many of the tokens the prefix cache already holds.
	Cached int
	// Remote tells that another engine did the prefill.
	Remote bool
}

// Load returns the factor by which everything slows down while so many
// requests run, this one included: 1 for one alone, LoadFactor for a full
// batch, and in a straight line between.
func (p *Profile) Load(running int) float64 {
	if p.BatchLimit <= 1 || running <= 1 || p.LoadFactor <= 1 {
		return 1
	}
	share := float64(min(running, p.BatchLimit)-1) / float64(p.BatchLimit-1)
	return 1 + (p.LoadFactor-1)*share
}

// TimeToFirstToken draws the time from a request's start to its first token.
func (p *Profile) TimeToFirstToken(rand Rand, prompt Prompt, running int) time.Duration {
	return scale(p.prefill(prompt).Sample(rand), p.Load(running))
}

func (p *Profile) prefill(prompt Prompt) Spread {
	switch {
	case prompt.Remote && !p.Transfer.zero():
		return p.Transfer
	case prompt.Remote:
		return Spread{
			Mean:   clamp(float64(p.TransferPerToken.Mean) * float64(prompt.Tokens)),
			StdDev: p.TransferPerToken.StdDev,
		}
	case !p.FirstToken.zero():
		return p.FirstToken
	}
	fresh := max(prompt.Tokens-prompt.Cached, 0)
	return Spread{Mean: clamp(float64(p.PrefillOverhead) + float64(p.PrefillPerToken)*float64(fresh)), StdDev: p.PrefillStdDev}
}

// TimeToNextToken draws the time between two tokens of an answer.
func (p *Profile) TimeToNextToken(rand Rand, running int) time.Duration {
	return scale(p.InterToken.Sample(rand), p.Load(running))
}

// scale multiplies and stays within what a duration can hold.
func scale(d time.Duration, factor float64) time.Duration {
	if factor == 1 {
		return d
	}
	return clamp(float64(d) * factor)
}

// longest bounds every product: a day is longer than any request lives.
const longest = 24 * time.Hour

func clamp(nanoseconds float64) time.Duration {
	if nanoseconds >= float64(longest) {
		return longest
	}
	return time.Duration(nanoseconds)
}

// Instant tells that nothing takes any time.
func (p *Profile) Instant() bool {
	return p.FirstToken.zero() && p.InterToken.zero() && p.PrefillOverhead == 0 && p.PrefillPerToken == 0 &&
		p.Transfer.zero() && p.TransferPerToken.zero()
}
