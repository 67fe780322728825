package simulatordeployment

import (
	"sigs.k8s.io/yaml"
)

// Where requests go, by the names of Envoy's clusters.
const (
	clusterChosen = "original_destination_cluster" // the pod that the picker names
	clusterPicker = "epp"
	clusterDecode = "decode"

	// headerDestination carries the picker's answer (Gateway API Inference
	// Extension, endpoint picker protocol).
	headerDestination = "x-gateway-destination-endpoint"
	// headerPrefiller tells the routing sidecar which prefill pod to ask.
	headerPrefiller = "x-prefiller-host-port"

	typeURL = "type.googleapis.com/"

	// connectionDuration is shorter than a gateway's preStop, so that no connection
	// outlives it by which requests still come.
	connectionDuration = "5s"

	// maxInFlight bounds connections, waiting requests and requests of a cluster.
	maxInFlight = 40_000
)

// bootstrap is Envoy's configuration (envoy.config.bootstrap.v3.Bootstrap): with
// a picker every request goes through it to the pod that it names; without one
// requests are spread over the decode Service. It holds no "{{", which kgateway's
// envoyinit would take for a template.
func (s stack) bootstrap() (string, error) {
	route, clusters := s.plainRoute(), []any{s.decodeCluster()}
	filters := []any{routerFilter()}
	if s.epp.enabled {
		route, clusters = pickedRoute(), []any{chosenCluster(), s.pickerCluster()}
		filters = []any{pickerFilter(), routerFilter()}
	}
	text, err := yaml.Marshal(map[string]any{
		"admin": map[string]any{"address": address("0.0.0.0", gatewayAdminPort)},
		"static_resources": map[string]any{
			"listeners": []any{map[string]any{
				"name":          "http",
				"address":       address("0.0.0.0", gatewayPort),
				"filter_chains": []any{map[string]any{"filters": []any{connectionManager(route, filters)}}},
			}},
			"clusters": clusters,
		},
	})
	return string(text), err
}

func address(host string, port int32) map[string]any {
	return map[string]any{"socket_address": map[string]any{"address": host, "port_value": port}}
}

// typed is an extension by its name and its message's type.
func typed(name, message string, fields map[string]any) map[string]any {
	fields["@type"] = typeURL + message
	return map[string]any{"name": name, "typed_config": fields}
}

func connectionManager(route map[string]any, filters []any) map[string]any {
	return typed("envoy.filters.network.http_connection_manager",
		"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		map[string]any{
			"stat_prefix": "http",
			"codec_type":  "AUTO",
			// A model may think for long before its first token, but not for an hour.
			"stream_idle_timeout": "3600s",
			// A client that keeps its connection would stay with a gateway that is about
			// to end: every response of an older connection asks it to connect anew.
			"common_http_protocol_options":       map[string]any{"max_connection_duration": connectionDuration},
			"http1_safe_max_connection_duration": true,
			"access_log": []any{typed("envoy.access_loggers.stdout",
				"envoy.extensions.access_loggers.stream.v3.StdoutAccessLog", map[string]any{})},
			"route_config": map[string]any{
				"name":          "inference",
				"virtual_hosts": []any{map[string]any{"name": "inference", "domains": []any{"*"}, "routes": []any{route}}},
			},
			"http_filters": filters,
		})
}

func routerFilter() map[string]any {
	return typed("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router", map[string]any{})
}

// pickerFilter hands each request to the picker, which answers only after the end
// of its body: nothing but bodies in full duplex works.
func pickerFilter() map[string]any {
	return typed("envoy.filters.http.ext_proc", "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
		map[string]any{
			"grpc_service":    map[string]any{"envoy_grpc": map[string]any{"cluster_name": clusterPicker}},
			"message_timeout": "10s",
			"processing_mode": map[string]any{
				"request_header_mode":   "SEND",
				"request_body_mode":     "FULL_DUPLEX_STREAMED",
				"request_trailer_mode":  "SEND",
				"response_header_mode":  "SEND",
				"response_body_mode":    "FULL_DUPLEX_STREAMED",
				"response_trailer_mode": "SEND",
			},
		})
}

// pickedRoute has no limit of time: an answer streams as long as it streams.
func pickedRoute() map[string]any {
	return map[string]any{
		"match": map[string]any{"prefix": "/"},
		"route": map[string]any{"cluster": clusterChosen, "timeout": "0s"},
	}
}

// plainRoute drops what only a picker may say: a client could else send the
// routing sidecar to any address.
func (s stack) plainRoute() map[string]any {
	return map[string]any{
		"match":                     map[string]any{"prefix": "/"},
		"request_headers_to_remove": []any{headerDestination, headerPrefiller},
		"route": map[string]any{
			"cluster": clusterDecode,
			"timeout": "0s",
			// Only what certainly never reached a server is tried again.
			"retry_policy": map[string]any{"retry_on": "connect-failure,refused-stream", "num_retries": 2},
		},
	}
}

// chosenCluster goes wherever the picker says. It must never stand in a
// configuration without the picker's filter.
func chosenCluster() map[string]any {
	return map[string]any{
		"name":                   clusterChosen,
		"type":                   "ORIGINAL_DST",
		"lb_policy":              "CLUSTER_PROVIDED",
		"connect_timeout":        "5s",
		"circuit_breakers":       circuitBreakers(),
		"original_dst_lb_config": map[string]any{"use_http_header": true, "http_header_name": headerDestination},
	}
}

func (s stack) pickerCluster() map[string]any {
	return s.serviceCluster(clusterPicker, s.epp.name, s.epp.port, map[string]any{
		"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
	})
}

// decodeCluster opens a connection for each request: the Service spreads
// connections, and one that stays would pin its requests to one pod.
func (s stack) decodeCluster() map[string]any {
	name, port := s.front()
	return s.serviceCluster(clusterDecode, name, port, map[string]any{
		"explicit_http_config":         map[string]any{"http_protocol_options": map[string]any{}},
		"common_http_protocol_options": map[string]any{"max_requests_per_connection": 1},
	})
}

// serviceCluster is a cluster with a Service as its one member, which finds its
// pods itself and at once.
func (s stack) serviceCluster(cluster, service string, port int32, options map[string]any) map[string]any {
	options["@type"] = typeURL + "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	return map[string]any{
		"name":             cluster,
		"type":             "STRICT_DNS",
		"lb_policy":        "ROUND_ROBIN",
		"connect_timeout":  "5s",
		"circuit_breakers": circuitBreakers(),
		"load_assignment": map[string]any{
			"cluster_name": cluster,
			"endpoints": []any{map[string]any{"lb_endpoints": []any{map[string]any{
				"endpoint": map[string]any{"address": address(service+"."+s.namespace+".svc", port)},
			}}}},
		},
		"typed_extension_protocol_options": map[string]any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options,
		},
	}
}

func circuitBreakers() map[string]any {
	return map[string]any{"thresholds": []any{map[string]any{
		"max_connections": maxInFlight, "max_pending_requests": maxInFlight, "max_requests": maxInFlight,
	}}}
}
