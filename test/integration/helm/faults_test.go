package helm

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/test/bed"
)

// unready reads Deployments as if none of their pods were ready.
type unready struct{ client.WithWatch }

func (u unready) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	err := u.WithWatch.Get(ctx, key, obj, options...)
	if content, is := obj.(interface{ UnstructuredContent() map[string]any }); is && obj.GetObjectKind().GroupVersionKind().Kind == "Deployment" {
		delete(content.UnstructuredContent(), "status")
	}
	return err
}

// refuses runs once and wants an error that says what is wrong and what to do.
func (p *place) refuses(want helmrelease.Want, verdict condition.Verdict, reason string, words ...string) {
	p.Helper()
	_, err := p.step(want)
	outcome := condition.Classify(err)
	if err == nil || outcome.Verdict != verdict || outcome.Reason != reason {
		p.Errorf("ended with %+v, want %v %s", outcome, verdict, reason)
	}
	for _, word := range words {
		if !strings.Contains(outcome.Message, word) {
			p.Errorf("%q doesn't say %q", outcome.Message, word)
		}
	}
}

// TestWhatCannotBeMadeSaysWhy, and nothing is stored of it.
func TestWhatCannotBeMadeSaysWhy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.refuses(p.want("1.0.0", map[string]any{"fail": "the sky is falling"}), condition.Stopped, condition.ReasonInvalidSpec, "the sky is falling")
	p.refuses(p.want("1.0.0", map[string]any{"replicas": "many"}), condition.Stopped, condition.ReasonInvalidSpec, "replicas")
	p.refuses(p.want("1.0.0", map[string]any{"replica": 1}), condition.Stopped, condition.ReasonInvalidSpec, "replica")
	p.refuses(p.want("1.0.0", with("missing")), condition.Waiting, condition.ReasonAPINotServed, "nowhere.example.com/v1", "install what provides it")
	p.wire.Take()
	p.refuses(p.want("1.0.0", with("missing")), condition.Waiting, condition.ReasonAPINotServed)
	if len(p.records()) > 0 {
		t.Error("something was stored")
	}
	p.must(p.client.Create(p.Context(), &corev1.ConfigMap{ObjectMeta: named(p.namespace, "app-stack")}))
	p.refuses(p.want("1.0.0", nil), condition.Stopped, condition.ReasonOwnedByAnother, "app-stack", "takeOwnership")
	want := p.want("1.0.0", nil)
	want.TakeOwnership, want.Again = true, "once more"
	p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
	gone := p.want("1.0.0", nil)
	gone.Chart, gone.Unavailable = nil, "the repository is down"
	report := p.expectWait(gone, release.ReasonChartUnavailable)
	p.says(report, "the repository is down")
	elsewhere := p.want("1.0.0", nil)
	elsewhere.Namespace += "-x"
	p.refuses(elsewhere, condition.Waiting, condition.ReasonDependencyNotFound, "create it")
	elsewhere.CreateNamespace = true
	p.expect(elsewhere, release.Nothing, condition.ReasonReady, "Install", "Settle")
}

// expectWait runs once and wants a wait.
func (p *place) expectWait(want helmrelease.Want, reason string) helmrelease.Report {
	p.Helper()
	report, err := p.step(want)
	p.must(err)
	if report.Decision.Kind != release.Wait || report.Decision.Reason != reason {
		p.Errorf("decided %+v, want to wait: %s", report.Decision, reason)
	}
	return report
}

// TestDriftIsPutBack, reported, or left to others, by what is wanted.
func TestDriftIsPutBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", nil)
	p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
	break1 := func() {
		p.must(p.client.Delete(p.Context(), &corev1.ConfigMap{ObjectMeta: named(p.namespace, "app-stack")}))
		service := &corev1.Service{ObjectMeta: named(p.namespace, "app-stack")}
		p.must(p.client.Patch(p.Context(), service, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"selector":{"a":"b"}}}`))))
		deployment := &appsv1.Deployment{ObjectMeta: named(p.namespace, "app-stack")}
		p.must(p.client.Patch(p.Context(), deployment, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3},"metadata":{"labels":{"theirs":"x"}}}`))))
	}
	break1()
	want.Drift.Mode = release.DriftReport
	want.Drift.Ignore = []release.Ignore{{Paths: []string{"/spec/replicas"}, Target: release.Target{Kind: "Deployment"}}}
	report, err := p.step(want)
	p.must(err)
	if len(report.Drift) != 2 || report.Acted {
		t.Errorf("reported %q, %+v", report.Drift, report.Decision)
	}
	want.Drift.Mode = release.DriftCorrect
	p.expect(want, release.Nothing, condition.ReasonReady, "Correct")
	deployment := &appsv1.Deployment{}
	p.must(p.client.Get(p.Context(), client.ObjectKey{Namespace: p.namespace, Name: "app-stack"}, deployment))
	if *deployment.Spec.Replicas != 3 || deployment.Labels["theirs"] != "x" {
		t.Errorf("what was to be left alone wasn't: %d replicas, %v", *deployment.Spec.Replicas, deployment.Labels)
	}
	if found := p.configMap("app-stack"); found == nil || found.Labels["app.kubernetes.io/managed-by"] != "Helm" {
		t.Errorf("the ConfigMap wasn't put back: %v", found)
	}
	want.Drift.Ignore = nil
	p.expect(want, release.Nothing, condition.ReasonReady, "Correct")
	p.must(p.client.Get(p.Context(), client.ObjectKeyFromObject(deployment), deployment))
	if *deployment.Spec.Replicas != 1 {
		t.Errorf("%d replicas", *deployment.Spec.Replicas)
	}
	break1()
	want.Drift.Mode = release.DriftIgnore
	if report, err := p.step(want); err != nil || report.Acted || len(report.Drift) > 0 {
		t.Errorf("drift that is to be ignored: %+v, %v", report.Decision, err)
	}
}

