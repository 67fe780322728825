package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/cluster"
	"github.com/slipway-dev/slipway/localcluster/envoy/internal/stats"
)

// limit bounds every wait of a test.
const limit = 20 * time.Second

// names answers for every name, first IPv6, then IPv4, and can fail.
type names struct {
	mutex  sync.Mutex
	v4, v6 []string
	failed error
	asked  int
}

func (n *names) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.asked++
	if n.failed != nil {
		return nil, n.failed
	}
	var texts []string
	if network != "ip4" {
		texts = append(texts, n.v6...)
	}
	if network != "ip6" {
		texts = append(texts, n.v4...)
	}
	if len(texts) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var found []netip.Addr
	for _, text := range texts {
		found = append(found, netip.MustParseAddr(text))
	}
	return found, nil
}

func (n *names) set(change func(*names)) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	change(n)
}

func (n *names) times() int {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.asked
}

func config(discovery bootstrap.Discovery, hosts ...bootstrap.Host) bootstrap.Cluster {
	return bootstrap.Cluster{
		Name: "c", Discovery: discovery, Hosts: hosts, ConnectTimeout: time.Second, DNSRefresh: time.Hour,
		MaxConnections: 10, MaxPending: 10, MaxRequests: 10, MaxRetries: 3,
	}
}

// run has a cluster look after its hosts until the test ends.
func run(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.Warm(ctx)
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func addresses(c *cluster.Cluster) []string {
	var all []string
	for _, host := range c.Hosts() {
		all = append(all, host.Address)
	}
	return all
}

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !so(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: didn't come to be", what)
		}
	}
}

func TestFamilies(t *testing.T) {
	both := &names{v4: []string{"10.0.0.2", "10.0.0.1"}, v6: []string{"fd00::1"}}
	only4 := &names{v4: []string{"10.0.0.1"}}
	for name, test := range map[string]struct {
		resolver  *names
		discovery bootstrap.Discovery
		family    bootstrap.Family
		want      []string
	}{
		"auto takes IPv6":           {both, bootstrap.StrictDNS, bootstrap.FamilyAuto, []string{"[fd00::1]:80"}},
		"auto falls back to IPv4":   {only4, bootstrap.StrictDNS, bootstrap.FamilyAuto, []string{"10.0.0.1:80"}},
		"IPv4 only":                 {both, bootstrap.StrictDNS, bootstrap.FamilyV4Only, []string{"10.0.0.1:80", "10.0.0.2:80"}},
		"IPv6 only":                 {only4, bootstrap.StrictDNS, bootstrap.FamilyV6Only, nil},
		"IPv4 preferred":            {both, bootstrap.StrictDNS, bootstrap.FamilyV4Preferred, []string{"10.0.0.1:80", "10.0.0.2:80"}},
		"all":                       {both, bootstrap.StrictDNS, bootstrap.FamilyAll, []string{"10.0.0.1:80", "10.0.0.2:80", "[fd00::1]:80"}},
		"logical takes the first":   {both, bootstrap.LogicalDNS, bootstrap.FamilyV4Only, []string{"10.0.0.2:80"}},
		"an address needs no looks": {&names{failed: errors.New("no")}, bootstrap.Static, bootstrap.FamilyAuto, []string{"10.9.9.9:80"}},
	} {
		host := bootstrap.Host{Address: "name", Port: 80}
		if test.discovery == bootstrap.Static {
			host.Address = "10.9.9.9"
		}
		settings := config(test.discovery, host)
		settings.Family = test.family
		c := cluster.New(settings, test.resolver, &stats.Store{})
		c.Warm(context.Background())
		if got := addresses(c); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

// TestNamesChange follows a name by its refresh rate: to other addresses, to none
// at all, and through an outage of the resolver, which changes nothing.
func TestNamesChange(t *testing.T) {
	resolver := &names{v4: []string{"10.0.0.1"}}
	settings := config(bootstrap.StrictDNS, bootstrap.Host{Address: "name", Port: 80})
	settings.DNSRefresh = 5 * time.Millisecond
	c := cluster.New(settings, resolver, &stats.Store{})
	seen := make(chan int, 10)
	c.Watch(func(addresses []string) { seen <- len(addresses) })
	run(t, c)
	kept := c.Hosts()[0]
	resolver.set(func(n *names) { n.v4 = []string{"10.0.0.1", "10.0.0.2"} })
	until(t, "two hosts", func() bool { return len(c.Hosts()) == 2 })
	if c.Hosts()[0] != kept {
		t.Error("the host that stayed lost its counts")
	}
	resolver.set(func(n *names) { n.failed = &net.DNSError{Err: "server misbehaving", IsTemporary: true} })
	before := resolver.times()
	until(t, "several look-ups in vain", func() bool { return resolver.times() > before+3 })
	if len(c.Hosts()) != 2 {
		t.Errorf("an outage of the resolver left %v", addresses(c))
	}
	resolver.set(func(n *names) { n.failed, n.v4 = nil, nil })
	until(t, "no host", func() bool { return len(c.Hosts()) == 0 })
	if _, err := c.Choose(nil); !errors.Is(err, cluster.ErrNoHost) {
		t.Errorf("without hosts: got %v", err)
	}
	for i, want := range []int{0, 1, 2, 0} {
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("change %d: the watcher was told of %d hosts, want %d", i, got, want)
			}
		case <-time.After(limit):
			t.Fatalf("the watcher wasn't told of change %d", i)
		}
	}
}

