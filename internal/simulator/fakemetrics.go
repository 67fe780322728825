package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// FakeMetrics is reported in place of everything that is measured, in the form
// of llm-d-inference-sim's --fake-metrics and of POST /fake_metrics. The lists
// hold a number for each bucket of a histogram, the last of them for +Inf.
type FakeMetrics struct {
	Running *int       `json:"running-requests"`
	Waiting *int       `json:"waiting-requests"`
	Usage   *float64   `json:"kv-cache-usage"`
	LoRAs   []FakeLoRA `json:"loras"`

	FirstToken []uint64 `json:"ttft-buckets-values"`
	PerOutput  []uint64 `json:"tpot-buckets-values"`
	EndToEnd   []uint64 `json:"e2erl-buckets-values"`
	Queue      []uint64 `json:"queue-time-buckets-values"`
	Inference  []uint64 `json:"inf-time-buckets-values"`
	Prefill    []uint64 `json:"prefill-time-buckets-values"`
	Decode     []uint64 `json:"decode-time-buckets-values"`

	PromptSize []uint64          `json:"request-prompt-tokens"`
	AnswerSize []uint64          `json:"request-generation-tokens"`
	MaxAnswer  []uint64          `json:"request-max-generation-tokens"`
	MaxTokens  []uint64          `json:"request-params-max-tokens"`
	Finished   map[string]uint64 `json:"request-success-total"`
}

// FakeLoRA is the state of the adapters at a moment, in seconds of unix time.
type FakeLoRA struct {
	Running   string  `json:"running"`
	Waiting   string  `json:"waiting"`
	Timestamp float64 `json:"timestamp"`
}

// maxFakeLoRAs bounds the states of adapters that are reported.
const maxFakeLoRAs = 1024

// parseFakeMetrics reads and checks the JSON form.
func parseFakeMetrics(data []byte) (*FakeMetrics, error) {
	fake := &FakeMetrics{}
	if err := json.Unmarshal(data, fake); err != nil {
		return nil, fmt.Errorf("fake metrics are not valid: %w", err)
	}
	switch {
	case fake.Running != nil && *fake.Running < 0, fake.Waiting != nil && *fake.Waiting < 0:
		return nil, errors.New("fake metrics: running-requests and waiting-requests must be 0 or more")
	case fake.Usage != nil && (*fake.Usage < 0 || *fake.Usage > 1):
		return nil, fmt.Errorf("fake metrics: kv-cache-usage is %g; it must be from 0 to 1", *fake.Usage)
	case len(fake.LoRAs) > maxFakeLoRAs:
		return nil, fmt.Errorf("fake metrics: loras has %d entries; at most %d are taken", len(fake.LoRAs), maxFakeLoRAs)
	}
	for reason := range fake.Finished {
		if !slices.Contains(finishReasons[:], reason) {
			return nil, fmt.Errorf("fake metrics: request-success-total has %q; it must be one of %q", reason, finishReasons)
		}
	}
	blank := newHistograms(maxModelLen)
	for i, counts := range fake.lists() {
		if h := blank.families()[i]; len(counts) > len(h.histogram.counts) {
			return nil, fmt.Errorf("fake metrics: %d numbers for %s, which has %d buckets", len(counts), h.name, len(h.histogram.counts))
		}
	}
	return fake, nil
}

func fakeMetrics(c *Config, values []string) (err error) {
	c.FakeMetrics, err = parseFakeMetrics([]byte(values[0]))
	return err
}

// lists returns the numbers for each histogram, in the order of
// histograms.families.
func (f *FakeMetrics) lists() [][]uint64 {
	return [][]uint64{
		f.EndToEnd, f.Queue, f.Inference, f.Prefill, f.Decode, f.FirstToken, f.PerOutput, nil, nil,
		f.PromptSize, f.AnswerSize, f.MaxAnswer, f.MaxTokens,
	}
}

// expose writes the fake metrics; gauges that are not given are 0, and the
// rest is left out.
func (f *FakeMetrics) expose(x *exposition, config *Config, now time.Time) {
	var s state
	if f.Running != nil {
		s.running = *f.Running
	}
	if f.Waiting != nil {
		s.waiting = *f.Waiting
	}
	if f.Usage != nil {
		s.usage = *f.Usage
	}
	for _, lora := range f.LoRAs {
		at := now
		if lora.Timestamp > 0 {
			at = time.UnixMilli(int64(math.Min(lora.Timestamp, 1<<40) * 1000))
		}
		s.loras = append(s.loras, loraState{lora.Running, lora.Waiting, at})
	}
	if len(s.loras) == 0 {
		s.loras = []loraState{{at: now}}
	}
	x.gauges(config, s)
	blank := newHistograms(config.MaxModelLen)
	for i, family := range blank.families() {
		counts := f.lists()[i]
		if len(counts) == 0 {
			continue
		}
		for bucket, n := range counts[:min(len(counts), len(family.histogram.counts))] {
			bound := family.histogram.bounds[min(bucket, len(family.histogram.bounds)-1)]
			if bucket == len(family.histogram.bounds) {
				bound *= 2 // Above the last bound: anything that is.
			}
			family.histogram.observe(bound, int(min(n, math.MaxInt32)))
		}
		x.histogram(family.name, family.help, family.histogram)
	}
	if len(f.Finished) > 0 {
		x.finished(func(i int) uint64 { return f.Finished[finishReasons[i]] })
	}
}

// seconds writes a moment as the gauges do.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

// quotedInt is a number as a label's value.
func quotedInt(name string, n int) string { return label(name, strconv.Itoa(n)) }
