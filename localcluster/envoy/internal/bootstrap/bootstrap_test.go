package bootstrap_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
)

func text(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func TestReadWithPicker(t *testing.T) {
	config, err := bootstrap.Read([]byte(text(t, "picker.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "admin", config.Admin, "0.0.0.0:19000")
	equal(t, "listener", config.Listeners[0].Address, "0.0.0.0:80")
	http := config.Listeners[0].HTTP
	equal(t, "access logs", http.AccessLogs, []string{"/dev/stdout"})
	equal(t, "route", http.VirtualHosts[0].Routes[0].Cluster, "original_destination_cluster")
	equal(t, "timeout", http.VirtualHosts[0].Routes[0].Timeout, time.Duration(0))
	duplex := bootstrap.Processing{Headers: true, Trailers: true, Body: bootstrap.FullDuplex}
	equal(t, "processor", *http.Processor, bootstrap.Processor{
		Cluster: "epp", Authority: "gaie-sim-epp.llm-d-sim.svc:9002", MessageTimeout: 5 * time.Second, Request: duplex, Response: duplex,
	})
	breakers := bootstrap.Cluster{ConnectTimeout: 5 * time.Second, DNSRefresh: 5 * time.Second, IdleTimeout: time.Hour,
		MaxConnections: 1024, MaxPending: 1024, MaxRequests: 1024, MaxRetries: 3}
	original, epp := breakers, breakers
	original.Name, original.Discovery, original.Policy = "original_destination_cluster", bootstrap.OriginalDst, bootstrap.ClusterProvided
	original.Header = "x-gateway-destination-endpoint"
	epp.Name, epp.Discovery, epp.HTTP2, epp.TLS = "epp", bootstrap.StrictDNS, true, &bootstrap.TLS{}
	epp.Hosts = []bootstrap.Host{{Address: "gaie-sim-epp", Port: 9002}}
	equal(t, "clusters", config.Clusters, []bootstrap.Cluster{original, epp})
}

func TestReadWithoutPicker(t *testing.T) {
	config, err := bootstrap.Read([]byte(text(t, "plain.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	http := config.Listeners[0].HTTP
	if http.Processor != nil || http.HealthCheck == nil || !http.UseRemoteAddress || !http.GenerateRequestID {
		t.Errorf("got %+v", http)
	}
	equal(t, "idle", http.StreamIdleTimeout, time.Hour)
	equal(t, "age", http.MaxConnectionDuration, 5*time.Minute)
	routes := http.VirtualHosts[0].Routes
	equal(t, "direct", *routes[0].Direct, bootstrap.DirectResponse{Status: 200, Body: "well"})
	equal(t, "retry", routes[1].Retry, bootstrap.Retry{On: []string{"connect-failure", "5xx"}, Max: 2, PerTryTimeout: 20 * time.Second})
	equal(t, "timeout", routes[1].Timeout, time.Minute)
	equal(t, "route idle", *routes[2].IdleTimeout, 5*time.Minute)
	if !routes[1].Match.Regex.MatchString("/v1/models") || routes[1].Match.Regex.MatchString("/x/v1/models") {
		t.Error("the expression isn't matched against the whole path")
	}
	decode := config.Clusters[0]
	equal(t, "health check", *decode.HealthCheck, bootstrap.HealthCheck{Path: "/health", Timeout: time.Second, Interval: 5 * time.Second, Unhealthy: 3, Healthy: 1})
	equal(t, "removed", routes[2].Remove, []string{"x-gateway-destination-endpoint", "x-prefiller-host-port"})
	if !decode.OneRequest || decode.HTTP2 {
		t.Errorf("connections: got %+v", decode)
	}
	equal(t, "policy", decode.Policy, bootstrap.LeastRequest)
	equal(t, "breakers", []int{decode.MaxConnections, decode.MaxPending, decode.MaxRequests, decode.MaxRetries}, []int{100, 10, 100, 3})
}

const (
	inManager = "static_resources.listeners[0].filter_chains[0].filters[0].typed_config"
	honour    = "; remove it, or run Envoy itself"
)

// TestRefusals changes one thing in a bootstrap that is honoured, and wants one
// line that names it.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct{ file, old, new, want string }{
		"no YAML":             {"plain.yaml", "admin:", "admin: [", "the bootstrap is no YAML: "},
		"a list":              {"plain.yaml", "", "[]", "the bootstrap is no mapping of fields to values"},
		"a key twice":         {"plain.yaml", "static_resources:", "admin: {}\nstatic_resources:", "the bootstrap is no YAML: "},
		"nothing":             {"plain.yaml", "", "{}", "static_resources.listeners: there is none, and the stand-in knows no other source of listeners"},
		"unknown at the top":  {"plain.yaml", "admin:", "admn:", "admn: Envoy has no such field"},
		"unknown further in":  {"plain.yaml", "connect_timeout: 1s", "connect_timout: 1s", "static_resources.clusters[0].connect_timout: Envoy has no such field"},
		"unknown in a filter": {"plain.yaml", "stat_prefix:", "stats_prefix:", inManager + ".stats_prefix: Envoy has no such field"},
		"a wrong value":       {"plain.yaml", "LEAST_REQUEST", "LEAST_REQUESTS", `static_resources.clusters[0].lb_policy: invalid value for enum field lbPolicy: "LEAST_REQUESTS"`},
		"a wrong duration":    {"plain.yaml", "timeout: 60s", "timeout: 60", inManager + ".route_config.virtual_hosts[0].routes[1].route.timeout: "},
		"a broken rule":       {"plain.yaml", "stat_prefix: inference", `stat_prefix: ""`, inManager + ".stat_prefix: value length must be at least 1 runes"},
		"a broken rule below": {"plain.yaml", "port_value: 8200", "port_value: 82000",
			"static_resources.clusters[0].load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value: value must be less than or equal to 65535"},
		"an unknown filter": {"plain.yaml", "envoy.extensions.filters.http.health_check.v3.HealthCheck", "envoy.extensions.filters.http.lua.v3.Lua",
			inManager + ".http_filters[0].typed_config.@type: the stand-in doesn't honour type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua" + honour},
		"no type":            {"plain.yaml", `"@type": type.googleapis.com/envoy.extensions.filters.http.health_check.v3.HealthCheck`, "", inManager + ".http_filters[0].typed_config: a typed_config needs @type"},
		"a field not known":  {"plain.yaml", "stat_prefix: inference", "stat_prefix: inference\n          via: me", inManager + ".via: the stand-in doesn't honour this field" + honour},
		"another kind":       {"plain.yaml", "type: STRICT_DNS", "type: EDS", "static_resources.clusters[0].type: the stand-in doesn't honour EDS" + honour},
		"another policy":     {"plain.yaml", "LEAST_REQUEST", "MAGLEV", "static_resources.clusters[0].lb_policy: the stand-in doesn't honour MAGLEV" + honour},
		"a name when STATIC": {"plain.yaml", "type: STRICT_DNS", "type: STATIC", `"decode.llm.svc" is no IP address; a name needs type STRICT_DNS or LOGICAL_DNS`},
		"dynamic resources":  {"plain.yaml", "admin:", "dynamic_resources: {}\nadmin:", "dynamic_resources: the stand-in doesn't honour this field" + honour},
		"outlier detection":  {"plain.yaml", "connect_timeout: 1s", "outlier_detection: {}", "static_resources.clusters[0].outlier_detection: the stand-in doesn't honour this field" + honour},
		"QUIC":               {"plain.yaml", "codec_type: AUTO", "codec_type: HTTP3", inManager + ".codec_type: the stand-in doesn't honour HTTP3" + honour},
		"no cluster":         {"plain.yaml", "name: decode\n", "name: decoder\n", inManager + `.route_config.virtual_hosts[0].routes[1].route.cluster: there is no cluster "decode"`},
		"a file":             {"plain.yaml", "/dev/stdout", "/var/log/x", inManager + ".access_log[0].typed_config.path: the stand-in doesn't honour any file but /dev/stdout and /dev/stderr" + honour},
		"a condition":        {"plain.yaml", "connect-failure,5xx", "5xx,http3-post-connect-failure", inManager + ".route_config.virtual_hosts[0].routes[1].route.retry_policy.retry_on: the stand-in doesn't honour http3-post-connect-failure" + honour},
		"an expression":      {"plain.yaml", "/v[12]/.*", "/v[12/.*", inManager + ".route_config.virtual_hosts[0].routes[1].match.safe_regex.regex: error parsing regexp"},
		"the host removed":   {"plain.yaml", "request_headers_to_remove: [", "request_headers_to_remove: [Host, ", inManager + ".route_config.virtual_hosts[0].routes[2].request_headers_to_remove[0]: a request can't be without Host"},
		"unsafe duration":    {"plain.yaml", "http1_safe_max_connection_duration: true", "http1_safe_max_connection_duration: false", inManager + ".common_http_protocol_options.max_connection_duration: the stand-in doesn't honour it without http1_safe_max_connection_duration" + honour},
		"upstream duration":  {"plain.yaml", "max_requests_per_connection: 1", "max_connection_duration: 1s", "max_connection_duration: the stand-in doesn't honour it upstream" + honour},
		"many requests":      {"plain.yaml", "max_requests_per_connection: 1", "max_requests_per_connection: 2", "max_requests_per_connection: the stand-in doesn't honour any but 1, or any with HTTP/2" + honour},
		"a wildcard domain":  {"plain.yaml", `domains: ["*"]`, `domains: ["*.example.com"]`, inManager + ".route_config.virtual_hosts[0].domains[0]: the stand-in doesn't honour a pattern other than *" + honour},

		"a processor's cluster": {"picker.yaml", `"cluster_name": "epp", "auth`, `"cluster_name": "app", "auth`, inManager + `.http_filters: ext_proc: grpc_service.envoy_grpc.cluster_name: there is no cluster "app"`},
		"a processor without HTTP/2": {"picker.yaml", `"http2_protocol_options": {}`, `"http_protocol_options": {}`,
			inManager + `.http_filters: ext_proc: grpc_service.envoy_grpc.cluster_name: gRPC needs HTTP/2: give cluster "epp" explicit_http_config.http2_protocol_options`},
		"a buffered body": {"picker.yaml", `"request_body_mode": "FULL_DUPLEX_STREAMED"`, `"request_body_mode": "BUFFERED"`,
			inManager + ".http_filters[0].typed_config.processing_mode.request_body_mode: the stand-in doesn't honour BUFFERED" + honour},
		"no trailers": {"picker.yaml", `, "response_trailer_mode": "SEND"`, "",
			inManager + ".http_filters[0].typed_config.processing_mode.response_trailer_mode: must be SEND if the body mode is FULL_DUPLEX_STREAMED"},
		"failing open": {"picker.yaml", `"message_timeout"`, `"failure_mode_allow": true, "message_timeout"`,
			inManager + ".http_filters[0].typed_config.failure_mode_allow: must be false: with FULL_DUPLEX_STREAMED Envoy can't let a request pass whose processor failed"},
		"attributes": {"picker.yaml", `"message_timeout"`, `"request_attributes": ["x"], "message_timeout"`,
			inManager + ".http_filters[0].typed_config.request_attributes: the stand-in doesn't honour this field" + honour},
		"a verified peer": {"picker.yaml", `"validation_context": {}`, `"validation_context": {"trusted_ca": {"inline_string": "x"}}`,
			"static_resources.clusters[1].transport_socket.typed_config.common_tls_context.validation_context.trusted_ca: the stand-in doesn't honour this field" + honour},
		"no header":           {"picker.yaml", `"use_http_header": true, `, "", "static_resources.clusters[0].original_dst_lb_config.use_http_header: the stand-in doesn't honour an ORIGINAL_DST cluster without it" + honour},
		"a policy of its own": {"picker.yaml", "CLUSTER_PROVIDED", "RANDOM", "static_resources.clusters[0].lb_policy: CLUSTER_PROVIDED goes with type ORIGINAL_DST, and only with it"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(text(t, test.file), test.old, test.new, 1)
			if test.old == "" {
				changed = test.new
			}
			_, err := bootstrap.Read([]byte(changed))
			var refused *bootstrap.Error
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want a refusal", err)
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %s\nwant %s", err, test.want)
			}
		})
	}
}

// TestSteeringByClients refuses an ORIGINAL_DST cluster that no processor stands
// before, because then a client's header chooses the address.
func TestSteeringByClients(t *testing.T) {
	picker := text(t, "picker.yaml")
	from := strings.Index(picker, `{
              "name": "envoy.filters.http.ext_proc"`)
	to := strings.Index(picker, `{
              "name": "envoy.filters.http.router"`)
	if from < 0 || to < from {
		t.Fatal("testdata/picker.yaml has another layout now")
	}
	const want = `"original_destination_cluster" takes its address from header x-gateway-destination-endpoint, and no ext_proc filter that sees request headers stands before it`
	_, err := bootstrap.Read([]byte(picker[:from] + picker[to:]))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("without the filter: got %v, want %s", err, want)
	}
	blind := strings.NewReplacer(`"request_header_mode": "SEND", "request_body_mode": "FULL_DUPLEX_STREAMED", "request_trailer_mode": "SEND"`,
		`"request_header_mode": "SKIP", "request_body_mode": "NONE", "request_trailer_mode": "SKIP"`).Replace(picker)
	_, err = bootstrap.Read([]byte(blind))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("with a filter that sees no request: got %v, want %s", err, want)
	}
}

// TestRendered reads every bootstrap in the goldens of the kind that renders
// them: what Slipway says must be what the stand-in honours.
func TestRendered(t *testing.T) {
	goldens, err := filepath.Glob("../../../../internal/render/simulatordeployment/testdata/*.out.yaml")
	if err != nil {
		t.Fatal(err)
	}
	picked, plain := 0, 0
	for _, golden := range goldens {
		data, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(data), "\n---\n") {
			var object struct{ Data map[string]string }
			if err := yaml.Unmarshal([]byte(document), &object); err != nil || object.Data["envoy.yaml"] == "" {
				continue
			}
			config, err := bootstrap.Read([]byte(object.Data["envoy.yaml"]))
			switch {
			case err != nil:
				t.Errorf("%s: %v", golden, err)
			case config.Listeners[0].HTTP.Processor != nil:
				picked++
			default:
				plain++
			}
		}
	}
	if picked == 0 || plain == 0 {
		t.Errorf("%d goldens have %d bootstraps with a picker and %d without; want some of each", len(goldens), picked, plain)
	}
}

// TestSameFaultSameLine reads the same fault often: protojson varies its words
// from one build to the next, and maps vary their order.
func TestSameFaultSameLine(t *testing.T) {
	broken := strings.NewReplacer("connect_timeout: 1s", "zzz: 1\n    aaa: 2").Replace(text(t, "plain.yaml"))
	_, first := bootstrap.Read([]byte(broken))
	for range 20 {
		_, again := bootstrap.Read([]byte(broken))
		if first == nil || again == nil || first.Error() != again.Error() {
			t.Fatalf("first %v, then %v", first, again)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"plain.yaml", "picker.yaml"} {
		f.Add([]byte(text(f, name)))
	}
	f.Add([]byte(`{"admin":{"address":{"socket_address":{"address":"::1","port_value":1}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := bootstrap.Read(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("the error has several lines: %q", err)
			}
			return
		}
		if len(config.Listeners) == 0 {
			t.Error("a bootstrap without listeners was taken")
		}
		for _, listener := range config.Listeners {
			for _, host := range listener.HTTP.VirtualHosts {
				for _, route := range host.Routes {
					if route.Direct == nil && route.Cluster == "" {
						t.Error("a route leads nowhere")
					}
				}
			}
		}
	})
}
