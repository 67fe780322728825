package llmdeployment

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// record is the one writer of a deployment's status.
type record = reconcile.Record[*llmv1alpha1.LLMDeployment, llmv1alpha1.LLMDeploymentStatus]

func (r *Reconciler) record(facts *facts) *record {
	return &record{
		Writer: r.Client, Events: r.Events, Memory: &r.memory, Object: facts.deployment,
		Parts: func(d *llmv1alpha1.LLMDeployment) reconcile.StatusParts[llmv1alpha1.LLMDeploymentStatus] {
			return reconcile.StatusParts[llmv1alpha1.LLMDeploymentStatus]{
				Status: &d.Status, ObservedGeneration: d.Status.ObservedGeneration,
				Conditions: d.Status.Conditions, Inventory: &d.Status.Inventory,
			}
		},
		Starting: func() llmv1alpha1.LLMDeploymentStatus { return starting(facts, metav1.NewTime(r.Now())) },
	}
}
