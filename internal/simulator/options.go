package simulator

import "time"

// options lists every option: first what has an effect, in the order of --help,
// then what is accepted so that an engine's or llm-d-inference-sim's command
// line works unchanged. It is built anew at each call: nothing shares it.
func options() []option {
	all := servingOptions()
	all = append(all, latencyOptions()...)
	all = append(all, behaviourOptions()...)
	return append(all, silentOptions()...)
}

func servingOptions() []option {
	return []option{
		{"config", one, "YAML file with any of these options as keys", nil},
		{"host", one, "address to listen on (default: every address)", text(func(c *Config) *string { return &c.Host })},
		{"port", one, "port to listen on (default 8000)", number(func(c *Config) *int { return &c.Port })},
		{"model", one, "base model's name (required, unless MODEL_NAME is set)", text(func(c *Config) *string { return &c.Model })},
		{"served-model-name", many, "names that requests may use (default: the model)", func(c *Config, v []string) error { c.ServedModelNames = v; return nil }},
		{"lora-modules", many, `LoRA adapters: {"name":"…","path":"…"} …`, adapters},
		{"max-loras", one, "adapters that run at once (default 1)", number(func(c *Config) *int { return &c.MaxLoRAs })},
		{"max-cpu-loras", one, "adapters that may be loaded (default: max-loras)", number(func(c *Config) *int { return &c.MaxCPULoRAs })},
		{"max-num-seqs", one, "requests that run at once (default 5)", number(func(c *Config) *int { return &c.MaxNumSeqs })},
		{"max-waiting-queue-length", one, "requests that may wait; the next gets 429 (default 1000)", number(func(c *Config) *int { return &c.MaxWaiting })},
		{"max-model-len", one, "tokens of prompt and answer together (default 1024)", number(func(c *Config) *int { return &c.MaxModelLen })},
		{"max-request-body-size-mb", one, "largest request body, in MiB (default 4)", number(func(c *Config) *int { return &c.MaxBodyMiB })},
		{"data-parallel-size", one, "ranks; rank r listens on port+r (default 1)", number(func(c *Config) *int { return &c.Ranks })},
		{"ssl-certfile", one, "certificate for TLS", text(func(c *Config) *string { return &c.CertFile })},
		{"ssl-keyfile", one, "its key", text(func(c *Config) *string { return &c.KeyFile })},
		{"self-signed-certs", flag, "TLS with a certificate made at the start", boolean(func(c *Config) *bool { return &c.SelfSigned })},
		{"startup-duration", one, "time until /health/ready says yes (default 0)", duration(func(c *Config) *time.Duration { return &c.StartupDuration })},
		{"drain-delay", one, "after SIGTERM: time to go on taking requests while not ready (default 1s)", duration(func(c *Config) *time.Duration { return &c.DrainDelay })},
		{"shutdown-grace-period", one, "then: time for requests in flight to finish (default 25s)", duration(func(c *Config) *time.Duration { return &c.GracePeriod })},
	}
}

func latencyOptions() []option {
	return []option{
		{"latency-calculator", one, "constant or per-token: which of the flags below make prefill (default: time-to-first-token, if set)", text(func(c *Config) *string { return &c.Calculator })},
		{"time-to-first-token", one, "latency to the first token: milliseconds or a duration", duration(func(c *Config) *time.Duration { return &c.Latency.FirstToken.Mean })},
		{"time-to-first-token-std-dev", one, "its standard deviation, at most 30 %", duration(func(c *Config) *time.Duration { return &c.Latency.FirstToken.StdDev })},
		{"inter-token-latency", one, "latency between two tokens", duration(func(c *Config) *time.Duration { return &c.Latency.InterToken.Mean })},
		{"inter-token-latency-std-dev", one, "its standard deviation, at most 30 %", duration(func(c *Config) *time.Duration { return &c.Latency.InterToken.StdDev })},
		{"prefill-overhead", one, "fixed part of prefill, when time-to-first-token is 0", duration(func(c *Config) *time.Duration { return &c.Latency.PrefillOverhead })},
		{"prefill-time-per-token", one, "part for each prompt token that isn't cached", duration(func(c *Config) *time.Duration { return &c.Latency.PrefillPerToken })},
		{"prefill-time-std-dev", one, "standard deviation of prefill", duration(func(c *Config) *time.Duration { return &c.Latency.PrefillStdDev })},
		{"kv-cache-transfer-latency", one, "latency to the first token after a remote prefill", duration(func(c *Config) *time.Duration { return &c.Latency.Transfer.Mean })},
		{"kv-cache-transfer-latency-std-dev", one, "its standard deviation, at most 30 %", duration(func(c *Config) *time.Duration { return &c.Latency.Transfer.StdDev })},
		{"kv-cache-transfer-time-per-token", one, "the same for each prompt token, when that is 0", duration(func(c *Config) *time.Duration { return &c.Latency.TransferPerToken.Mean })},
		{"kv-cache-transfer-time-std-dev", one, "its standard deviation", duration(func(c *Config) *time.Duration { return &c.Latency.TransferPerToken.StdDev })},
		{"time-factor-under-load", one, "how much slower a full batch is than one request (default 1)", real(func(c *Config) *float64 { return &c.Latency.LoadFactor })},
	}
}

