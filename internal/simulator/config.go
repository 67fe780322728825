package simulator

import (
	"errors"
	"fmt"
	"time"

	"github.com/slipway-dev/slipway/internal/latency"
)

// Modes of answering.
const (
	// ModeRandom answers with sentences of the simulator's own.
	ModeRandom = "random"
	// ModeEcho answers with the prompt, or with a chat's last message.
	ModeEcho = "echo"
)

// The bounds of numbers that a configuration may hold. They keep a typing
// error from becoming an allocation that ends the process.
const (
	maxSeqs       = 1 << 16
	maxQueue      = 1 << 20
	maxModelLen   = 1 << 24
	maxCacheSize  = 1 << 22
	maxRanks      = 64
	maxBatchEvent = 1 << 16
)

// Config is everything that can be said to a simulator. Load makes one from
// the command line, the environment and a file; the zero value is not usable,
// start from Default.
type Config struct {
	// Host is the address to listen on; empty means every address.
	Host string
	// Port is where rank 0 listens; 0 takes any free port.
	Port int
	// Model is the base model's name.
	Model string
	// ServedModelNames are the names that requests may use for the base model;
	// answers bear the first.
	ServedModelNames []string
	// Adapters are the LoRA adapters that are there from the start.
	Adapters []Adapter
	// MaxLoRAs is how many adapters run at once, MaxCPULoRAs how many may be
	// loaded.
	MaxLoRAs    int
	MaxCPULoRAs int
	// MaxNumSeqs is how many requests run at once, MaxWaiting how many more
	// may wait; the next gets 429.
	MaxNumSeqs int
	MaxWaiting int
	// MaxModelLen bounds the tokens of a prompt together with its answer.
	MaxModelLen int
	// MaxBodyMiB bounds a request's body.
	MaxBodyMiB int
	// RequestIDs makes answers bear an X-Request-Id.
	RequestIDs bool
	// Mode is ModeRandom or ModeEcho.
	Mode string
	// Seed makes random answers and latencies repeatable.
	Seed int64
	// Latency is the model of time; its BatchLimit is set from MaxNumSeqs.
	Latency latency.Profile
	// Calculator forces one of the two ways to make up prefill: "constant" or
	// "per-token". Empty leaves it to which latencies are set.
	Calculator string
	// EnableKVCache turns the prefix cache on: KVCacheSize blocks of BlockSize
	// tokens, whose hashes depend on HashSeed.
	EnableKVCache bool
	KVCacheSize   int
	BlockSize     int
	HashSeed      string
	// HitThreshold is the share of a prompt that must be cached for it to be
	// answered here, unless the request sets its own.
	HitThreshold float64
	// Ranks is the data-parallel size: rank r listens on Port+r.
	Ranks int
	// FailureRate is the percentage of requests that fail on purpose, with one
	// of FailureTypes, or any type when that is empty.
	FailureRate  int
	FailureTypes []string
	// FakeMetrics, when set, replaces what is measured.
	FakeMetrics *FakeMetrics
	// Tools shapes random tool calls.
	Tools ToolOptions
	// CertFile and KeyFile turn TLS on; so does SelfSigned, with a certificate
	// made at the start.
	CertFile, KeyFile string
	SelfSigned        bool
	// StartupDuration is how long readiness says no after the start.
	StartupDuration time.Duration
	// EnableSleepMode makes POST /sleep put the engine to sleep.
	EnableSleepMode bool
	// DrainDelay is how long a server that was told to stop goes on taking
	// requests, while its readiness already says no. GracePeriod is how long
	// requests in flight may then take.
	DrainDelay  time.Duration
	GracePeriod time.Duration
	// Pod and Namespace are named in answers' headers when both are set.
	Pod, Namespace string
}

// Adapter is a LoRA adapter, in the form of vLLM's --lora-modules.
type Adapter struct {
	Name      string `json:"name"`
	Path      string `json:"path"`
	BaseModel string `json:"base_model_name"`
}

// ToolOptions shapes the arguments of random tool calls. Probabilities are
// percentages.
type ToolOptions struct {
	CallProbability          int
	OptionalParamChance      int
	OptionalFieldChance      int
	MinInteger, MaxInteger   int
	MinNumber, MaxNumber     float64
	MinArrayLen, MaxArrayLen int
}

// Default returns the configuration without any flag, as llm-d-inference-sim
// and vLLM document it. The model has no default.
func Default() Config {
	return Config{
		Port:        8000,
		MaxLoRAs:    1,
		MaxNumSeqs:  5,
		MaxWaiting:  1000,
		MaxModelLen: 1024,
		MaxBodyMiB:  4,
		Mode:        ModeRandom,
		Latency:     latency.Profile{LoadFactor: 1},
		KVCacheSize: 1024,
		BlockSize:   16,
		Ranks:       1,
		Tools: ToolOptions{
			CallProbability:     50,
			OptionalParamChance: 50,
			OptionalFieldChance: 50,
			MaxInteger:          100,
			MaxNumber:           100,
			MinArrayLen:         1,
			MaxArrayLen:         5,
		},
		DrainDelay:  time.Second,
		GracePeriod: 25 * time.Second,
	}
}

