package llmdeployment

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	metav1alpha1 "github.com/slipway-dev/slipway/api/meta/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// inventory keeps the list of a deployment's objects in its status, and is the
// one writer of that status.
type inventory struct {
	reconciler *Reconciler
	facts      *facts
}

// Load implements apply.Inventory.
func (i *inventory) Load(context.Context) ([]object.Ref, error) {
	var refs []object.Ref
	for _, entry := range i.facts.deployment.Status.Inventory {
		refs = append(refs, object.Ref(entry))
	}
	return refs, nil
}

// Save implements apply.Inventory. The first write of a new resource also says
// that work has begun.
func (i *inventory) Save(ctx context.Context, refs []object.Ref) error {
	status := *i.facts.deployment.Status.DeepCopy()
	if status.ObservedGeneration == 0 {
		status = starting(i.facts, metav1.NewTime(i.reconciler.Now()))
	}
	status.Inventory = nil
	for _, ref := range refs {
		status.Inventory = append(status.Inventory, metav1alpha1.InventoryEntry(ref))
	}
	return i.write(ctx, status)
}

// write updates the status and keeps the result as the latest version.
func (i *inventory) write(ctx context.Context, status llmv1alpha1.LLMDeploymentStatus) error {
	before := i.facts.deployment
	written, err := reconcile.WriteStatus(ctx, i.reconciler.Client, before,
		func(d *llmv1alpha1.LLMDeployment) { d.Status = status })
	if err != nil {
		return err
	}
	if written == before {
		return nil
	}
	reconcile.Announce(i.reconciler.Events, written, before.Status.Conditions, written.Status.Conditions)
	i.facts.deployment = written
	i.reconciler.memory.Remember(written)
	return nil
}