func behaviourOptions() []option {
	return []option{
		{"mode", one, "random or echo (default random)", text(func(c *Config) *string { return &c.Mode })},
		{"seed", one, "seed of everything random (default, and 0: another one each time)", seed},
		{"enable-kvcache", flag, "turn the prefix cache on", boolean(func(c *Config) *bool { return &c.EnableKVCache })},
		{"kv-cache-size", one, "blocks in the prefix cache (default 1024)", number(func(c *Config) *int { return &c.KVCacheSize })},
		{"block-size", one, "tokens in a block: 8, 16, 32, 64 or 128 (default 16)", number(func(c *Config) *int { return &c.BlockSize })},
		{"hash-seed", one, "seed of the blocks' hashes", text(func(c *Config) *string { return &c.HashSeed })},
		{"failure-injection-rate", one, "percentage of requests that fail on purpose (default 0)", number(func(c *Config) *int { return &c.FailureRate })},
		{"failure-types", many, "which failures: " + failureNames(), list(func(c *Config) *[]string { return &c.FailureTypes })},
		{"fake-metrics", one, "JSON with metrics to report in place of the measured ones", fakeMetrics},
		{"enable-sleep-mode", flag, "let POST /sleep put the engine to sleep", boolean(func(c *Config) *bool { return &c.EnableSleepMode })},
		{"tool-call-probability", one, "percentage of tool calls when tool_choice is auto (default 50)", number(func(c *Config) *int { return &c.Tools.CallProbability })},
		{"tool-call-not-required-param-probability", one, "percentage of optional parameters that are given (default 50)", number(func(c *Config) *int { return &c.Tools.OptionalParamChance })},
		{"object-tool-call-not-required-field-probability", one, "the same for fields within an object (default 50)", number(func(c *Config) *int { return &c.Tools.OptionalFieldChance })},
		{"min-tool-call-integer-param", one, "least integer argument (default 0)", number(func(c *Config) *int { return &c.Tools.MinInteger })},
		{"max-tool-call-integer-param", one, "greatest integer argument (default 100)", number(func(c *Config) *int { return &c.Tools.MaxInteger })},
		{"min-tool-call-number-param", one, "least number argument (default 0)", real(func(c *Config) *float64 { return &c.Tools.MinNumber })},
		{"max-tool-call-number-param", one, "greatest number argument (default 100)", real(func(c *Config) *float64 { return &c.Tools.MaxNumber })},
		{"min-tool-call-array-param-length", one, "least length of an array argument (default 1)", number(func(c *Config) *int { return &c.Tools.MinArrayLen })},
		{"max-tool-call-array-param-length", one, "greatest length of an array argument (default 5)", number(func(c *Config) *int { return &c.Tools.MaxArrayLen })},
		{"enable-request-id-headers", flag, "answer with the request's X-Request-Id, or a new one", boolean(func(c *Config) *bool { return &c.RequestIDs })},
		{"global-cache-hit-threshold", one, "share of the prompt that must be cached, unless a request says otherwise (default 0)", real(func(c *Config) *float64 { return &c.HitThreshold })},
		{"zmq-endpoint", one, "", unsupported("this simulator sends no KV-cache events; leave --zmq-endpoint out")},
		{"dataset-path", one, "", unsupported("this simulator answers with sentences of its own; leave --dataset-path out")},
		{"dataset-url", one, "", unsupported("this simulator downloads nothing; leave --dataset-url out")},
	}
}

// silentOptions are accepted without effect: real engines' flags that have no
// meaning here, and the simulator's own that only tune what this one lacks.
func silentOptions() []option {
	var all []option
	for _, name := range []string{
		"enforce-eager", "enable-prefix-caching", "trust-remote-code", "force-dummy-tokenizer",
		"enable-auto-tool-choice", "enable-lora", "enable-chunked-prefill", "disable-log-requests",
		"logtostderr", "alsologtostderr", "add-dir-header", "one-output", "skip-headers", "dataset-in-memory", "skip-log-headers",
	} {
		all = append(all, option{name: name, shape: flag})
	}
	for _, name := range []string{
		"tensor-parallel-size", "pipeline-parallel-size", "mm-processor-kwargs", "gpu-memory-utilization", "dtype",
		"kv-transfer-config", "kv-events-config", "tool-call-parser", "event-batch-size", "tokenizers-cache-dir",
		"data-parallel-rank", "download-dir", "v", "vmodule", "stderrthreshold", "log-dir", "log-file",
		"log-backtrace-at", "log-file-max-size", "ec-transfer-config", "dataset-table-name", "render-url", "render-timeout",
		"zmq-max-connect-attempts",
	} {
		all = append(all, option{name: name, shape: one})
	}
	return all
}
