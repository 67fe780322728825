package simulator

import (
	"encoding/json"
	"fmt"
	"time"
)

// FakeMetrics replaces measured gauges, in the form of llm-d-inference-sim's
// --fake-metrics and of POST /fake_metrics. What is absent stays measured.
type FakeMetrics struct {
	Running *int       `json:"running-requests"`
	Waiting *int       `json:"waiting-requests"`
	Usage   *float64   `json:"kv-cache-usage"`
	LoRAs   []FakeLoRA `json:"loras"`
}

// FakeLoRA is the state of the adapters at a moment, in seconds of unix time.
type FakeLoRA struct {
	Running   string  `json:"running"`
	Waiting   string  `json:"waiting"`
	Timestamp float64 `json:"timestamp"`
}

// parseFakeMetrics reads and checks the JSON form.
func parseFakeMetrics(data []byte) (*FakeMetrics, error) {
	fake := &FakeMetrics{}
	if err := json.Unmarshal(data, fake); err != nil {
		return nil, fmt.Errorf("fake metrics are not valid: %w", err)
	}
	switch {
	case fake.Running != nil && *fake.Running < 0, fake.Waiting != nil && *fake.Waiting < 0:
		return nil, fmt.Errorf("fake metrics: running-requests and waiting-requests must be 0 or more")
	case fake.Usage != nil && !(*fake.Usage >= 0 && *fake.Usage <= 1):
		return nil, fmt.Errorf("fake metrics: kv-cache-usage is %g; it must be from 0 to 1", *fake.Usage)
	}
	return fake, nil
}

func fakeMetrics(c *Config, values []string) (err error) {
	c.FakeMetrics, err = parseFakeMetrics([]byte(values[0]))
	return err
}

// overrule replaces what is faked.
func (f *FakeMetrics) overrule(s *state, now time.Time) {
	if f.Running != nil {
		s.running = *f.Running
	}
	if f.Waiting != nil {
		s.waiting = *f.Waiting
	}
	if f.Usage != nil {
		s.usage = *f.Usage
	}
	if len(f.LoRAs) > 0 {
		last := f.LoRAs[len(f.LoRAs)-1]
		s.runningLoRA, s.waitLoRA, s.lorasAt = last.Running, last.Waiting, now
		if last.Timestamp > 0 {
			s.lorasAt = time.UnixMilli(int64(last.Timestamp * 1000))
		}
	}
}
