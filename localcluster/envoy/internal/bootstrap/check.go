package bootstrap

import (
	"fmt"
	"strings"
)

// check holds what no field says alone: names that are used exist once, and what
// is used suits its use.
func (c *Config) check() error {
	clusters := map[string]Cluster{}
	for i, cluster := range c.Clusters {
		if _, twice := clusters[cluster.Name]; twice {
			return fault(index("static_resources.clusters", i)+".name", "%q is the name of two clusters", cluster.Name)
		}
		clusters[cluster.Name] = cluster
	}
	addresses := map[string]bool{c.Admin: c.Admin != ""}
	for i, listener := range c.Listeners {
		path := index("static_resources.listeners", i)
		if addresses[listener.Address] && !strings.HasSuffix(listener.Address, ":0") {
			return fault(path+".address", "%s is listened on twice", listener.Address)
		}
		addresses[listener.Address] = true
		if err := listener.HTTP.check(clusters, path+".filter_chains[0].filters[0].typed_config"); err != nil {
			return err
		}
	}
	return nil
}

func (h *HTTP) check(clusters map[string]Cluster, path string) error {
	if h.Processor != nil {
		at := path + ".http_filters: ext_proc: grpc_service.envoy_grpc.cluster_name"
		cluster, exists := clusters[h.Processor.Cluster]
		switch {
		case !exists:
			return fault(at, "there is no cluster %q", h.Processor.Cluster)
		case cluster.Discovery == OriginalDst:
			return fault(at, "%q is of type ORIGINAL_DST, and a processor can't be found through a header", cluster.Name)
		case !cluster.HTTP2:
			return fault(at, "gRPC needs HTTP/2: give cluster %q explicit_http_config.http2_protocol_options", cluster.Name)
		}
	}
	for i, host := range h.VirtualHosts {
		for j, route := range host.Routes {
			at := fmt.Sprintf("%s.route_config.virtual_hosts[%d].routes[%d].route.cluster", path, i, j)
			if err := h.checkRoute(route, clusters, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRoute refuses a route to an address that the client itself could choose:
// only a processor that sees every request's headers sets the header that an
// ORIGINAL_DST cluster goes by.
func (h *HTTP) checkRoute(route Route, clusters map[string]Cluster, path string) error {
	if route.Direct != nil {
		return nil
	}
	cluster, exists := clusters[route.Cluster]
	if !exists {
		return fault(path, "there is no cluster %q", route.Cluster)
	}
	if cluster.Discovery == OriginalDst && (h.Processor == nil || !h.Processor.Request.Headers) {
		return fault(path, "%q takes its address from header %s, and no ext_proc filter that sees request headers stands before it: "+
			"any client could send requests to any address", cluster.Name, cluster.Header)
	}
	return nil
}
