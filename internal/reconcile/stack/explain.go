package stack

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// words are the levers of a workload.
type words func(workload *unstructured.Unstructured) diagnosis.Levers

// explanation is why pods don't get ready, and when they were looked at.
type explanation struct {
	fault string
	at    time.Time
}

// explainedFor is how long an explanation stands: while much changes, passes follow
// one another faster than the nodes of a large cluster should be read.
const explainedFor = reconcile.LookAtPods / 2

// explain finds out why the pods of what a component consists of don't get ready,
// with the rights of the stack's account. Where that may not read them, the
// component's message says no more than how many replicas there are.
func (p *pass) explain(s *stand, levers words) func(context.Context, []*unstructured.Unstructured) string {
	return func(ctx context.Context, live []*unstructured.Unstructured) string {
		s.soon(reconcile.LookAtPods)
		asked := []any{p.stack.Name, s.component.Name}
		for _, each := range live {
			asked = append(asked, string(each.GetUID()), each.GetGeneration())
		}
		key := object.Hash(asked)
		if known, is := p.explained.Get(key); is {
			if last := known.(explanation); p.options.Now().Sub(last.at) < explainedFor { //nolint:forcetypeassert // nothing else is kept
				s.fault = last.fault
				return last.fault
			}
		}
		found, err := p.hand.evidence.Fault(ctx, live, levers)
		if err != nil {
			return "" // the next look tells
		}
		p.explained.Add(key, explanation{fault: found, at: p.options.Now()})
		s.fault = found
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