// TestLookupAfterRefusal has a host refuse a connection: its name is looked up at
// once, not after the refresh rate.
func TestLookupAfterRefusal(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	resolver := &names{v4: []string{"127.0.0.1"}}
	settings := config(bootstrap.StrictDNS, bootstrap.Host{Address: "name", Port: port})
	settings.Family = bootstrap.FamilyV4Only
	c := cluster.New(settings, resolver, &stats.Store{})
	run(t, c)
	resolver.set(func(n *names) { n.v4 = []string{"127.0.0.2"} })
	if _, err := c.Dial(context.Background(), "tcp", c.Hosts()[0].Address); !errors.Is(err, cluster.ErrConnect) {
		t.Fatalf("got %v, want a failed connection", err)
	}
	until(t, "the new address", func() bool { return slices.Equal(addresses(c), []string{"127.0.0.2:" + strconv.Itoa(port)}) })
	if got := resolver.times(); got != 2 {
		t.Errorf("looked up %d times, want 2", got)
	}
}

func TestPolicies(t *testing.T) {
	hosts := []bootstrap.Host{{Address: "10.0.0.1", Port: 1}, {Address: "10.0.0.2", Port: 1}, {Address: "10.0.0.3", Port: 1}}
	for name, test := range map[string]struct {
		policy   bootstrap.Policy
		from, to int
	}{
		"round robin":   {bootstrap.RoundRobin, 1000, 1000},
		"random":        {bootstrap.Random, 850, 1150},
		"least request": {bootstrap.LeastRequest, 850, 1150},
	} {
		settings := config(bootstrap.Static, hosts...)
		settings.Policy = test.policy
		c := cluster.New(settings, nil, &stats.Store{})
		chosen := map[string]int{}
		for range 3000 {
			host, err := c.Choose(nil)
			if err != nil {
				t.Fatal(err)
			}
			chosen[host.Address]++
		}
		for address, times := range chosen {
			if times < test.from || times > test.to {
				t.Errorf("%s: %s was chosen %d times of 3000", name, address, times)
			}
		}
		if test.policy != bootstrap.LeastRequest {
			continue
		}
		// Loaded hosts are chosen only when both draws are they.
		c.Hosts()[0].Active.Add(5)
		c.Hosts()[1].Active.Add(5)
		free := 0
		for range 3000 {
			if host, _ := c.Choose(nil); host == c.Hosts()[2] {
				free++
			}
		}
		if free < 1500 {
			t.Errorf("the host without requests was chosen %d times of 3000", free)
		}
	}
}

func TestOriginal(t *testing.T) {
	settings := config(bootstrap.OriginalDst)
	settings.Header = "X-To"
	c := cluster.New(settings, nil, &stats.Store{})
	for value, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1:80", "[fd00::1]:80": "[fd00::1]:80", "": "", "10.0.0.1": "", "10.0.0.1:0": "", "name:80": "", "10.0.0.1:80,10.0.0.2:80": "",
	} {
		host, err := c.Choose(http.Header{"X-To": {value}})
		if want == "" && !errors.Is(err, cluster.ErrNoHost) {
			t.Errorf("%q: got %v, want no host", value, err)
		}
		if want != "" && (err != nil || host.Address != want) {
			t.Errorf("%q: got %v, %v", value, host, err)
		}
	}
	for i := range 10000 {
		if _, err := c.Choose(http.Header{"X-To": {fmt.Sprintf("10.0.%d.%d:80", i/250, i%250)}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(c.Hosts()); got > 4096 {
		t.Errorf("%d addresses are kept", got)
	}
}

// TestHealth has one host of two fail its checks, and recover.
func TestHealth(t *testing.T) {
	var bad atomic.Bool
	var hosts []bootstrap.Host
	for i := range 2 {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/health" || r.Host != "c" || (i == 0 && bad.Load()) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		t.Cleanup(server.Close)
		address := server.Listener.Addr().(*net.TCPAddr)
		hosts = append(hosts, bootstrap.Host{Address: "127.0.0.1", Port: address.Port})
	}
	settings := config(bootstrap.Static, hosts...)
	settings.HealthCheck = &bootstrap.HealthCheck{Path: "/health", Timeout: time.Second, Interval: 5 * time.Millisecond, Unhealthy: 2, Healthy: 2}
	c := cluster.New(settings, nil, &stats.Store{})
	bad.Store(true)
	run(t, c)
	sick := func() bool {
		return slices.ContainsFunc(c.Hosts(), func(host *cluster.Host) bool { return !host.Healthy() })
	}
	until(t, "a failed host", sick)
	for range 10 {
		if host, err := c.Choose(nil); err != nil || !host.Healthy() {
			t.Errorf("got %v, %v", host, err)
		}
	}
	bad.Store(false)
	until(t, "all hosts well", func() bool { return !sick() })
}