// TestAFightIsGivenUp: what someone changes back each time is said, not fought
// about.
func TestAFightIsGivenUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", nil)
	p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
	for range 6 {
		service := &corev1.Service{ObjectMeta: named(p.namespace, "app-stack")}
		p.must(p.client.Patch(p.Context(), service, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"selector":{"a":"b"}}}`))))
		report, err := p.step(want)
		p.must(err)
		if !report.Acted {
			p.says(report, "Service/app-stack", "drift.ignore")
			return
		}
	}
	t.Error("it is fought about without end")
}

// TestDefinitionsAreNeverDeleted: a chart's crds/ come by policy, with what needs
// them, and stay.
func TestDefinitionsAreNeverDeleted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", with("widget"))
	report := p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
	if len(report.Live) != 11 {
		t.Errorf("%d live objects", len(report.Live))
	}
	want.Removed = true
	p.expect(want, release.Nothing, release.ReasonUninstalled, "Uninstall", "Forget")
	if _, err := p.client.RESTMapper().RESTMapping(report.Live[len(report.Live)-1].GroupVersionKind().GroupKind()); err != nil {
		t.Errorf("the definition is gone: %v", err)
	}
}

// TestObjectsAreMadeWithAServiceAccountsRights, and the record with ours.
func TestObjectsAreMadeWithAServiceAccountsRights(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", nil)
	want.ServiceAccount, want.CRDs = "limited", helmrelease.CRDsSkip
	p.refuses(want, condition.Waiting, condition.ReasonForbidden, "limited")
	p.must(p.client.Create(p.Context(), &rbacv1.RoleBinding{
		ObjectMeta: named(p.namespace, "limited"),
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "limited", Namespace: p.namespace}},
	}))
	p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
}

// TestAFinalizerHoldsARemovalOnlySoLong: what doesn't go away is named, waited
// for, and left; what the chart keeps stays.
func TestAFinalizerHoldsARemovalOnlySoLong(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", with("more", "keep"))
	p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
	more := &corev1.ConfigMap{ObjectMeta: named(p.namespace, "app-stack-more")}
	p.must(p.client.Patch(p.Context(), more, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))))
	want.Removed = true
	report, err := p.step(want)
	p.must(err)
	if report.Decision.Kind != release.Uninstall {
		t.Fatalf("%+v", report.Decision)
	}
	deadline := time.Now().Add(patience)
	for report.Decision.Message != "waiting until ConfigMap/app-stack-more is gone" {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", report.Decision)
		}
		report, err = p.step(want)
		p.must(err)
	}
	p.clock.by = time.Hour
	report, err = p.step(want)
	p.must(err)
	p.says(report, "ConfigMap/app-stack-more is still there")
	p.expect(want, release.Nothing, release.ReasonUninstalled)
	if p.configMap("app-stack-keep") == nil || p.configMap("app-stack-more") == nil {
		t.Error("what was to be kept is gone")
	}
}

// TestAnotherHelmAtWorkIsWaitedFor, but not for ever.
func TestAnotherHelmAtWorkIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", nil)
	p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
	wire := &bed.Wire{}
	other := helm.NewReleases(wire.Through(server), p.namespace, "", nil)
	wire.DisturbOne(1, bed.DieAfter) // when it has stored that it began
	err := other.Upgrade(p.Context(), helm.Make{Request: helm.Request{Name: "app", Chart: want.Chart, Timeout: time.Minute}, Number: 99})
	if err == nil {
		t.Fatal("the other process survived its death")
	}
	report := p.expectWait(want, release.ReasonBusy)
	if report.Again <= 0 {
		t.Errorf("%+v", report)
	}
	p.clock.by = helm.PendingGrace
	report, err = p.step(want)
	p.must(err)
	if report.Decision.Kind != release.Recover {
		t.Fatalf("%+v", report.Decision)
	}
	p.clock.by = 0
	p.expect(want, release.Nothing, condition.ReasonReady, "Upgrade", "Settle")
}
