package helm

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// patience bounds the wait for a release to come to rest.
const patience = 90 * time.Second

// place is a namespace with a release in it.
type place struct {
	*testing.T
	namespace string
	client    client.WithWatch
	wire      *bed.Wire
	runner    *helmrelease.Runner
	clock     *skewed
}

// skewed is the real clock, put forward.
type skewed struct{ by time.Duration }

func (s *skewed) Now() time.Time                  { return time.Now().Add(s.by) }
func (s *skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{T: t, client: bed.Client(t, server), wire: &bed.Wire{}, clock: &skewed{}}
	p.namespace = bed.Namespace(t, p.client)
	p.restart()
	return p
}

// restart forgets all that a process remembers.
func (p *place) restart() {
	config := p.wire.Through(server)
	p.runner = helmrelease.New(helmrelease.Options{Config: config, Client: bed.Client(p.T, config), Clock: p.clock})
}

// want is the chart in a version with values, as the release "app".
func (p *place) want(version string, values map[string]any) helmrelease.Want {
	return helmrelease.Want{
		Name: "app", Namespace: p.namespace, Chart: fixture.Chart(p.T, version), Values: values, Timeout: time.Minute,
		Labels: map[string]string{"app.kubernetes.io/part-of": "llm-d"},
	}
}

func with(parts ...string) map[string]any {
	on := map[string]any{}
	for _, part := range parts {
		on[part] = true
	}
	return map[string]any{"with": on}
}

// step is one Run.
func (p *place) step(want helmrelease.Want) (helmrelease.Report, error) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	return p.runner.Run(ctx, want)
}

// settle runs until a release is at rest, and gives the report and the kinds of
// what was carried out.
func (p *place) settle(want helmrelease.Want) (helmrelease.Report, []string) {
	p.Helper()
	var acted []string
	deadline := time.Now().Add(patience)
	var last helmrelease.Report
	for time.Now().Before(deadline) {
		report, err := p.step(want)
		if err != nil {
			p.Fatalf("after %v: %v (%+v)", acted, err, report.Decision)
		}
		last = report
		if report.Acted {
			acted = append(acted, string(report.Decision.Kind))
			continue
		}
		if report.Decision.Kind != release.Wait {
			return report, acted
		}
		p.awaitChange()
	}
	p.Fatalf("no rest in %s after %v: %+v, %+v", patience, acted, last.Decision, last.Readiness)
	return last, acted
}

// untilMade runs until an installation or an upgrade is carried out; whether its
// objects get ready doesn't matter.
func (p *place) untilMade(want helmrelease.Want) {
	p.Helper()
	for range 3 {
		report, err := p.step(want)
		p.must(err)
		if report.Decision.Kind == release.Install || report.Decision.Kind == release.Upgrade {
			return
		}
	}
	p.Fatal("nothing was made")
}

// awaitChange gives the cluster's controllers a moment: whatever of a dozen kinds
// changes next, no one watch tells of it.
func (p *place) awaitChange() {
	p.Helper()
	select {
	case <-time.After(100 * time.Millisecond):
	case <-p.Context().Done():
	}
}

// expect fails unless a release came to rest as it should.
func (p *place) expect(want helmrelease.Want, kind release.Kind, reason string, acted ...string) helmrelease.Report {
	p.Helper()
	report, did := p.settle(want)
	if report.Decision.Kind != kind || report.Decision.Reason != reason {
		p.Fatalf("it ended with %+v after %v, want %s %s", report.Decision, did, kind, reason)
	}
	if fmt.Sprint(did) != fmt.Sprint(acted) {
		p.Errorf("carried out %v, want %v", did, acted)
	}
	return report
}

// configMap reads one, or gives nil.
func (p *place) configMap(name string) *corev1.ConfigMap {
	p.Helper()
	found := &corev1.ConfigMap{}
	err := p.client.Get(p.Context(), client.ObjectKey{Namespace: p.namespace, Name: name}, found)
	if client.IgnoreNotFound(err) != nil {
		p.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return found
}

// records are the release's Secrets.
func (p *place) records() []corev1.Secret {
	p.Helper()
	list := &corev1.SecretList{}
	if err := p.client.List(p.Context(), list, client.InNamespace(p.namespace), client.MatchingLabels{"owner": "helm"}); err != nil {
		p.Fatal(err)
	}
	return list.Items
}

func (p *place) says(report helmrelease.Report, words ...string) {
	p.Helper()
	for _, word := range words {
		if !strings.Contains(report.Decision.Message, word) {
			p.Errorf("%q doesn't say %q", report.Decision.Message, word)
		}
	}
}

func (p *place) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
