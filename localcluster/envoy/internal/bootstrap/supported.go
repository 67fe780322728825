package bootstrap

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// supported lists, for each message that may stand in a bootstrap, the fields
// that the stand-in honours. A field that is set and not listed here is refused,
// because a proxy that passes over what it was told to do proves nothing.
var supported = map[protoreflect.FullName]string{
	"envoy.config.bootstrap.v3.Bootstrap":                 "node admin static_resources overload_manager",
	"envoy.config.bootstrap.v3.Admin":                     "address",
	"envoy.config.bootstrap.v3.Bootstrap.StaticResources": "listeners clusters",
	"envoy.config.core.v3.Node":                           "id cluster",
	"envoy.config.core.v3.Address":                        "socket_address",
	"envoy.config.core.v3.SocketAddress":                  "protocol address port_value",

	"envoy.config.overload.v3.OverloadManager":                                                 "resource_monitors",
	"envoy.config.overload.v3.ResourceMonitor":                                                 "name typed_config",
	"envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig": "max_active_downstream_connections",

	"envoy.config.listener.v3.Listener":    "name address filter_chains stat_prefix per_connection_buffer_limit_bytes",
	"envoy.config.listener.v3.FilterChain": "name filters",
	"envoy.config.listener.v3.Filter":      "name typed_config",

	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager": "codec_type stat_prefix route_config http_filters " +
		"access_log use_remote_address generate_request_id preserve_external_request_id request_timeout stream_idle_timeout " +
		"common_http_protocol_options http1_safe_max_connection_duration http2_protocol_options max_request_headers_kb server_name",
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter": "name typed_config",
	"envoy.config.accesslog.v3.AccessLog":                                    "name typed_config",
	"envoy.extensions.access_loggers.file.v3.FileAccessLog":                  "path",
	"envoy.extensions.access_loggers.stream.v3.StdoutAccessLog":              "",
	"envoy.extensions.access_loggers.stream.v3.StderrAccessLog":              "",
	"envoy.config.core.v3.HttpProtocolOptions":                               "idle_timeout max_requests_per_connection max_connection_duration",
	"envoy.config.core.v3.Http1ProtocolOptions":                              "",
	"envoy.config.core.v3.Http2ProtocolOptions":                              "max_concurrent_streams",

	"envoy.config.route.v3.RouteConfiguration":                  "name virtual_hosts",
	"envoy.config.route.v3.VirtualHost":                         "name domains routes",
	"envoy.config.route.v3.Route":                               "name match route direct_response request_headers_to_remove",
	"envoy.config.route.v3.RouteMatch":                          "prefix path safe_regex headers",
	"envoy.config.route.v3.HeaderMatcher":                       "name present_match string_match invert_match",
	"envoy.type.matcher.v3.StringMatcher":                       "exact prefix suffix contains safe_regex",
	"envoy.type.matcher.v3.RegexMatcher":                        "regex google_re2",
	"envoy.type.matcher.v3.RegexMatcher.GoogleRE2":              "",
	"envoy.config.route.v3.RouteAction":                         "cluster timeout idle_timeout retry_policy",
	"envoy.config.route.v3.RetryPolicy":                         "retry_on num_retries per_try_timeout retriable_status_codes",
	"envoy.config.route.v3.DirectResponseAction":                "status body",
	"envoy.config.core.v3.DataSource":                           "inline_string",
	"envoy.extensions.filters.http.router.v3.Router":            "",
	"envoy.extensions.filters.http.health_check.v3.HealthCheck": "pass_through_mode headers",

	"envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor": "grpc_service processing_mode failure_mode_allow " +
		"message_timeout metadata_options",
	"envoy.extensions.filters.http.ext_proc.v3.ProcessingMode": "request_header_mode response_header_mode " +
		"request_body_mode response_body_mode request_trailer_mode response_trailer_mode",
	"envoy.extensions.filters.http.ext_proc.v3.MetadataOptions":                    "receiving_namespaces",
	"envoy.extensions.filters.http.ext_proc.v3.MetadataOptions.MetadataNamespaces": "untyped",
	"envoy.config.core.v3.GrpcService":                                             "envoy_grpc timeout",
	"envoy.config.core.v3.GrpcService.EnvoyGrpc":                                   "cluster_name authority",

	"envoy.config.cluster.v3.Cluster": "name type connect_timeout lb_policy load_assignment dns_refresh_rate dns_lookup_family " +
		"original_dst_lb_config typed_extension_protocol_options circuit_breakers transport_socket health_checks " +
		"per_connection_buffer_limit_bytes",
	"envoy.config.cluster.v3.Cluster.OriginalDstLbConfig": "use_http_header http_header_name",
	"envoy.config.cluster.v3.CircuitBreakers":             "thresholds",
	"envoy.config.cluster.v3.CircuitBreakers.Thresholds":  "priority max_connections max_pending_requests max_requests max_retries",
	"envoy.config.endpoint.v3.ClusterLoadAssignment":      "cluster_name endpoints",
	"envoy.config.endpoint.v3.LocalityLbEndpoints":        "lb_endpoints",
	"envoy.config.endpoint.v3.LbEndpoint":                 "endpoint",
	"envoy.config.endpoint.v3.Endpoint":                   "address",
	"envoy.config.core.v3.HealthCheck":                    "timeout interval unhealthy_threshold healthy_threshold http_health_check",
	"envoy.config.core.v3.HealthCheck.HttpHealthCheck":    "host path",
	"envoy.config.core.v3.TransportSocket":                "name typed_config",

	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions":                    "explicit_http_config common_http_protocol_options",
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig": "http_protocol_options http2_protocol_options",
	"envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext":              "common_tls_context sni",
	"envoy.extensions.transport_sockets.tls.v3.CommonTlsContext":                "validation_context alpn_protocols",
	"envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext":    "",
}

