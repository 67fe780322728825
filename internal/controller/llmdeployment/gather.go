package llmdeployment

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/render/llmdeployment"
)

// reasonModelNotFound is the reason of ModelFound and Ready while the LLMModel
// isn't there.
const reasonModelNotFound = "ModelNotFound"

// facts is what a reconcile knows before it acts.
type facts struct {
	deployment *llmv1alpha1.LLMDeployment
	model      *llmv1alpha1.LLMModel // nil when there is none
}

func (f *facts) input() llmdeployment.Input {
	return llmdeployment.Input{Deployment: f.deployment, Model: f.model}
}

// modelMissing is what to wait for when the model isn't there, or is on its way
// out and this deployment never ran it.
func (f *facts) modelMissing() error {
	name := f.deployment.Spec.ModelRef
	switch {
	case f.model == nil:
		return condition.Wait(reasonModelNotFound,
			"LLMModel %s doesn't exist in namespace %s; create it, or change spec.modelRef", name, f.deployment.Namespace)
	case f.model.DeletionTimestamp != nil && len(f.deployment.Status.Inventory) == 0:
		return condition.Wait(reasonModelNotFound,
			"LLMModel %s is being deleted; create it again when it is gone, or change spec.modelRef", name)
	}
	return nil
}

// gather reads the deployment, nil when it is gone, and its model.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*facts, error) {
	deployment := &llmv1alpha1.LLMDeployment{}
	if err := r.Client.Get(ctx, key, deployment); err != nil {
		r.memory.Forget(key)
		return nil, client.IgnoreNotFound(err)
	}
	found := &facts{deployment: r.memory.Latest(deployment), model: &llmv1alpha1.LLMModel{}}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: found.deployment.Spec.ModelRef}, found.model)
	if apierrors.IsNotFound(err) {
		found.model, err = nil, nil
	}
	return found, err
}

// diagnose reads what a finding needs, only when something isn't ready: a
// healthy resource costs nothing. It is nil when there is nothing to say.
func (r *Reconciler) diagnose(ctx context.Context, facts *facts, result apply.Result, failed error) (*diagnosis.Finding, error) {
	workload := workloadOf(result)
	if failed != nil || workload == nil || isServing(workload) {
		return nil, nil
	}
	evidence, err := r.Evidence.Gather(ctx, workload, llmdeployment.Selector(facts.deployment.Name))
	if err != nil {
		return nil, err
	}
	evidence.Levers = diagnosis.LLMLevers(facts.model.Name)
	finding, found := diagnosis.Diagnose(evidence)
	if !found {
		return nil, nil
	}
	return &finding, nil
}
