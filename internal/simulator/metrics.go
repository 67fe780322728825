package simulator

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/internal/openai"
)

// Bucket bounds of vLLM's histograms, in seconds or tokens.
var (
	firstTokenBuckets = []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	latencyBuckets = []float64{
		0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
	}
	tokenBuckets = []float64{
		0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
	}
)

// countBuckets are vLLM's bounds for numbers of tokens: 1, 2 and 5 times each
// power of ten, up to the model's length.
func countBuckets(modelLen int) []float64 {
	var bounds []float64
	for power := 1; ; power *= 10 {
		for _, mantissa := range []int{1, 2, 5} {
			bound := mantissa * power
			if bound > modelLen {
				return bounds
			}
			bounds = append(bounds, float64(bound))
		}
	}
}

// histogram counts observations. All its methods may run at once.
type histogram struct {
	bounds []float64
	counts []atomic.Uint64 // one for each bound, and one above all
	sum    atomic.Uint64   // the bits of a float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// observe counts a value n times.
func (h *histogram) observe(value float64, n int) {
	if n <= 0 {
		return
	}
	i, _ := slices.BinarySearch(h.bounds, value)
	h.counts[i].Add(uint64(n))
	for {
		old := h.sum.Load()
		sum := math.Float64bits(math.Float64frombits(old) + value*float64(n))
		if h.sum.CompareAndSwap(old, sum) {
			return
		}
	}
}

// histograms are all of one rank's histograms.
type histograms struct {
	e2e, queue, inference, prefill, decode         *histogram
	firstToken, perOutput, interToken, requestMean *histogram
	promptSize, answerSize, maxAnswer, maxTokens   *histogram
}

func newHistograms(modelLen int) histograms {
	counts := countBuckets(modelLen)
	return histograms{
		e2e: newHistogram(latencyBuckets), queue: newHistogram(latencyBuckets),
		inference: newHistogram(latencyBuckets), prefill: newHistogram(latencyBuckets),
		decode: newHistogram(latencyBuckets), firstToken: newHistogram(firstTokenBuckets),
		perOutput: newHistogram(tokenBuckets), interToken: newHistogram(tokenBuckets),
		requestMean: newHistogram(tokenBuckets), promptSize: newHistogram(counts),
		answerSize: newHistogram(counts), maxAnswer: newHistogram(counts), maxTokens: newHistogram(counts),
	}
}

// family is a histogram under its name.
type family struct {
	name, help string
	histogram  *histogram
}

// families lists the histograms in the order in which they are written.
func (h *histograms) families() []family {
	return []family{
		{"vllm:e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", h.e2e},
		{"vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", h.queue},
		{"vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", h.inference},
		{"vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", h.prefill},
		{"vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", h.decode},
		{"vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", h.firstToken},
		{"vllm:time_per_output_token_seconds", "Histogram of time per output token in seconds.", h.perOutput},
		{"vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", h.interToken},
		{"vllm:request_time_per_output_token_seconds", "Histogram of the mean time per output token of each request.", h.requestMean},
		{"vllm:request_prompt_tokens", "Number of prefill tokens processed.", h.promptSize},
		{"vllm:request_generation_tokens", "Number of generation tokens processed.", h.answerSize},
		{"vllm:max_num_generation_tokens", "Histogram of the most generation tokens of a request's answers.", h.maxAnswer},
		{"vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", h.maxTokens},
	}
}

// metrics are one rank's measurements, under vLLM's names.
type metrics struct {
	histograms

	engine *engine

	promptTokens, answerTokens atomic.Uint64
	cacheHits, cacheQueries    atomic.Uint64
	finished                   [len(finishReasons)]atomic.Uint64
}

// finishReasons are the values that the reason's label can have. It is written
// twice: as finish_reason, which llm-d-inference-sim says, and as
// finished_reason, which vLLM and its dashboards say.
var finishReasons = [...]string{
	openai.FinishStop, openai.FinishLength, openai.FinishToolCalls,
	openai.FinishRemoteDecode, openai.FinishCacheThreshold,
}

func newMetrics(e *engine) *metrics {
	return &metrics{engine: e, histograms: newHistograms(e.config.MaxModelLen)}
}

// record counts a request that was answered. Longest is the tokens of its
// longest answer, and limit its max_tokens, or 0.
func (m *metrics) record(s *stay, end time.Time, usage openai.Usage, longest int, finish string, limit int) {
	decode := end.Sub(s.first).Seconds()
	m.e2e.observe(end.Sub(s.arrived).Seconds(), 1)
	m.queue.observe(s.started.Sub(s.arrived).Seconds(), 1)
	m.inference.observe(end.Sub(s.started).Seconds(), 1)
	m.prefill.observe(s.first.Sub(s.started).Seconds(), 1)
	m.decode.observe(decode, 1)
	m.firstToken.observe(s.first.Sub(s.arrived).Seconds(), 1)
	m.promptSize.observe(float64(usage.PromptTokens), 1)
	m.answerSize.observe(float64(usage.CompletionTokens), 1)
	m.maxAnswer.observe(float64(longest), 1)
	if limit > 0 {
		m.maxTokens.observe(float64(limit), 1)
	}
	if more := longest - 1; more > 0 {
		m.requestMean.observe(decode/float64(more), 1)
		m.interToken.observe(decode/float64(more), more)
		m.perOutput.observe(decode/float64(more), more)
	}
	m.promptTokens.Add(uint64(usage.PromptTokens))
	m.answerTokens.Add(uint64(usage.CompletionTokens))
	if m.engine.config.EnableKVCache {
		m.cacheQueries.Add(uint64(usage.PromptTokens))
		m.cacheHits.Add(uint64(s.prompt.Cached))
	}
	if i := slices.Index(finishReasons[:], finish); i >= 0 {
		m.finished[i].Add(1)
	}
}

// exposition is a text in Prometheus' exposition format, version 0.0.4.
type exposition struct {
	text  []byte
	model string // the label model_name, quoted
}

func (x *exposition) family(name, kind, help string) {
	x.text = append(x.text, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// sample adds a value; labels is what stands between the braces.
func (x *exposition) sample(name, labels string, value float64) {
	x.text = append(x.text, name...)
	if labels != "" {
		x.text = append(append(append(x.text, '{'), labels...), '}')
	}
	x.text = append(x.text, ' ')
	x.text = strconv.AppendFloat(x.text, value, 'g', -1, 64)
	x.text = append(x.text, '\n')
}

func (x *exposition) gauge(name, help string, value float64) {
	x.family(name, "gauge", help)
	x.sample(name, x.model, value)
}

func (x *exposition) counter(name, help string, value uint64) {
	x.family(name, "counter", help)
	x.sample(name, x.model, float64(value))
}

func (x *exposition) histogram(name, help string, h *histogram) {
	x.family(name, "histogram", help)
	var total uint64
	for i := range h.counts {
		total += h.counts[i].Load()
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = strconv.FormatFloat(h.bounds[i], 'g', -1, 64)
		}
		x.sample(name+"_bucket", x.model+`,le="`+bound+`"`, float64(total))
	}
	x.sample(name+"_sum", x.model, math.Float64frombits(h.sum.Load()))
	x.sample(name+"_count", x.model, float64(total))
}

// label writes a label's name and value, escaped as the format asks.
func label(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}

// state is what the gauges show.
type state struct {
	running, waiting int
	usage            float64
	loras            []loraState
}

// loraState is which adapters run and wait since a moment.
type loraState struct {
	running, waiting string
	at               time.Time
}

// expose writes every metric. Those of requests appear with the first answer,
// as vLLM's do.
func (m *metrics) expose() []byte {
	e := m.engine
	x := &exposition{model: label("model_name", e.config.ServedModelNames[0])}
	if fake := e.fake(); fake != nil {
		fake.expose(x, e.config, e.clock.Now())
		return x.text
	}
	x.gauges(e.config, e.state())
	m.exposeTraffic(x)
	return x.text
}

func (x *exposition) gauges(config *Config, s state) {
	x.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	x.sample("vllm:cache_config_info", quotedInt("block_size", config.BlockSize)+","+quotedInt("num_gpu_blocks", config.KVCacheSize), 1)
	x.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", s.usage)
	x.gauge("vllm:gpu_cache_usage_perc", "KV-cache usage, by its older name. 1 means 100 percent usage.", s.usage)
	x.family("vllm:lora_requests_info", "gauge", "Running stats on lora requests.")
	for _, lora := range s.loras {
		x.sample("vllm:lora_requests_info", quotedInt("max_lora", config.MaxLoRAs)+","+
			label("running_lora_adapters", lora.running)+","+label("waiting_lora_adapters", lora.waiting), seconds(lora.at))
	}
	x.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", float64(s.running))
	x.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(s.waiting))
}

func (m *metrics) exposeTraffic(x *exposition) {
	var answered uint64
	for i := range m.finished {
		answered += m.finished[i].Load()
	}
	if answered == 0 {
		return
	}
	for _, f := range m.families() {
		x.histogram(f.name, f.help, f.histogram)
	}
	x.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", m.promptTokens.Load())
	x.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", m.answerTokens.Load())
	x.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in number of cached tokens.", m.cacheHits.Load())
	x.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in number of queried tokens.", m.cacheQueries.Load())
	x.finished(func(i int) uint64 { return m.finished[i].Load() })
}

// finished writes how many requests ended for which of finishReasons.
func (x *exposition) finished(count func(int) uint64) {
	x.family("vllm:request_success_total", "counter", "Count of successfully processed requests.")
	for i, reason := range finishReasons {
		if n := count(i); n > 0 {
			x.sample("vllm:request_success_total",
				x.model+","+label("finish_reason", reason)+","+label("finished_reason", reason), float64(n))
		}
	}
}

// state reads the gauges' values at one moment.
func (e *engine) state() state {
	e.mu.Lock()
	defer e.mu.Unlock()
	return state{
		running: e.batch.Running(), waiting: e.batch.Waiting(), usage: e.cache.Usage(),
		loras: []loraState{{names(e.batch.RunningAdapters()), names(e.batch.WaitingAdapters()), e.lorasAt}},
	}
}

// names lists a map's keys in order, with commas between.
func names(counts map[string]int) string {
	keys := make([]string, 0, len(counts))
	for name := range counts {
		keys = append(keys, name)
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}
