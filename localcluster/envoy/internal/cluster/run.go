package cluster

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
)

// minRefresh is the least time between two look-ups of a name, so that a host
// that refuses every connection doesn't flood the resolver.
const minRefresh = 250 * time.Millisecond

// Warm finds a cluster's hosts for the first time. A name that can't be found
// leaves the cluster empty, and the proxy starts all the same.
func (c *Cluster) Warm(ctx context.Context) {
	if c.byName() {
		c.lookup(ctx)
	}
}

func (c *Cluster) byName() bool {
	return c.Discovery == bootstrap.StrictDNS || c.Discovery == bootstrap.LogicalDNS
}

// Run looks names up again and checks hosts, until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	defer c.transport.CloseIdleConnections()
	if c.HealthCheck != nil {
		group.Go(func() { c.checkHealth(ctx) })
	}
	if c.byName() {
		group.Go(func() { c.keepResolving(ctx) })
	}
	<-ctx.Done()
}

func (c *Cluster) keepResolving(ctx context.Context) {
	refresh := time.NewTimer(c.DNSRefresh)
	defer refresh.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-refresh.C:
		case <-c.wake:
		}
		c.lookup(ctx)
		pause := time.NewTimer(min(minRefresh, c.DNSRefresh))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		refresh.Reset(c.DNSRefresh)
	}
}

// lookup replaces the hosts by what the names stand for now. If that can't be
// known, the hosts stay.
func (c *Cluster) lookup(ctx context.Context) {
	addresses, err := resolve(ctx, c.resolver, c.Cluster)
	if err != nil {
		c.failures.Inc()
		return
	}
	c.updates.Inc()
	c.setHosts(addresses)
}

// checkHealth asks every host each interval. A host is failed after so many bad
// answers in a row, and well after so many good ones; the first answer counts at
// once.
func (c *Cluster) checkHealth(ctx context.Context) {
	ticker := time.NewTicker(max(c.HealthCheck.Interval, time.Millisecond))
	defer ticker.Stop()
	streaks := map[string]int{}
	for {
		hosts := *c.hosts.Load()
		results := make([]bool, len(hosts))
		var group sync.WaitGroup
		for i, host := range hosts {
			group.Go(func() { results[i] = c.ask(ctx, host) })
		}
		group.Wait()
		next := make(map[string]int, len(hosts))
		for i, host := range hosts {
			streak, known := streaks[host.Address]
			next[host.Address] = c.judge(host, results[i], streak, known)
		}
		streaks = next
		c.countHealthy()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// judge takes one answer into account. A streak is how many answers in a row
// contradict what the host is held to be.
func (c *Cluster) judge(host *Host, good bool, streak int, known bool) int {
	if good == host.Healthy() {
		return 0
	}
	streak++
	threshold := c.HealthCheck.Unhealthy
	if good {
		threshold = c.HealthCheck.Healthy
	}
	if known && streak < threshold {
		return streak
	}
	host.failed.Store(!good)
	return 0
}

func (c *Cluster) ask(ctx context.Context, host *Host) bool {
	ctx, cancel := context.WithTimeout(ctx, c.HealthCheck.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host.Address+c.HealthCheck.Path, nil)
	if err != nil {
		return false
	}
	if c.TLS != nil {
		request.URL.Scheme = "https"
	}
	request.Host = c.HealthCheck.Host
	if request.Host == "" {
		request.Host = c.Name
	}
	request.Header.Set("User-Agent", "Envoy/HC")
	c.scope.Counter("health_check.attempt").Inc()
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		c.scope.Counter("health_check.failure").Inc()
		return false
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		c.scope.Counter("health_check.failure").Inc()
		return false
	}
	c.scope.Counter("health_check.success").Inc()
	return true
}
