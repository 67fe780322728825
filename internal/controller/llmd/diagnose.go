package llmd

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// Bounds of looking at the pods of a release that isn't ready.
const (
	maxDiagnosed = 5   // workloads of a release, the rest being like them mostly
	maxPods      = 200 // of a workload
	// lookAtPods is how soon that is done again: pods of releases aren't watched,
	// and a Deployment doesn't tell what ails them.
	lookAtPods = 10 * time.Second
)

// diagnose finds out why the pods of a release don't get ready, only when they
// don't: a release that is ready costs nothing.
func (r *Reconciler) diagnose(ctx context.Context, each *stand) error {
	if !each.unready() {
		return nil
	}
	looked := 0
	for _, live := range each.report.Live {
		selector := selectorOf(live)
		if selector == nil || readiness.Evaluate(live).Status == readiness.Ready {
			continue
		}
		if looked++; looked > maxDiagnosed {
			return nil
		}
		evidence, err := r.Evidence.Gather(ctx, live, selector)
		if err != nil {
			return err
		}
		evidence.Levers = llmd.Levers(each.component)
		finding, found := diagnosis.Diagnose(evidence)
		if found && finding.Reason != diagnosis.ReasonStarting && finding.Reason != diagnosis.ReasonProgressing {
			each.finding = live.GetKind() + "/" + live.GetName() + ": " + finding.Message
			return nil
		}
	}
	return nil
}

// unready tells whether all that is missing of a release is that its objects get
// ready.
func (s *stand) unready() bool {
	newest, decision := s.report.Newest, s.report.Decision
	return s.err == nil && s.wanted != nil && newest != nil && newest.Status == release.Deployed &&
		s.report.Readiness.Status != readiness.Ready && decision.Kind == release.Wait && decision.Reason != release.ReasonDrifted
}

// selectorOf finds the pods of a workload; nil if it is none.
func selectorOf(live *unstructured.Unstructured) map[string]string {
	if live.GroupVersionKind().Group != "apps" {
		return nil
	}
	selector, _, _ := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels")
	return selector
}

// evidence reads the pods of releases and their claims from the server, since the
// cache holds none but Slipway's own, and the rest from the cache.
type evidence struct {
	client.Reader
	server client.Reader
}

// List implements client.Reader.
func (e evidence) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PodList, *corev1.PersistentVolumeClaimList:
		return e.server.List(ctx, list, append(options, client.Limit(maxPods))...)
	}
	return e.Reader.List(ctx, list, options...)
}
