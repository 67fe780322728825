package cluster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
)

// Resolver finds the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolveTimeout bounds one question to the resolver.
const resolveTimeout = 5 * time.Second

// maxHosts bounds the addresses that are taken for a cluster.
const maxHosts = 4096

// resolve finds the addresses of all hosts of a cluster, sorted. It fails only
// if a name's addresses can't be known now; a name without addresses gives none.
func resolve(ctx context.Context, resolver Resolver, config bootstrap.Cluster) ([]string, error) {
	var found []string
	for _, host := range config.Hosts {
		if ip, err := netip.ParseAddr(host.Address); err == nil {
			found = append(found, netip.AddrPortFrom(ip, uint16(host.Port)).String()) //nolint:gosec // Envoy's rules bound a port to 65535
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		addresses, err := lookup(ctx, resolver, host.Address, config.Family)
		cancel()
		if err != nil {
			return nil, err
		}
		if config.Discovery == bootstrap.LogicalDNS && len(addresses) > 1 {
			addresses = addresses[:1]
		}
		for _, address := range addresses {
			found = append(found, net.JoinHostPort(address.Unmap().String(), strconv.Itoa(host.Port)))
		}
	}
	if config.Discovery != bootstrap.LogicalDNS {
		slices.Sort(found)
		found = slices.Compact(found)
	}
	return found[:min(len(found), maxHosts)], nil
}

// lookup asks for the families of addresses in the order of preference.
func lookup(ctx context.Context, resolver Resolver, name string, family bootstrap.Family) ([]netip.Addr, error) {
	networks := map[bootstrap.Family][]string{
		bootstrap.FamilyAuto:        {"ip6", "ip4"},
		bootstrap.FamilyV4Only:      {"ip4"},
		bootstrap.FamilyV6Only:      {"ip6"},
		bootstrap.FamilyV4Preferred: {"ip4", "ip6"},
		bootstrap.FamilyAll:         {"ip"},
	}[family]
	var failed error
	for _, network := range networks {
		addresses, err := resolver.LookupNetIP(ctx, network, name)
		if len(addresses) > 0 {
			return addresses, nil
		}
		var dns *net.DNSError
		var address *net.AddrError
		if err != nil && !errors.As(err, &address) && (!errors.As(err, &dns) || !dns.IsNotFound) {
			failed = err
		}
	}
	return nil, failed
}
