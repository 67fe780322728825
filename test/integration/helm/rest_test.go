package helm

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// TestAtRestNothingIsAsked: with a cache, a run with nothing to do makes no
// request at all; and what the cache doesn't know yet is never acted on.
func TestAtRestNothingIsAsked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	config := p.wire.Through(server)
	p.runner = helmrelease.New(helmrelease.Options{
		Config: config, Client: bed.Client(t, config), Cache: fixture.Cache(t, server, p.namespace), Clock: p.clock,
	})
	want := p.want("1.0.0", with("more"))
	p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
	for deadline := time.Now().Add(patience); ; { // until the cache has what was written last
		p.wire.Take()
		report, err := p.step(want)
		p.must(err)
		if calls := p.wire.Take(); len(calls) == 0 && report.Decision.Kind == release.Nothing {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("a run with nothing to do asks: %v", calls)
		}
	}
	p.must(p.client.Delete(p.Context(), &corev1.ConfigMap{ObjectMeta: named(p.namespace, "app-stack")}))
	for deadline := time.Now().Add(patience); p.configMap("app-stack") == nil; {
		if _, err := p.step(want); err != nil || time.Now().After(deadline) {
			t.Fatalf("drift isn't put back: %v", err)
		}
	}
	p.expect(p.want("1.1.0", nil), release.Nothing, condition.ReasonReady, "Upgrade", "Settle")
}
