// Package cluster keeps the upstreams: it learns their hosts, chooses one for a
// request, and connects. It knows nothing of routes or of downstream requests.
package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/stats"
)

// What keeps a request from an upstream.
var (
	ErrNoHost   = errors.New("no healthy upstream")
	ErrOverflow = errors.New("overflow")
	// ErrConnect wraps what a failed attempt to connect ends in.
	ErrConnect = errors.New("connect")
)

// Host is one address of a cluster.
type Host struct {
	Address string
	Active  atomic.Int64
	Total   atomic.Int64
	Errors  atomic.Int64
	// failed is set while an active health check says so.
	failed atomic.Bool
}

// Healthy tells whether requests may go there.
func (h *Host) Healthy() bool { return !h.failed.Load() }

// Cluster is one upstream. It is safe for concurrent use.
type Cluster struct {
	bootstrap.Cluster

	resolver  Resolver
	scope     *stats.Scope
	transport *http.Transport
	dialer    net.Dialer
	slots     *slots

	turn  atomic.Uint64
	hosts atomic.Pointer[[]*Host]
	wake  chan struct{}

	mutex     sync.Mutex
	originals map[string]*Host
	watchers  []func([]string)
	retries   atomic.Int64

	requests, connects, connectFails, none, overflow *stats.Value
	updates, failures                                *stats.Value
}

// New makes a cluster that has no hosts yet, except a STATIC one.
func New(config bootstrap.Cluster, resolver Resolver, store *stats.Store) *Cluster {
	scope := store.Cluster(config.Name)
	c := &Cluster{
		Cluster: config, resolver: resolver, scope: scope,
		dialer:    net.Dialer{Timeout: config.ConnectTimeout},
		wake:      make(chan struct{}, 1),
		originals: map[string]*Host{},
		requests:  scope.Counter("upstream_rq_total"), connects: scope.Counter("upstream_cx_total"),
		connectFails: scope.Counter("upstream_cx_connect_fail"), none: scope.Counter("upstream_cx_none_healthy"),
		overflow: scope.Counter("upstream_rq_pending_overflow"),
		updates:  scope.Counter("update_success"), failures: scope.Counter("update_failure"),
	}
	limit, pending := config.MaxConnections, config.MaxPending
	if config.HTTP2 {
		limit, pending = config.MaxRequests, 0
	}
	c.slots = newSlots(limit, pending)
	c.transport = c.newTransport()
	c.hosts.Store(&[]*Host{})
	scope.Gauge("membership_total").Set(0)
	scope.Gauge("membership_healthy").Set(0)
	if config.Discovery == bootstrap.Static {
		addresses, _ := resolve(context.Background(), resolver, config)
		c.setHosts(addresses)
	}
	return c
}

func (c *Cluster) newTransport() *http.Transport {
	transport := &http.Transport{
		DialContext:            c.Dial,
		DisableCompression:     true,
		MaxIdleConns:           c.MaxConnections,
		MaxIdleConnsPerHost:    c.MaxConnections,
		IdleConnTimeout:        c.IdleTimeout,
		DisableKeepAlives:      c.OneRequest,
		TLSClientConfig:        c.TLSConfig(),
		TLSHandshakeTimeout:    c.ConnectTimeout,
		MaxResponseHeaderBytes: 60 << 10,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
		Protocols:              new(http.Protocols),
	}
	switch {
	case c.HTTP2 && c.TLS != nil:
		transport.Protocols.SetHTTP2(true)
	case c.HTTP2:
		transport.Protocols.SetUnencryptedHTTP2(true)
	default:
		transport.Protocols.SetHTTP1(true)
	}
	return transport
}

// TLSConfig is the transport security of connections to the cluster, or nil. As
// the bootstrap's validation context is empty, no certificate is verified; that
// is what Envoy does with it.
func (c *Cluster) TLSConfig() *tls.Config {
	if c.TLS == nil {
		return nil
	}
	return &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // the empty validation context says so
		ServerName:         c.TLS.ServerName,
		NextProtos:         slices.Clone(c.TLS.ALPN),
		MinVersion:         tls.VersionTLS12,
	}
}

// Dial connects to a host's address within the cluster's connect_timeout, and
// has the cluster's names looked up anew if it can't.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.connects.Inc()
	conn, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		if ctx.Err() == nil {
			c.connectFails.Inc()
			c.Refresh()
		}
		return nil, errors.Join(ErrConnect, err)
	}
	return conn, nil
}

