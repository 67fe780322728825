package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/slipway-dev/slipway/test/definitions"
)

// perSecond is the rate of the load. An answer takes about 160 ms, so that five
// requests are in flight at any time, half of them streams.
const perSecond = 30

// loadManifest sends requests to the standard gateway's Service, as clients do:
// over connections that are kept.
var loadManifest = fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: load, namespace: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: %s, imagePullPolicy: Never, args: [load, ":8080", %s/v1/chat/completions, "%d"]}
`, stackNamespace, probeImage, standardGateway, perSecond)

// window is what the probe tells of the requests during an event.
type window struct {
	Sent     int
	Failures []struct {
		At, Took  int64
		Why, Text string
		Kept      bool
	}
	By      map[string]int
	Slowest int64
}

// stackEvent is something that happens to a stack under load.
type stackEvent struct {
	name string
	do   func(*localCluster)
	// seconds bounds for how long requests may fail, from the first that does to
	// the last, and share which part of the requests of that time; why are the ways
	// in which they may. Without them none may fail.
	seconds, share float64
	why            []string
}

// noticed is how long it takes at most until a dead pod gets no requests: the
// kubelet looks at its containers each second, then tells the API server, which
// tells the picker. On a machine with two processors under load that is doubled.
const noticed = 4

// restarted is how long a stack is without its only picker, or its only gateway:
// until the kubelet sees it dead, has started another, and has probed it.
const restarted = 8

// brokenOff is how a client sees that what answered it died: a gateway can't take
// back the status that it has passed on, so it closes the connection, after the
// response's head or, where that was still in hand, before it.
var brokenOff = []string{"cut short", "closed without an answer"}

// stackEvents happen one after another. Whatever Kubernetes announces to a pod
// costs no request. A process that dies loses what it had in hand, and what comes
// until somebody notices.
var stackEvents = []stackEvent{
	{name: "nothing", do: func(*localCluster) {}},
	// The pool of v1alpha2 stays, for the gateway keeps its connection to the picker
	// that follows it until that ends.
	{
		name: "pools of v1 appear", do: func(c *localCluster) {
			c.rolls("epp", func() { c.define(definitions.InferencePools) })
			c.follows("inference.networking.k8s.io")
		},
	},
	{name: "decode pod deleted", do: func(c *localCluster) { c.deletes("decode") }},
	// Deletion by force takes the pod from the picker's list at once, and leaves the
	// containers a second: that covers requests as short as these.
	{
		name: "decode pod deleted by force", do: func(c *localCluster) { c.deletes("decode", "--force", "--grace-period=0") },
		seconds: noticed, share: 0.5, why: append(brokenOff, "status 502", "status 503"),
	},
	{
		name: "decode pod dies", do: func(c *localCluster) { c.kills("decode", "pd-sidecar", "simulator") },
		seconds: noticed, share: 0.5, why: append(brokenOff, "status 503"),
	},
	{ // its sidecar lives and says so
		name: "decode engine dies", do: func(c *localCluster) { c.kills("decode", "simulator") },
		seconds: noticed, share: 0.5, why: append(brokenOff, "status 502", "status 503"),
	},
	{name: "prefill pod deleted", do: func(c *localCluster) { c.deletes("prefill") }},
	{ // the sidecar of v0.4.0 doesn't go on without the prefill pod that it was told
		name: "prefill pod dies", do: func(c *localCluster) { c.kills("prefill", "simulator") },
		seconds: noticed, share: 0.5, why: []string{"status 502"},
	},
	{name: "decode scaled to 4", do: func(c *localCluster) {
		c.patch(`{"spec": {"decode": {"replicas": 4}}}`)
		c.waits("deployment/ms-sim-llm-d-modelservice-decode", "jsonpath={.status.readyReplicas}=4")
	}},
	{name: "decode scaled to 2", do: func(c *localCluster) {
		c.patch(`{"spec": {"decode": {"replicas": 2}}}`)
		c.waits("deployment/ms-sim-llm-d-modelservice-decode", "jsonpath={.status.replicas}=2")
		c.serves("decode")
	}},
	{name: "images of both stages rolled", do: func(c *localCluster) {
		c.rolls("prefill", func() {
			c.rolls("decode", func() {
				const image = "ghcr.io/llm-d/llm-d-inference-sim:v0.6.1"
				c.patch(fmt.Sprintf(`{"spec": {"prefill": {"image": %q}, "decode": {"image": %q}}}`, image, image))
			})
		})
	}},
	{name: "picker and gateway rolled", do: func(c *localCluster) {
		c.rolls("epp", func() {
			c.rolls("standard-gateway", func() {
				c.restart("gaie-sim-epp")
				c.restart("infra-sim-inference-gateway")
			})
		})
	}},
	// The old one serves until the end of its preStop, in which the new one starts.
	{name: "picker deleted", do: func(c *localCluster) { c.deletes("epp") }},
	{ // it fails closed
		name: "picker dies", do: func(c *localCluster) { c.kills("epp", "epp") },
		seconds: restarted, share: 1, why: []string{"status 500", "cut short"},
	},
	{
		name: "gateway dies", do: func(c *localCluster) { c.kills("standard-gateway", "envoyinit") },
		seconds: restarted, share: 1, why: append(brokenOff, "refused", "reset"),
	},
}

// restart rolls a Deployment.
func (c *localCluster) restart(deployment string) {
	c.t.Helper()
	c.kubectl("rollout", "restart", "-n", stackNamespace, "deployment/"+deployment)
}

// testEvents lets each event happen under load and counts what it cost.
func testEvents(c *localCluster) {
	c.apply(loadManifest)
	c.waits("pod/load", "condition=Ready")
	c.window()
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "event\tseconds\tsent\tfailed\twithin\tslowest\twhy")
	for _, event := range stackEvents {
		c.t.Run(event.name, c.with(func(c *localCluster) {
			begin := time.Now()
			event.do(c)
			got := c.window()
			took := time.Since(begin)
			fmt.Fprintf(out, "%s\t%.1f\t%d\t%d\t%d ms\t%d ms\t%s\n",
				event.name, took.Seconds(), got.Sent, len(got.Failures), got.spread(), got.Slowest, got.reasons())
			event.check(c.t, got, took)
		}))
	}
	out.Flush()
	c.t.Logf("\n%s", table.String())
	c.kubectl("delete", "-n", stackNamespace, "pod/load", "--wait")
}

// window takes what was sent since the last time, once all is calm again.
func (c *localCluster) window() window {
	c.t.Helper()
	return decoded[window](c, c.kubectl("get", "--raw", "/api/v1/namespaces/"+stackNamespace+"/pods/load:8080/proxy/"))
}

// check holds what an event cost against what it may.
func (e stackEvent) check(t *testing.T, got window, took time.Duration) {
	t.Helper()
	if least := took.Seconds() * perSecond / 2; float64(got.Sent) < least {
		t.Errorf("only %d requests were sent in %v: this is no load", got.Sent, took)
	}
	if len(got.By) < 2 {
		t.Errorf("all answers came from %v", got.By)
	}
	// Five more for what was in flight.
	if most := e.seconds*perSecond*e.share + 5; e.seconds > 0 && float64(len(got.Failures)) > most {
		t.Errorf("%d requests failed, want at most %.0f", len(got.Failures), most)
	}
	if spread := float64(got.spread()) / 1000; spread > e.seconds {
		t.Errorf("requests failed for %.1f s, want at most %.1f s", spread, e.seconds)
	}
	told := map[string]bool{}
	for _, failure := range got.Failures {
		if !slices.Contains(e.why, failure.Why) && !told[failure.Why] {
			told[failure.Why] = true
			t.Errorf("a request sent after %d ms failed after %d ms (%s, kept connection: %t): %s",
				failure.At, failure.Took, failure.Why, failure.Kept, failure.Text)
		}
	}
}

// spread is the time in milliseconds from the first request that failed to the
// last, by when they were sent.
func (w window) spread() int64 {
	if len(w.Failures) == 0 {
		return 0
	}
	first, last := w.Failures[0].At, w.Failures[0].At
	for _, failure := range w.Failures {
		first, last = min(first, failure.At), max(last, failure.At)
	}
	return last - first
}

// reasons are the classes of failures with their numbers.
func (w window) reasons() string {
	counts := map[string]int{}
	for _, failure := range w.Failures {
		counts[failure.Why]++
	}
	var texts []string
	for _, why := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%s: %d", why, counts[why]))
	}
	return strings.Join(texts, ", ")
}
