package reconcile

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/readiness"
)

// Bounds of looking at the pods of what isn't ready.
const (
	maxDiagnosed = 5   // workloads, the rest being like them mostly
	maxPods      = 200 // of a workload
)

// LookAtPods is how soon to look again at the pods of what isn't ready: those of
// releases aren't watched, and a Deployment doesn't tell what ails them.
const LookAtPods = 10 * time.Second

// Fault says why the pods of workloads don't get ready, as "Deployment/name: why";
// empty when nothing is wrong with them, or nothing that they or whoever reads them
// may tell. levers are the words for what the user can change of a workload.
func (e *Evidence) Fault(ctx context.Context, objects []*unstructured.Unstructured, levers func(workload *unstructured.Unstructured) diagnosis.Levers) (string, error) {
	looked := 0
	for _, live := range objects {
		selector := selectorOf(live)
		if selector == nil || readiness.Evaluate(live).Status == readiness.Ready {
			continue
		}
		if looked++; looked > maxDiagnosed {
			break
		}
		facts, err := e.Gather(ctx, live, selector)
		if err != nil && !apierrors.IsForbidden(err) {
			return "", err
		}
		facts.Levers = levers(live)
		finding, found := diagnosis.Diagnose(facts)
		if found && finding.Reason != diagnosis.ReasonStarting && finding.Reason != diagnosis.ReasonProgressing {
			return live.GetKind() + "/" + live.GetName() + ": " + finding.Message, nil
		}
	}
	return "", nil
}

// selectorOf finds the pods of a workload; nil if it is none.
func selectorOf(live *unstructured.Unstructured) map[string]string {
	if live.GroupVersionKind().Group != "apps" {
		return nil
	}
	selector, _, _ := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels")
	return selector
}

// ForeignPods reads pods and their claims from the server, a bounded number of them,
// and the rest from the cache: it holds no pods but Slipway's own.
type ForeignPods struct {
	client.Reader // the cache
	Server        client.Reader
}

// List implements client.Reader.
func (f ForeignPods) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PodList, *corev1.PersistentVolumeClaimList:
		return f.Server.List(ctx, list, append(options, client.Limit(maxPods))...)
	}
	return f.Reader.List(ctx, list, options...)
}