// Refresh has the cluster's names looked up soon, once however often it's called.
func (c *Cluster) Refresh() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Watch calls changed with the hosts' addresses, now and whenever they change.
func (c *Cluster) Watch(changed func(addresses []string)) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.watchers = append(c.watchers, changed)
	changed(addressesOf(*c.hosts.Load()))
}

// Hosts are the present hosts; the slice isn't to be changed.
func (c *Cluster) Hosts() []*Host {
	if c.Discovery != bootstrap.OriginalDst {
		return *c.hosts.Load()
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.SortedFunc(maps.Values(c.originals), func(a, b *Host) int { return strings.Compare(a.Address, b.Address) })
}

func addressesOf(hosts []*Host) []string {
	addresses := make([]string, len(hosts))
	for i, host := range hosts {
		addresses[i] = host.Address
	}
	return addresses
}

// setHosts replaces the hosts, and keeps those that stay, with their counts.
func (c *Cluster) setHosts(addresses []string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	old := *c.hosts.Load()
	if slices.Equal(addressesOf(old), addresses) {
		return
	}
	hosts := make([]*Host, len(addresses))
	for i, address := range addresses {
		at := slices.IndexFunc(old, func(host *Host) bool { return host.Address == address })
		if at >= 0 {
			hosts[i] = old[at]
			continue
		}
		hosts[i] = &Host{Address: address}
	}
	c.hosts.Store(&hosts)
	c.scope.Counter("membership_change").Inc()
	c.scope.Gauge("membership_total").Set(int64(len(hosts)))
	c.countHealthy()
	for _, changed := range c.watchers {
		changed(addresses)
	}
}

func (c *Cluster) countHealthy() {
	healthy := int64(0)
	for _, host := range *c.hosts.Load() {
		if host.Healthy() {
			healthy++
		}
	}
	c.scope.Gauge("membership_healthy").Set(healthy)
}

// Choose finds the host for a request with these headers.
func (c *Cluster) Choose(header http.Header) (*Host, error) {
	if c.Discovery == bootstrap.OriginalDst {
		return c.original(header.Get(c.Header))
	}
	hosts := *c.hosts.Load()
	if c.HealthCheck != nil {
		hosts = healthyOf(hosts)
	}
	if len(hosts) == 0 {
		c.none.Inc()
		return nil, ErrNoHost
	}
	turn, count := c.turn.Add(1), uint64(len(hosts))
	switch c.Policy {
	case bootstrap.LeastRequest:
		one, other := hosts[scatter(2*turn)%count], hosts[scatter(2*turn+1)%count]
		if other.Active.Load() < one.Active.Load() {
			return other, nil
		}
		return one, nil
	case bootstrap.Random:
		return hosts[scatter(turn)%count], nil
	default:
		return hosts[turn%count], nil
	}
}

// healthyOf leaves out what a health check failed. Where more than half failed,
// all are taken: that is Envoy's panic threshold.
func healthyOf(hosts []*Host) []*Host {
	healthy := make([]*Host, 0, len(hosts))
	for _, host := range hosts {
		if host.Healthy() {
			healthy = append(healthy, host)
		}
	}
	if 2*len(healthy) < len(hosts) {
		return hosts
	}
	return healthy
}

// scatter spreads successive numbers evenly (the finalizer of SplitMix64), so
// that a choice needs no lock.
func scatter(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9
	n = (n ^ (n >> 27)) * 0x94d049bb133111eb
	return n ^ (n >> 31)
}

// original is the host that a header names. Whatever is no IP and port leads
// nowhere, as with Envoy.
func (c *Cluster) original(value string) (*Host, error) {
	address, err := netip.ParseAddrPort(value)
	if err != nil || address.Port() == 0 {
		if value != "" {
			c.scope.Counter("original_dst_host_invalid").Inc()
		}
		c.none.Inc()
		return nil, ErrNoHost
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	host := c.originals[address.String()]
	if host != nil {
		return host, nil
	}
	if len(c.originals) >= maxHosts {
		c.forgetIdle()
	}
	host = &Host{Address: address.String()}
	c.originals[host.Address] = host
	c.scope.Gauge("membership_total").Set(int64(len(c.originals)))
	c.scope.Gauge("membership_healthy").Set(int64(len(c.originals)))
	return host, nil
}

// forgetIdle drops the hosts that no request is at.
func (c *Cluster) forgetIdle() {
	for address, host := range c.originals {
		if host.Active.Load() == 0 {
			delete(c.originals, address)
		}
	}
}
