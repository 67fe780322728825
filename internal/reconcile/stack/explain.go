package stack

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// words are the levers of a workload.
type words func(workload *unstructured.Unstructured) diagnosis.Levers

// explain finds out why the pods of what a component consists of don't get ready,
// with the rights of the stack's account. Where that may not read them, the
// component's message says no more than how many replicas there are.
func (p *pass) explain(s *stand, levers words) func(context.Context, []*unstructured.Unstructured) string {
	return func(ctx context.Context, live []*unstructured.Unstructured) string {
		found, err := p.hand.evidence.Fault(ctx, live, levers)
		if err != nil {
			found = "" // the next look tells
		}
		s.fault = found
		s.soon(reconcile.LookAtPods)
		return found
	}
}

// ofComponent are the levers of what a component's own release consists of.
func ofComponent(c platformstack.Component) words {
	return func(workload *unstructured.Unstructured) diagnosis.Levers {
		return platformstack.Levers(c.Spec, workload)
	}
}

// ofHook are those of what a hook applies.
func ofHook(c platformstack.Component, h platformstack.Hook) words {
	return func(*unstructured.Unstructured) diagnosis.Levers { return platformstack.HookLevers(c.Name, h.Name) }
}

// ofOthers are those of what nobody here makes: the names of a pod's fields.
func ofOthers(*unstructured.Unstructured) diagnosis.Levers { return diagnosis.Levers{} }
