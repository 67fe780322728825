package simulator

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"
)

// scrape reads the metrics as Prometheus does.
func scrape(t testing.TB, server *Server) map[string]*dto.MetricFamily {
	t.Helper()
	response := call(t, server, http.MethodGet, "/metrics", "")
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("the content type is %q", kind)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

var gauges = []string{
	"vllm:cache_config_info", "vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc", "vllm:lora_requests_info",
	"vllm:num_requests_running", "vllm:num_requests_waiting",
}

func TestMetricNames(t *testing.T) {
	server := newServer(t)
	before := scrape(t, server)
	if len(before) != len(gauges) {
		t.Errorf("before any request there are %d families", len(before))
	}
	for _, name := range gauges {
		if before[name] == nil || before[name].GetType() != dto.MetricType_GAUGE {
			t.Errorf("before any request there is no gauge %s", name)
		}
	}
	call(t, server, http.MethodPost, "/v1/completions", `{"model":"m","prompt":"a b c","max_tokens":50,"ignore_eos":true}`)
	after := scrape(t, server)
	histograms := map[string]int{
		"vllm:e2e_request_latency_seconds": 21, "vllm:request_queue_time_seconds": 21, "vllm:request_inference_time_seconds": 21,
		"vllm:request_prefill_time_seconds": 21, "vllm:request_decode_time_seconds": 21, "vllm:time_to_first_token_seconds": 22,
		"vllm:time_per_output_token_seconds": 19, "vllm:inter_token_latency_seconds": 19, "vllm:request_time_per_output_token_seconds": 19,
		"vllm:request_prompt_tokens": 10, "vllm:request_generation_tokens": 10, "vllm:request_params_max_tokens": 10,
		"vllm:max_num_generation_tokens": 10,
	}
	for name, buckets := range histograms {
		family := after[name]
		if family == nil || family.GetType() != dto.MetricType_HISTOGRAM {
			t.Errorf("there is no histogram %s", name)
			continue
		}
		h := family.Metric[0].GetHistogram()
		if len(h.Bucket) != buckets+1 {
			t.Errorf("%s has %d buckets, want %d and +Inf", name, len(h.Bucket), buckets)
		}
		want := uint64(1)
		if strings.HasPrefix(name, "vllm:inter_token") || name == "vllm:time_per_output_token_seconds" {
			want = 49
		}
		if h.GetSampleCount() != want {
			t.Errorf("%s counts %d, want %d", name, h.GetSampleCount(), want)
		}
	}
	for name, want := range map[string]float64{
		"vllm:prompt_tokens_total": 3, "vllm:generation_tokens_total": 50, "vllm:prefix_cache_hits_total": 0,
		"vllm:prefix_cache_queries_total": 0, "vllm:request_success_total": 1,
	} {
		if family := after[name]; family == nil || family.Metric[0].GetCounter().GetValue() != want {
			t.Errorf("%s is %v, want %g", name, family, want)
		}
	}
	var labels []string
	for _, pair := range after["vllm:request_success_total"].Metric[0].Label {
		labels = append(labels, pair.GetName()+"="+pair.GetValue())
	}
	if want := []string{"model_name=m", "finish_reason=length", "finished_reason=length"}; !slices.Equal(labels, want) {
		t.Errorf("the labels are %q", labels)
	}
}

func TestLabelsAreEscaped(t *testing.T) {
	config := Default()
	config.Model = "a\"b\\c\nd"
	if err := config.Complete(); err != nil {
		t.Fatal(err)
	}
	families := scrape(t, New(config, SystemClock{}))
	if got := families["vllm:num_requests_running"].Metric[0].Label[0].GetValue(); got != config.Model {
		t.Errorf("the model's name came out as %q", got)
	}
}

func TestFakeMetrics(t *testing.T) {
	server := newServer(t, "--fake-metrics", `{"running-requests":10,"waiting-requests":30,"kv-cache-usage":0.4,`+
		`"loras":[{"running":"l4,l2","waiting":"l3","timestamp":1257894567},{"running":"l4","waiting":"","timestamp":1257894569}],`+
		`"ttft-buckets-values":[1,0,2],"tpot-buckets-values":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,7],"request-success-total":{"stop":20}}`)
	call(t, server, http.MethodPost, "/v1/completions", `{"model":"m","prompt":"a"}`)
	families := scrape(t, server)
	if families["vllm:num_requests_running"].Metric[0].GetGauge().GetValue() != 10 ||
		families["vllm:num_requests_waiting"].Metric[0].GetGauge().GetValue() != 30 ||
		families["vllm:gpu_cache_usage_perc"].Metric[0].GetGauge().GetValue() != 0.4 {
		t.Error("the gauges are not the fake ones")
	}
	if loras := families["vllm:lora_requests_info"].Metric; len(loras) != 2 || loras[1].GetGauge().GetValue() != 1257894569 {
		t.Errorf("the adapters are %v", loras)
	}
	ttft := families["vllm:time_to_first_token_seconds"].Metric[0].GetHistogram()
	if ttft.Bucket[0].GetCumulativeCount() != 1 || ttft.Bucket[2].GetCumulativeCount() != 3 || ttft.GetSampleCount() != 3 {
		t.Errorf("the histogram is %v", ttft)
	}
	if tpot := families["vllm:time_per_output_token_seconds"].Metric[0].GetHistogram(); tpot.Bucket[18].GetCumulativeCount() != 0 || tpot.GetSampleCount() != 7 {
		t.Errorf("what is above every bound is %v", tpot)
	}
	if families["vllm:e2e_request_latency_seconds"] != nil || families["vllm:request_success_total"].Metric[0].GetCounter().GetValue() != 20 {
		t.Error("measured and fake metrics are mixed")
	}
	if got := call(t, server, http.MethodPost, "/fake_metrics", `{"running-requests":1}`); got.StatusCode != 200 {
		t.Errorf("new fake metrics give %d", got.StatusCode)
	}
	if scrape(t, server)["vllm:num_requests_running"].Metric[0].GetGauge().GetValue() != 1 {
		t.Error("POST /fake_metrics has no effect")
	}
}

// A histogram counts each value in every bucket whose bound it doesn't exceed.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Float64Range(0, 4000)).Draw(t, "values")
		h := newHistogram(firstTokenBuckets)
		for _, value := range values {
			h.observe(value, 1)
		}
		var below uint64
		for i, bound := range h.bounds {
			below += h.counts[i].Load()
			var want uint64
			for _, value := range values {
				if value <= bound {
					want++
				}
			}
			if below != want {
				t.Fatalf("%d values up to %g, want %d", below, bound, want)
			}
		}
	})
}

func TestCountBuckets(t *testing.T) {
	if got := countBuckets(1024); !slices.Equal(got, []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}) {
		t.Errorf("the buckets are %v", got)
	}
}