// refuseUnsupported walks every field that is set below message, opens each Any
// on the way, validates what is in it, and fails at the first field that the
// stand-in doesn't honour.
func refuseUnsupported(message protoreflect.Message, path string) error {
	name := message.Descriptor().FullName()
	if strings.HasPrefix(string(name), "google.protobuf.") {
		return nil
	}
	listed, known := supported[name]
	if !known {
		return unsupported(path, "a message of type "+string(name))
	}
	fields := strings.Fields(listed)
	// In the order of the declaration, so that the same text gives the same line.
	declared := message.Descriptor().Fields()
	for i := range declared.Len() {
		field := declared.Get(i)
		if !message.Has(field) {
			continue
		}
		at := join(path, field.TextName())
		if !slices.Contains(fields, field.TextName()) {
			return unsupported(at, "this field")
		}
		if err := each(message.Get(field), field, at, refuseUnsupportedIn); err != nil {
			return err
		}
	}
	return nil
}

// refuseUnsupportedIn goes on into a message, or into what an Any holds.
func refuseUnsupportedIn(message protoreflect.Message, path string) error {
	packed, ok := message.Interface().(*anypb.Any)
	if !ok {
		return refuseUnsupported(message, path)
	}
	inner, err := packed.UnmarshalNew()
	if err != nil {
		return &Error{path, err.Error()}
	}
	if err := validate(inner, path); err != nil {
		return err
	}
	return refuseUnsupported(inner.ProtoReflect(), path)
}

// each calls visit for every message in a field: one, a list or a map of them.
func each(value protoreflect.Value, field protoreflect.FieldDescriptor, path string, visit func(protoreflect.Message, string) error) error {
	switch {
	case field.IsMap():
		if field.MapValue().Message() == nil {
			return nil
		}
		var failed error
		value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			failed = visit(value.Message(), path+"["+key.String()+"]")
			return failed == nil
		})
		return failed
	case field.Message() == nil:
		return nil
	case field.IsList():
		for i := range value.List().Len() {
			if err := visit(value.List().Get(i).Message(), index(path, i)); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(value.Message(), path)
}
