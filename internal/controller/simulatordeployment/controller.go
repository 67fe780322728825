// Package simulatordeployment runs SimulatorDeployments: it gathers the resource,
// its neighbours and the APIs that the cluster serves, renders the stack, applies
// it and reports what is live of each part.
package simulatordeployment

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// Reconciler runs SimulatorDeployments.
type Reconciler struct {
	Client   client.Client // reads from the cache
	Server   client.Reader // reads from the API server itself
	Evidence *reconcile.Evidence
	Engine   *apply.Engine
	Events   events.EventRecorder
	Now      func() time.Time

	served *reconcile.Served
	watch  *optionalWatches
	memory reconcile.Memory[*simv1alpha1.SimulatorDeployment]
	claims claims
}

// The rules for pods, inferencepools and inferenceobjectives are what a picker
// gets: nobody can grant what he doesn't hold.
//
// +kubebuilder:rbac:groups=sim.llm-d.io,resources=simulatordeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=sim.llm-d.io,resources=simulatordeployments/status,verbs=update;patch
// +kubebuilder:rbac:groups=sim.llm-d.io,resources=simulatordeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=localsubjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=inference.networking.k8s.io,resources=inferencepools,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=inference.networking.x-k8s.io,resources=inferencepools,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=inference.networking.x-k8s.io,resources=inferenceobjectives,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.istio.io,resources=destinationrules,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gateways;httproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims;nodes;events,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile makes the stack that the resource asks for, and says how it goes.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	facts, err := r.gather(ctx, req.NamespacedName)
	if err != nil || facts == nil || facts.deployment.DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	record := r.record(facts)
	result, err := r.apply(ctx, facts, record)
	facts.deployment = record.Object
	pass := reconcile.Pass{Progressed: result.Wrote()}
	found, evidenceErr := r.diagnose(ctx, facts, result)
	if evidenceErr != nil {
		return pass.End(condition.Classify(evidenceErr), 0)
	}
	outcome := condition.Classify(err)
	status := report(facts, result, outcome, found, metav1.NewTime(r.Now()))
	if err := record.Write(ctx, status); err != nil {
		return pass.End(condition.Classify(err), 0)
	}
	return pass.End(outcome, again(outcome, result, found))
}

// again is when to look again at the latest. Names are waited for with a limit
// beside the watches: their holder may go while that is being written down. And
// nobody tells of rights that are granted.
func again(outcome condition.Outcome, result apply.Result, found findings) time.Duration {
	switch {
	case isTaken(outcome.Reason):
		return lookForNames
	case found[simulatordeployment.Picker].Reason == reasonPickerForbidden:
		return lookForRights
	}
	return result.Again
}

func (r *Reconciler) apply(ctx context.Context, facts *facts, record *record) (apply.Result, error) {
	wanted, err := simulatordeployment.Objects(facts.input())
	if err != nil {
		return apply.Result{}, err
	}
	facts.wanted = wanted
	if err := r.claim(ctx, facts, record); err != nil {
		return apply.Result{}, err
	}
	return r.Engine.Apply(ctx, apply.Owner{Object: record.Object}, record, wanted)
}

// claim records the names that a resource is about to take, unless another one in
// the namespace has one of them.
func (r *Reconciler) claim(ctx context.Context, facts *facts, record *record) error {
	held, err := record.Load(ctx)
	if err != nil {
		return err
	}
	refs := refsOf(facts.wanted)
	fresh := object.Difference(refs, held)
	if len(fresh) == 0 {
		return nil
	}
	claims := r.claims.of(facts.deployment.Namespace)
	claims.Lock()
	defer claims.Unlock()
	others, err := r.neighbours(ctx, claims, facts.deployment)
	if err != nil {
		return err
	}
	if err := taken(fresh, others); err != nil {
		return err
	}
	if err := record.Save(ctx, object.Union(held, refs)); err != nil {
		claims.unsure.Insert(facts.deployment.Namespace)
		return err
	}
	return nil
}
