package simulator

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/internal/latency"
)

// env makes an environment of pairs.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	config, err := Load([]string{"--model", "m", "--seed", "1"}, env())
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Model, want.ServedModelNames, want.Seed = "m", []string{"m"}, 1
	want.MaxCPULoRAs = 1
	want.Latency = latency.Profile{LoadFactor: 1, BatchLimit: 5}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if config.Port != 8000 || config.MaxModelLen != 1024 || config.MaxWaiting != 1000 || config.KVCacheSize != 1024 || config.BlockSize != 16 {
		t.Errorf("the defaults of llm-d-inference-sim are not kept: %+v", config)
	}
}

func TestForms(t *testing.T) {
	for _, test := range []struct {
		name string
		args string
		got  func(Config) any
		want any
	}{
		{"two words", "--model m --port 9", func(c Config) any { return c.Port }, 9},
		{"equals", "--model=m --port=9", func(c Config) any { return c.Port }, 9},
		{"last counts", "--model m --port 9 --port 10", func(c Config) any { return c.Port }, 10},
		{"underscores", "--model m --max_model_len 2048", func(c Config) any { return c.MaxModelLen }, 2048},
		{"one dash", "-model m -port 9", func(c Config) any { return c.Port }, 9},
		{"names", "--served-model-name a b --model m", func(c Config) any { return c.ServedModelNames }, []string{"a", "b"}},
		{"names again", "--served-model-name a --model m --served-model-name b c", func(c Config) any { return c.ServedModelNames }, []string{"a", "b", "c"}},
		{"names with equals", "--served-model-name=a b --model m", func(c Config) any { return c.ServedModelNames }, []string{"a", "b"}},
		{"names from the model", "--model m", func(c Config) any { return c.ServedModelNames }, []string{"m"}},
		{"milliseconds", "--model m --time-to-first-token 100", func(c Config) any { return c.Latency.FirstToken.Mean }, 100 * time.Millisecond},
		{"duration", "--model m --time-to-first-token 1.5s", func(c Config) any { return c.Latency.FirstToken.Mean }, 1500 * time.Millisecond},
		{"flag", "--model m --enable-kvcache", func(c Config) any { return c.EnableKVCache }, true},
		{"flag with value", "--model m --enable-kvcache=false", func(c Config) any { return c.EnableKVCache }, false},
		{"flag with a word", "--enable-kvcache false --model m", func(c Config) any { return c.EnableKVCache }, false},
		{"negated flag", "--model m --no-enable-kvcache", func(c Config) any { return c.EnableKVCache }, false},
		{"negative number", "--model m --min-tool-call-integer-param -5", func(c Config) any { return c.Tools.MinInteger }, -5},
		{"seed", "--model m --seed -3", func(c Config) any { return c.Seed }, int64(-3)},
		{"commas", "--model m --failure-types rate_limit,server_error", func(c Config) any { return c.FailureTypes }, []string{"rate_limit", "server_error"}},
		{"words", "--model m --failure-types rate_limit server_error", func(c Config) any { return c.FailureTypes }, []string{"rate_limit", "server_error"}},
		{"constant", "--model m --latency-calculator constant --prefill-overhead 5 --time-to-first-token 0", func(c Config) any { return c.Latency.PrefillOverhead }, time.Duration(0)},
		{"per token", "--model m --latency-calculator per-token --prefill-overhead 5 --time-to-first-token 9", func(c Config) any { return c.Latency.FirstToken.Mean }, time.Duration(0)},
		{"ignored", "--model m --enforce-eager --tensor-parallel-size 2 --mm-processor-kwargs {} --enable-prefix-caching --no-enable-prefix-caching -v 5 -v=2 --event-batch-size 4 --force-dummy-tokenizer", func(c Config) any { return c.Model }, "m"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config, err := Load(strings.Fields(test.args), env())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, test.got(config)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAdapters(t *testing.T) {
	want := []Adapter{{Name: "a", Path: "/a"}, {Name: "b", BaseModel: "m"}}
	for name, args := range map[string][]string{
		"words":    {"--lora-modules", `{"name":"a","path":"/a"}`, `{"name":"b","base_model_name":"m"}`},
		"repeated": {"--lora-modules", `{"name":"a","path":"/a"}`, `--lora-modules={"name":"b","base_model_name":"m"}`},
		"list":     {"--lora-modules", `[{"name":"a","path":"/a"},{"name":"b","base_model_name":"m"}]`},
	} {
		config, err := Load(append(args, "--model", "m", "--max-cpu-loras", "2"), env())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, config.Adapters); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	config, err := Load([]string{"--model", "m", "--lora-modules", "a=/a"}, env())
	if err != nil || len(config.Adapters) != 1 || config.Adapters[0] != want[0] {
		t.Errorf("vLLM's short form gives %+v, %v", config.Adapters, err)
	}
}

func TestPrecedence(t *testing.T) {
	file := writeFile(t, "port: 1\nmodel: from-file\nserved-model-name: [f1, f2]\nmax-num-seqs: 7\nhash-seed: file\n"+
		"kv_cache_transfer_latency: 100\ntime-to-first-token: 2s\nlora-modules:\n- '{\"name\":\"l1\",\"path\":\"/l1\"}'\n- name: l2\n"+
		"latencies:\n  inter-token-latency: 30ms\nkvcache:\n  enable-kvcache: true\nfake-metrics:\n  running-requests: 3\n")
	config, err := Load([]string{"--config", file, "--max-num-seqs", "8", "--max-cpu-loras", "3"},
		env("PORT", "2", "MODEL_NAME", "from-env", "PYTHONHASHSEED", "env", "POD_NAME", "pod-1", "POD_NAMESPACE", "ns"))
	if err != nil {
		t.Fatal(err)
	}
	got := []any{config.Port, config.Model, config.ServedModelNames, config.MaxNumSeqs, config.HashSeed, config.Latency.Transfer.Mean,
		config.Latency.FirstToken.Mean, config.Latency.InterToken.Mean, config.EnableKVCache, len(config.Adapters), *config.FakeMetrics.Running, config.Pod, config.Namespace}
	want := []any{2, "from-file", []string{"from-env"}, 8, "env", 100 * time.Millisecond,
		2 * time.Second, 30 * time.Millisecond, true, 2, 3, "pod-1", "ns"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	flags, err := Load([]string{"--model", "flag", "--port", "3"}, env("PORT", "2", "MODEL_NAME", "from-env"))
	if err != nil || flags.Port != 3 || flags.ServedModelNames[0] != "flag" {
		t.Errorf("the command line does not win: port %d, names %v, %v", flags.Port, flags.ServedModelNames, err)
	}
	only, err := Load(nil, env("PORT", "8080", "MODEL_NAME", "GPT-Small"))
	if err != nil || only.Port != 8080 || only.Model != "GPT-Small" || only.ServedModelNames[0] != "GPT-Small" {
		t.Errorf("the environment alone gives %+v, %v", only, err)
	}
	if sim, err := Load(nil, env("SIM_MODEL", "s")); err != nil || sim.Model != "s" {
		t.Errorf("SIM_MODEL gives %q, %v", sim.Model, err)
	}
}

// Each fault is one line that names the flag.
func TestFaults(t *testing.T) {
	for args, want := range map[string]string{
		"":                                               "no model is named: pass --model NAME, or set the environment variable MODEL_NAME",
		"--model m --bogus 1":                            "unknown flag --bogus; `slipway simulator --help` lists the flags",
		"--model m --no-port":                            "unknown flag --no-port; `slipway simulator --help` lists the flags",
		"--model m stray":                                `unexpected argument "stray"; flags start with --`,
		"--model m --port":                               "flag --port needs a value",
		"--model m --port x":                             `--port: "x" is not a whole number`,
		"--model m --port 70000":                         "--port is 70000; it must be from 0 to 65535",
		"--model m --mode loud":                          `--mode is "loud"; it must be random or echo`,
		"--model m --block-size 17":                      "--block-size is 17; it must be 8, 16, 32, 64 or 128",
		"--model m --enable-kvcache=maybe":               `--enable-kvcache: "maybe" is neither true nor false`,
		"--model m --time-factor-under-load 0.5":         "--time-factor-under-load is 0.5; it must be 1 or more",
		"--model m --time-to-first-token soon":           `--time-to-first-token: "soon" is not a time; write milliseconds (100) or a duration (100ms, 1.5s)`,
		"--model m --time-to-first-token -5":             `--time-to-first-token: "-5" is out of bounds; it must be from 0 to 1h`,
		"--model m --time-to-first-token 99999999999999": `--time-to-first-token: "99999999999999" is out of bounds; it must be from 0 to 1h`,
		"--model m --time-to-first-token 100 --time-to-first-token-std-dev 31": "--time-to-first-token-std-dev is 31ms; it must be at most 30 % of --time-to-first-token (100ms)",
		"--model m --failure-injection-rate 101":                               "--failure-injection-rate is 101; it must be from 0 to 100",
		"--model m --failure-types fire":                                       `--failure-types has "fire"; it must be one of context_length, invalid_api_key, invalid_request, model_not_found, rate_limit, server_error`,
		"--model m --zmq-endpoint tcp://x:5557":                                "--zmq-endpoint: not supported: this simulator sends no KV-cache events; leave --zmq-endpoint out",
		"--model m --dataset-path d.sqlite3":                                   "--dataset-path: not supported: this simulator answers with sentences of its own; leave --dataset-path out",
		"--model m --ssl-certfile c":                                           "--ssl-certfile and --ssl-keyfile go together; pass both",
		"--model m --max-loras 3 --max-cpu-loras 2":                            "--max-cpu-loras is 2; it must be from 3 to 65536",
		"--model m --lora-modules {}":                                          `--lora-modules has an entry without a name; write {"name":"NAME","path":"PATH"}`,
		"--model m --lora-modules m=/x":                                        `--lora-modules has the name "m", which another model bears; choose another`,
		"--model m --port 65535 --data-parallel-size 2":                        "--data-parallel-size 2 from --port 65535 goes past port 65535; choose a lower port",
		"--model m --max-tool-call-integer-param -1":                           "a --min-tool-call-… value is above its --max-tool-call-… value; swap them",
		"--model m --latency-calculator fast":                                  `--latency-calculator is "fast"; it must be constant or per-token`,
		"--model m --fake-metrics {\"kv-cache-usage\":2}":                      "--fake-metrics: fake metrics: kv-cache-usage is 2; it must be from 0 to 1",
	} {
		_, err := Load(strings.Fields(args), env())
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", args, err, want)
		}
	}
	if _, err := Load([]string{"--help"}, env()); !errors.Is(err, ErrHelp) {
		t.Errorf("--help gives %v", err)
	}
}

func TestFileFaults(t *testing.T) {
	for text, want := range map[string]string{
		"bogus: 1":             `unknown key "bogus"; the keys are the flags' names without --`,
		"config: other.yaml":   `a file can't name another with "config"`,
		"port: [1, 2]":         "port takes one value, not a list",
		"port: x":              `--port: "x" is not a whole number`,
		"[":                    "yaml",
		"latencies: {port: x}": `--port: "x" is not a whole number`,
	} {
		_, err := Load([]string{"--model", "m", "--config", writeFile(t, text)}, env())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if _, err := Load([]string{"--config", "/nowhere/x.yaml"}, env()); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("a missing file gives %v", err)
	}
	large := writeFile(t, "model: m\n#"+strings.Repeat("x", maxConfigFile))
	if _, err := Load([]string{"--config", large}, env()); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large file gives %v", err)
	}
}

// Every option is either in the help, refused, or accepted in silence; every
// name is there once, and the help fits a terminal.
func TestHelp(t *testing.T) {
	seen := map[string]bool{}
	help := Help()
	for _, opt := range options() {
		if seen[opt.name] {
			t.Errorf("--%s is listed twice", opt.name)
		}
		seen[opt.name] = true
		if opt.help != "" && !strings.Contains(help, "--"+opt.name+" ") {
			t.Errorf("--%s is not in the help", opt.name)
		}
	}
	for _, name := range []string{"port", "model", "served-model-name", "lora-modules", "max-loras", "max-cpu-loras", "max-num-seqs",
		"max-waiting-queue-length", "max-model-len", "mode", "seed", "time-to-first-token", "time-to-first-token-std-dev",
		"inter-token-latency", "inter-token-latency-std-dev", "prefill-overhead", "prefill-time-per-token", "prefill-time-std-dev",
		"kv-cache-transfer-latency", "kv-cache-transfer-latency-std-dev", "kv-cache-transfer-time-per-token", "kv-cache-transfer-time-std-dev",
		"time-factor-under-load", "enable-kvcache", "kv-cache-size", "block-size", "hash-seed", "zmq-endpoint", "event-batch-size",
		"data-parallel-size", "failure-injection-rate", "failure-types", "fake-metrics", "dataset-path", "ssl-certfile", "ssl-keyfile",
		"self-signed-certs", "startup-duration", "force-dummy-tokenizer", "enable-sleep-mode", "enforce-eager", "enable-prefix-caching",
		"tensor-parallel-size", "mm-processor-kwargs", "config"} {
		if !seen[name] {
			t.Errorf("llm-d-inference-sim's --%s is not known", name)
		}
	}
}

func FuzzFlags(f *testing.F) {
	f.Add("--model\x00m\x00--served-model-name\x00a\x00b\x00--port=9")
	f.Add("--lora-modules\x00{\"name\":\"a\"}\x00--enable-kvcache\x00false\x00-v=5")
	f.Add("--fake-metrics\x00{\"loras\":[{}],\"ttft-buckets-values\":[1]}")
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		for _, arg := range args {
			if strings.Contains(arg, "config") {
				return // Reads no file that a fuzzer names.
			}
		}
		config, err := Load(args, env())
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("an error says nothing")
			}
			return
		}
		checkLoaded(t, config)
	})
}

func FuzzConfigFile(f *testing.F) {
	f.Add("port: 8001\nmodel: q\nserved-model-name:\n- a\n- b\nlatencies: {inter-token-latency: 1s}\n")
	f.Add("model: q\nfake-metrics: {running-requests: 2}\nlora-modules: [{name: a}, '{\"name\":\"b\"}']\n")
	f.Fuzz(func(t *testing.T, text string) {
		given, err := parseFile([]byte(text))
		if err != nil {
			return
		}
		config := Default()
		if apply(&config, given) != nil || config.Complete() != nil {
			return
		}
		checkLoaded(t, config)
	})
}

// checkLoaded holds what every accepted configuration promises.
func checkLoaded(t *testing.T, config Config) {
	if len(config.ServedModelNames) == 0 || config.Model == "" {
		t.Fatal("a configuration without a model was accepted")
	}
	if config.MaxNumSeqs < 1 || config.MaxModelLen < 1 || config.Ranks < 1 || config.MaxBodyMiB < 1 || config.Latency.LoadFactor < 1 {
		t.Fatalf("accepted: %+v", config)
	}
	if _, err := json.Marshal(config.Adapters); err != nil {
		t.Fatal(err)
	}
}
