// Package llmdeployment runs LLMDeployments: it gathers the deployment and its
// model, renders their objects, applies them and reports what is live.
package llmdeployment

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/llmdeployment"
)

// Reconciler runs LLMDeployments.
type Reconciler struct {
	Client   client.Client // reads from the cache
	Evidence *reconcile.Evidence
	Engine   *apply.Engine
	Events   events.EventRecorder
	Now      func() time.Time

	memory reconcile.Memory[*llmv1alpha1.LLMDeployment]
}

// +kubebuilder:rbac:groups=llm.example.com,resources=llmdeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=llm.example.com,resources=llmdeployments/status,verbs=update;patch
// +kubebuilder:rbac:groups=llm.example.com,resources=llmdeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=llm.example.com,resources=llmmodels,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods;nodes;events,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one LLMDeployment from its spec to running pods. What it made
// goes with the resource by owner references, so a deletion needs nothing here.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	facts, err := r.gather(ctx, req.NamespacedName)
	if err != nil || facts == nil || facts.deployment.DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	record := r.record(facts)
	result, err := r.apply(ctx, facts, record)
	evidence, evidenceErr := r.diagnose(ctx, facts, result, err)
	if evidenceErr != nil {
		return ctrl.Result{}, evidenceErr
	}
	facts.deployment = record.Object
	outcome := condition.Classify(err)
	status := report(facts, result, outcome, evidence, metav1.NewTime(r.Now()))
	pass := reconcile.Pass{Progressed: result.Wrote()}
	if err := record.Write(ctx, status); err != nil {
		return pass.End(condition.Classify(err), 0)
	}
	return pass.End(outcome, result.Again)
}

// apply renders and applies. A model that isn't there leaves alone what runs.
func (r *Reconciler) apply(ctx context.Context, facts *facts, record *record) (apply.Result, error) {
	if err := facts.modelMissing(); err != nil {
		return apply.Result{}, err
	}
	wanted, err := llmdeployment.Objects(facts.input())
	if err != nil {
		return apply.Result{}, err
	}
	return r.Engine.Apply(ctx, apply.Owner{Object: facts.deployment}, record, wanted)
}