// Complete fills what follows from the rest and checks the whole.
func (c *Config) Complete() error {
	if c.Model == "" && len(c.ServedModelNames) > 0 {
		c.Model = c.ServedModelNames[0]
	}
	if c.Model == "" {
		return errors.New("no model is named: pass --model NAME, or set the environment variable MODEL_NAME")
	}
	if len(c.ServedModelNames) == 0 {
		c.ServedModelNames = []string{c.Model}
	}
	if c.MaxCPULoRAs == 0 {
		c.MaxCPULoRAs = c.MaxLoRAs
	}
	c.Latency.BatchLimit = c.MaxNumSeqs
	if err := c.calculate(); err != nil {
		return err
	}
	for _, check := range []func() error{c.checkRanges, c.checkSpreads, c.checkAdapters, c.checkTools, c.checkTLS} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// calculate clears the latencies that the chosen calculator does not use.
func (c *Config) calculate() error {
	l := &c.Latency
	switch c.Calculator {
	case "":
	case "constant":
		l.PrefillOverhead, l.PrefillPerToken, l.PrefillStdDev = 0, 0, 0
		l.TransferPerToken = latency.Spread{}
	case "per-token":
		l.FirstToken, l.Transfer = latency.Spread{}, latency.Spread{}
	default:
		return fmt.Errorf("--latency-calculator is %q; it must be constant or per-token", c.Calculator)
	}
	return nil
}

func (c *Config) checkRanges() error {
	for _, bound := range []struct {
		flag            string
		value, low, top int
	}{
		{"port", c.Port, 0, 65535},
		{"max-loras", c.MaxLoRAs, 1, maxSeqs},
		{"max-cpu-loras", c.MaxCPULoRAs, c.MaxLoRAs, maxSeqs},
		{"max-num-seqs", c.MaxNumSeqs, 1, maxSeqs},
		{"max-waiting-queue-length", c.MaxWaiting, 0, maxQueue},
		{"max-model-len", c.MaxModelLen, 1, maxModelLen},
		{"max-request-body-size-mb", c.MaxBodyMiB, 1, 512},
		{"kv-cache-size", c.KVCacheSize, 1, maxCacheSize},
		{"data-parallel-size", c.Ranks, 1, maxRanks},
		{"failure-injection-rate", c.FailureRate, 0, 100},
	} {
		if bound.value < bound.low || bound.value > bound.top {
			return fmt.Errorf("--%s is %d; it must be from %d to %d", bound.flag, bound.value, bound.low, bound.top)
		}
	}
	switch c.BlockSize {
	case 8, 16, 32, 64, 128:
	default:
		return fmt.Errorf("--block-size is %d; it must be 8, 16, 32, 64 or 128", c.BlockSize)
	}
	if c.Port != 0 && c.Port+c.Ranks-1 > 65535 {
		return fmt.Errorf("--data-parallel-size %d from --port %d goes past port 65535; choose a lower port", c.Ranks, c.Port)
	}
	if c.Mode != ModeRandom && c.Mode != ModeEcho {
		return fmt.Errorf("--mode is %q; it must be random or echo", c.Mode)
	}
	if c.HitThreshold < 0 || c.HitThreshold > 1 {
		return fmt.Errorf("--global-cache-hit-threshold is %g; it must be from 0 to 1", c.HitThreshold)
	}
	if c.Latency.LoadFactor < 1 {
		return fmt.Errorf("--time-factor-under-load is %g; it must be 1 or more", c.Latency.LoadFactor)
	}
	for _, name := range c.FailureTypes {
		if _, known := failures[name]; !known {
			return fmt.Errorf("--failure-types has %q; it must be one of %s", name, failureNames())
		}
	}
	return nil
}

// checkSpreads holds standard deviations to at most 30 % of their base, as
// llm-d-inference-sim does.
func (c *Config) checkSpreads() error {
	l := &c.Latency
	for _, spread := range []struct {
		flag         string
		base, stdDev time.Duration
	}{
		{"time-to-first-token", l.FirstToken.Mean, l.FirstToken.StdDev},
		{"inter-token-latency", l.InterToken.Mean, l.InterToken.StdDev},
		{"kv-cache-transfer-latency", l.Transfer.Mean, l.Transfer.StdDev},
	} {
		if float64(spread.stdDev) > 0.3*float64(spread.base) {
			return fmt.Errorf("--%s-std-dev is %s; it must be at most 30 %% of --%s (%s)",
				spread.flag, spread.stdDev, spread.flag, spread.base)
		}
	}
	return nil
}

func (c *Config) checkAdapters() error {
	seen := map[string]bool{}
	for _, name := range c.ServedModelNames {
		seen[name] = true
	}
	if len(c.Adapters) > c.MaxCPULoRAs {
		c.MaxCPULoRAs = len(c.Adapters)
	}
	for _, adapter := range c.Adapters {
		if adapter.Name == "" {
			return errors.New(`--lora-modules has an entry without a name; write {"name":"NAME","path":"PATH"}`)
		}
		if seen[adapter.Name] {
			return fmt.Errorf("--lora-modules has the name %q, which another model bears; choose another", adapter.Name)
		}
		seen[adapter.Name] = true
	}
	return nil
}

func (c *Config) checkTools() error {
	t := &c.Tools
	for _, chance := range []int{t.CallProbability, t.OptionalParamChance, t.OptionalFieldChance} {
		if chance < 0 || chance > 100 {
			return fmt.Errorf("a tool-call probability is %d; it must be from 0 to 100", chance)
		}
	}
	if t.MinInteger > t.MaxInteger || t.MinNumber > t.MaxNumber || t.MinArrayLen > t.MaxArrayLen {
		return errors.New("a --min-tool-call-… value is above its --max-tool-call-… value; swap them")
	}
	if t.MinArrayLen < 0 || t.MaxArrayLen > maxArgumentItems {
		return fmt.Errorf("tool-call array lengths must be from 0 to %d", maxArgumentItems)
	}
	return nil
}

func (c *Config) checkTLS() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("--ssl-certfile and --ssl-keyfile go together; pass both")
	}
	if c.SelfSigned && c.CertFile != "" {
		return errors.New("--self-signed-certs and --ssl-certfile exclude each other; pass one")
	}
	return nil
}
