package bootstrap

import (
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// Envoy's defaults, from the documents of its connection manager and of ext_proc.
const (
	defaultStreamIdle     = 5 * time.Minute
	defaultConnectionIdle = time.Hour
	defaultMessageTimeout = 200 * time.Millisecond
	defaultHeaderKiB      = 60
	defaultStreams        = 1024
	defaultServerName     = "envoy"
)

func readListener(message *listenerv3.Listener, path string) (Listener, error) {
	listener := Listener{Name: message.GetName()}
	var err error
	if listener.Address, err = socket(message.GetAddress(), join(path, "address")); err != nil {
		return Listener{}, err
	}
	if listener.Name == "" {
		listener.Name = listener.Address
	}
	chains := message.GetFilterChains()
	if len(chains) != 1 {
		return Listener{}, fault(join(path, "filter_chains"), "has %d filter chains; the stand-in honours exactly one", len(chains))
	}
	path = index(join(path, "filter_chains"), 0)
	filters := chains[0].GetFilters()
	if len(filters) != 1 {
		return Listener{}, fault(join(path, "filters"), "has %d filters; the stand-in honours exactly one, the HTTP connection manager", len(filters))
	}
	path = index(join(path, "filters"), 0)
	manager := &managerv3.HttpConnectionManager{}
	if err := unpack(filters[0].GetTypedConfig(), manager, path); err != nil {
		return Listener{}, err
	}
	listener.HTTP, err = readManager(manager, join(path, "typed_config"))
	return listener, err
}

func readManager(message *managerv3.HttpConnectionManager, path string) (HTTP, error) {
	http := HTTP{
		StatPrefix:            message.GetStatPrefix(),
		ServerName:            message.GetServerName(),
		UseRemoteAddress:      message.GetUseRemoteAddress().GetValue(),
		GenerateRequestID:     message.GetGenerateRequestId() == nil || message.GetGenerateRequestId().GetValue(),
		PreserveRequestID:     message.GetPreserveExternalRequestId(),
		RequestTimeout:        duration(message.GetRequestTimeout(), 0),
		StreamIdleTimeout:     duration(message.GetStreamIdleTimeout(), defaultStreamIdle),
		ConnectionIdleTimeout: duration(message.GetCommonHttpProtocolOptions().GetIdleTimeout(), defaultConnectionIdle),
		MaxHeaderBytes:        number(message.GetMaxRequestHeadersKb(), defaultHeaderKiB) << 10,
		MaxConcurrentStreams:  number(message.GetHttp2ProtocolOptions().GetMaxConcurrentStreams(), defaultStreams),
	}
	if http.ServerName == "" {
		http.ServerName = defaultServerName
	}
	switch message.GetCodecType() {
	case managerv3.HttpConnectionManager_AUTO:
		http.Codec = Auto
	case managerv3.HttpConnectionManager_HTTP1:
		http.Codec = HTTP1
	case managerv3.HttpConnectionManager_HTTP2:
		http.Codec = HTTP2
	default:
		return HTTP{}, unsupported(join(path, "codec_type"), message.GetCodecType().String())
	}
	if message.GetCommonHttpProtocolOptions().GetMaxRequestsPerConnection() != nil {
		return HTTP{}, unsupported(join(path, "common_http_protocol_options.max_requests_per_connection"), "it downstream")
	}
	http.MaxConnectionDuration = duration(message.GetCommonHttpProtocolOptions().GetMaxConnectionDuration(), 0)
	if http.MaxConnectionDuration > 0 && !message.GetHttp1SafeMaxConnectionDuration() {
		return HTTP{}, unsupported(join(path, "common_http_protocol_options.max_connection_duration"), "it without http1_safe_max_connection_duration")
	}
	if message.GetRouteConfig() == nil {
		return HTTP{}, fault(join(path, "route_config"), "is missing, and the stand-in knows no other source of routes")
	}
	var err error
	if http.VirtualHosts, err = readVirtualHosts(message.GetRouteConfig(), join(path, "route_config")); err != nil {
		return HTTP{}, err
	}
	if http.AccessLogs, err = readAccessLogs(message.GetAccessLog(), join(path, "access_log")); err != nil {
		return HTTP{}, err
	}
	return http, http.readFilters(message.GetHttpFilters(), join(path, "http_filters"))
}

func readAccessLogs(messages []*accesslogv3.AccessLog, path string) ([]string, error) {
	var files []string
	for i, message := range messages {
		at := index(path, i)
		file := &filev3.FileAccessLog{}
		switch packed := message.GetTypedConfig(); {
		case packed.MessageIs(&streamv3.StdoutAccessLog{}):
			files = append(files, "/dev/stdout")
		case packed.MessageIs(&streamv3.StderrAccessLog{}):
			files = append(files, "/dev/stderr")
		default:
			if err := unpack(packed, file, at); err != nil {
				return nil, err
			}
			if file.GetPath() != "/dev/stdout" && file.GetPath() != "/dev/stderr" {
				return nil, unsupported(join(at, "typed_config.path"), "any file but /dev/stdout and /dev/stderr")
			}
			files = append(files, file.GetPath())
		}
	}
	return files, nil
}

// readFilters takes the HTTP filters in their only order: a health check, the
// processor, the router at the end.
func (h *HTTP) readFilters(messages []*managerv3.HttpFilter, path string) error {
	for i, message := range messages {
		at := index(path, i)
		packed := message.GetTypedConfig()
		last := i == len(messages)-1
		switch {
		case packed.MessageIs(&routerv3.Router{}):
			if !last {
				return fault(at, "the router must be the last filter")
			}
			return nil
		case packed.MessageIs(&healthv3.HealthCheck{}) && h.HealthCheck == nil && h.Processor == nil:
			if err := h.readHealthCheck(message, at); err != nil {
				return err
			}
		case h.Processor != nil:
			return unsupported(at, "a filter between ext_proc and the router")
		default:
			if err := h.readProcessor(message, at); err != nil {
				return err
			}
		}
	}
	return fault(path, "must end with the router filter")
}

func (h *HTTP) readHealthCheck(message *managerv3.HttpFilter, path string) error {
	filter := &healthv3.HealthCheck{}
	if err := unpack(message.GetTypedConfig(), filter, path); err != nil {
		return err
	}
	path = join(path, "typed_config")
	if filter.GetPassThroughMode().GetValue() {
		return unsupported(join(path, "pass_through_mode"), "true")
	}
	headers, err := readHeaderMatches(filter.GetHeaders(), join(path, "headers"))
	if err != nil {
		return err
	}
	h.HealthCheck = &HealthCheckFilter{headers}
	return nil
}

func (h *HTTP) readProcessor(message *managerv3.HttpFilter, path string) error {
	filter := &extprocv3.ExternalProcessor{}
	if err := unpack(message.GetTypedConfig(), filter, path); err != nil {
		return err
	}
	path = join(path, "typed_config")
	service := filter.GetGrpcService().GetEnvoyGrpc()
	if service == nil {
		return fault(join(path, "grpc_service.envoy_grpc"), "is missing")
	}
	processor := &Processor{
		Cluster:        service.GetClusterName(),
		Authority:      service.GetAuthority(),
		MessageTimeout: duration(filter.GetMessageTimeout(), defaultMessageTimeout),
	}
	if processor.Authority == "" {
		processor.Authority = processor.Cluster
	}
	mode := filter.GetProcessingMode()
	var err error
	at := join(path, "processing_mode")
	processor.Request, err = processing(at, "request", mode.GetRequestHeaderMode(), mode.GetRequestBodyMode(), mode.GetRequestTrailerMode())
	if err != nil {
		return err
	}
	processor.Response, err = processing(at, "response", mode.GetResponseHeaderMode(), mode.GetResponseBodyMode(), mode.GetResponseTrailerMode())
	if err != nil {
		return err
	}
	if filter.GetFailureModeAllow() {
		return fault(join(path, "failure_mode_allow"), "must be false: with FULL_DUPLEX_STREAMED Envoy can't let a request pass whose processor failed")
	}
	h.Processor = processor
	return nil
}

// processing reads one direction of a processing mode, with Envoy's own rules on
// what goes together.
func processing(path, direction string, headers extprocv3.ProcessingMode_HeaderSendMode, body extprocv3.ProcessingMode_BodySendMode,
	trailers extprocv3.ProcessingMode_HeaderSendMode) (Processing, error) {
	result := Processing{
		Headers:  headers != extprocv3.ProcessingMode_SKIP,
		Trailers: trailers == extprocv3.ProcessingMode_SEND,
	}
	at := func(field string) string { return path + "." + direction + "_" + field }
	switch body {
	case extprocv3.ProcessingMode_NONE:
		if result.Trailers {
			return result, unsupported(at("trailer_mode"), "SEND without FULL_DUPLEX_STREAMED bodies")
		}
	case extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED:
		result.Body = FullDuplex
		if !result.Trailers {
			return result, fault(at("trailer_mode"), "must be SEND if the body mode is FULL_DUPLEX_STREAMED")
		}
		if !result.Headers {
			return result, unsupported(at("header_mode"), "SKIP with FULL_DUPLEX_STREAMED")
		}
	default:
		return result, unsupported(at("body_mode"), body.String())
	}
	return result, nil
}
