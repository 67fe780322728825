package bootstrap

import (
	"net"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Envoy's defaults, from the documents of its cluster messages.
const (
	defaultConnectTimeout = 5 * time.Second
	defaultDNSRefresh     = 5 * time.Second
	defaultBreaker        = 1024
	defaultMaxRetries     = 3
	defaultOriginalHeader = "x-envoy-original-dst-host"
	httpOptionsKey        = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
)

func readCluster(message *clusterv3.Cluster, path string) (Cluster, error) {
	cluster := Cluster{
		Name:           message.GetName(),
		ConnectTimeout: duration(message.GetConnectTimeout(), defaultConnectTimeout),
		DNSRefresh:     duration(message.GetDnsRefreshRate(), defaultDNSRefresh),
		IdleTimeout:    defaultConnectionIdle,
	}
	steps := []func(*clusterv3.Cluster, string) error{
		cluster.readDiscovery, cluster.readPolicy, cluster.readFamily, cluster.readHosts,
		cluster.readBreakers, cluster.readProtocol, cluster.readTLS, cluster.readHealthCheck,
	}
	for _, step := range steps {
		if err := step(message, path); err != nil {
			return Cluster{}, err
		}
	}
	return cluster, nil
}

func (c *Cluster) readDiscovery(message *clusterv3.Cluster, path string) error {
	kinds := map[clusterv3.Cluster_DiscoveryType]Discovery{
		clusterv3.Cluster_STATIC:       Static,
		clusterv3.Cluster_STRICT_DNS:   StrictDNS,
		clusterv3.Cluster_LOGICAL_DNS:  LogicalDNS,
		clusterv3.Cluster_ORIGINAL_DST: OriginalDst,
	}
	kind, known := kinds[message.GetType()]
	if !known {
		return unsupported(join(path, "type"), message.GetType().String())
	}
	c.Discovery = kind
	settings := message.GetOriginalDstLbConfig()
	if kind != OriginalDst {
		if settings != nil {
			return fault(join(path, "original_dst_lb_config"), "belongs to a cluster of type ORIGINAL_DST")
		}
		return nil
	}
	if !settings.GetUseHttpHeader() {
		return unsupported(join(path, "original_dst_lb_config.use_http_header"), "an ORIGINAL_DST cluster without it")
	}
	if c.Header = settings.GetHttpHeaderName(); c.Header == "" {
		c.Header = defaultOriginalHeader
	}
	return nil
}

func (c *Cluster) readPolicy(message *clusterv3.Cluster, path string) error {
	policies := map[clusterv3.Cluster_LbPolicy]Policy{
		clusterv3.Cluster_ROUND_ROBIN:      RoundRobin,
		clusterv3.Cluster_LEAST_REQUEST:    LeastRequest,
		clusterv3.Cluster_RANDOM:           Random,
		clusterv3.Cluster_CLUSTER_PROVIDED: ClusterProvided,
	}
	policy, known := policies[message.GetLbPolicy()]
	if !known {
		return unsupported(join(path, "lb_policy"), message.GetLbPolicy().String())
	}
	if (policy == ClusterProvided) != (c.Discovery == OriginalDst) {
		return fault(join(path, "lb_policy"), "CLUSTER_PROVIDED goes with type ORIGINAL_DST, and only with it")
	}
	c.Policy = policy
	return nil
}

func (c *Cluster) readFamily(message *clusterv3.Cluster, path string) error {
	families := map[clusterv3.Cluster_DnsLookupFamily]Family{
		clusterv3.Cluster_AUTO:         FamilyAuto,
		clusterv3.Cluster_V4_ONLY:      FamilyV4Only,
		clusterv3.Cluster_V6_ONLY:      FamilyV6Only,
		clusterv3.Cluster_V4_PREFERRED: FamilyV4Preferred,
		clusterv3.Cluster_ALL:          FamilyAll,
	}
	family, known := families[message.GetDnsLookupFamily()]
	if !known {
		return unsupported(join(path, "dns_lookup_family"), message.GetDnsLookupFamily().String())
	}
	c.Family = family
	return nil
}

func (c *Cluster) readHosts(message *clusterv3.Cluster, path string) error {
	for i, locality := range message.GetLoadAssignment().GetEndpoints() {
		for j, endpoint := range locality.GetLbEndpoints() {
			at := index(index(path+".load_assignment.endpoints", i)+".lb_endpoints", j) + ".endpoint.address"
			host, port, err := hostPort(endpoint.GetEndpoint().GetAddress(), at)
			if err != nil {
				return err
			}
			if c.Discovery == Static && net.ParseIP(host) == nil {
				return fault(at+".socket_address.address", "%q is no IP address; a name needs type STRICT_DNS or LOGICAL_DNS", host)
			}
			c.Hosts = append(c.Hosts, Host{host, port})
		}
	}
	at := join(path, "load_assignment")
	switch {
	case len(c.Hosts) > maxItems:
		return fault(at, "has %d endpoints; at most %d are honoured", len(c.Hosts), maxItems)
	case c.Discovery == OriginalDst && message.GetLoadAssignment() != nil:
		return fault(at, "an ORIGINAL_DST cluster must have none")
	case c.Discovery == LogicalDNS && len(c.Hosts) != 1:
		return fault(at, "a LOGICAL_DNS cluster must have exactly one endpoint, not %d", len(c.Hosts))
	}
	return nil
}

func (c *Cluster) readBreakers(message *clusterv3.Cluster, path string) error {
	c.MaxConnections, c.MaxPending, c.MaxRequests, c.MaxRetries = defaultBreaker, defaultBreaker, defaultBreaker, defaultMaxRetries
	for i, threshold := range message.GetCircuitBreakers().GetThresholds() {
		at := index(join(path, "circuit_breakers.thresholds"), i)
		if threshold.GetPriority() != corev3.RoutingPriority_DEFAULT {
			return unsupported(join(at, "priority"), threshold.GetPriority().String())
		}
		c.MaxConnections = number(threshold.GetMaxConnections(), c.MaxConnections)
		c.MaxPending = number(threshold.GetMaxPendingRequests(), c.MaxPending)
		c.MaxRequests = number(threshold.GetMaxRequests(), c.MaxRequests)
		c.MaxRetries = number(threshold.GetMaxRetries(), c.MaxRetries)
	}
	return nil
}

func (c *Cluster) readProtocol(message *clusterv3.Cluster, path string) error {
	for key, packed := range message.GetTypedExtensionProtocolOptions() {
		at := path + ".typed_extension_protocol_options[" + key + "]"
		if key != httpOptionsKey {
			return unsupported(at, "these options")
		}
		options := &httpv3.HttpProtocolOptions{}
		if !packed.MessageIs(options) {
			return fault(at, "must be of type %s", httpOptionsKey)
		}
		if err := packed.UnmarshalTo(options); err != nil {
			return fault(at, "%s", oneLine(err.Error()))
		}
		c.HTTP2 = options.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil
		common := options.GetCommonHttpProtocolOptions()
		c.IdleTimeout = duration(common.GetIdleTimeout(), defaultConnectionIdle)
		if common.GetMaxConnectionDuration() != nil {
			return unsupported(at+".common_http_protocol_options.max_connection_duration", "it upstream")
		}
		if limit := common.GetMaxRequestsPerConnection().GetValue(); limit > 1 || (limit == 1 && c.HTTP2) {
			return unsupported(at+".common_http_protocol_options.max_requests_per_connection", "any but 1, or any with HTTP/2")
		} else if limit == 1 {
			c.OneRequest = true
		}
	}
	return nil
}

func (c *Cluster) readTLS(message *clusterv3.Cluster, path string) error {
	if message.GetTransportSocket() == nil {
		return nil
	}
	settings := &tlsv3.UpstreamTlsContext{}
	if err := unpack(message.GetTransportSocket().GetTypedConfig(), settings, join(path, "transport_socket")); err != nil {
		return err
	}
	c.TLS = &TLS{ServerName: settings.GetSni(), ALPN: settings.GetCommonTlsContext().GetAlpnProtocols()}
	return nil
}

func (c *Cluster) readHealthCheck(message *clusterv3.Cluster, path string) error {
	checks := message.GetHealthChecks()
	if len(checks) == 0 {
		return nil
	}
	at := index(join(path, "health_checks"), 0)
	check := checks[0].GetHttpHealthCheck()
	switch {
	case len(checks) > 1:
		return unsupported(index(join(path, "health_checks"), 1), "a second health check")
	case check == nil:
		return unsupported(at, "any but an http_health_check")
	case c.Discovery == OriginalDst:
		return unsupported(at, "health checks of an ORIGINAL_DST cluster")
	}
	c.HealthCheck = &HealthCheck{
		Path: check.GetPath(), Host: check.GetHost(),
		Timeout: checks[0].GetTimeout().AsDuration(), Interval: checks[0].GetInterval().AsDuration(),
		Unhealthy: number(checks[0].GetUnhealthyThreshold(), 1), Healthy: number(checks[0].GetHealthyThreshold(), 1),
	}
	return nil
}

func number(value *wrapperspb.UInt32Value, unset int) int {
	if value == nil {
		return unset
	}
	return int(value.GetValue())
}
