// Package llmd runs Llmds: it gathers the resource with the values that it refers
// to, renders the releases that it asks for, runs each of them, and reports.
package llmd

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// Finalizer is on an Llmd as long as there may be releases of it: the garbage
// collector knows none.
const Finalizer = "components.platform.opendatahub.io/slipway"

// Reconciler runs Llmds.
type Reconciler struct {
	Client   client.Client // reads from the cache
	Charts   *registry.Client
	Runner   *helmrelease.Runner
	Engine   *apply.Engine // for what is made beside the releases
	Evidence *reconcile.Evidence
	Events   events.EventRecorder
	Now      func() time.Time

	served  *reconcile.Served
	sources *sources
	live    *live
	memory  reconcile.Memory[*componentsv1alpha1.Llmd]
	charts  *lru.Cache // *helm.Chart by digest
}

// maxCharts bounds the charts that are held in memory.
const maxCharts = 8

// The rights are those that the three default charts need with their own values.
// What else a chart makes needs rights of an account that spec.serviceAccountName
// names. Helm keeps releases in Secrets, in any namespace that the spec names.
// The inference extension's chart grants its picker tokenreviews and
// subjectaccessreviews, which nobody can grant without holding them.
//
// +kubebuilder:rbac:groups=components.platform.opendatahub.io,resources=llmds,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=components.platform.opendatahub.io,resources=llmds/status,verbs=update;patch
// +kubebuilder:rbac:groups=components.platform.opendatahub.io,resources=llmds/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=configmaps;services;serviceaccounts;persistentvolumeclaims,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=pods;events,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments;replicasets;statefulsets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings;clusterroles;clusterrolebindings,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:urls=/metrics,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gateways;httproutes;referencegrants,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=inference.networking.k8s.io,resources=inferencepools,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=inference.networking.x-k8s.io,resources=inferencepools;inferenceobjectives,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaimtemplates,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors;servicemonitors;prometheusrules,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=networking.istio.io,resources=destinationrules,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=telemetry.istio.io,resources=telemetries,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=gateway.kgateway.dev,resources=gatewayparameters,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings the releases of an Llmd a step nearer to its spec. What a step
// came to is learnt from Helm's storage in the next.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	facts, err := r.gather(ctx, req.NamespacedName)
	if err != nil || facts == nil {
		return ctrl.Result{}, err
	}
	wanted := llmd.Releases(facts.input())
	record, err := r.prepare(ctx, facts, wanted)
	if err != nil || record == nil {
		return reconcile.End(condition.Classify(err), 0)
	}
	done := r.run(ctx, facts, wanted)
	if err := r.beside(ctx, facts, record, done); err != nil {
		done.fail(err)
	}
	facts.llmd = record.Object
	status := report(facts, done, metav1.NewTime(r.Now()))
	if facts.llmd.DeletionTimestamp != nil && (len(status.Releases) == 0 || r.tooLate(facts.llmd)) {
		return reconcile.End(condition.Classify(r.letGo(ctx, facts.llmd, status.Releases)), 0)
	}
	pass := reconcile.Pass{Progressed: done.acted()}
	if err := record.Write(ctx, status); err != nil {
		return pass.End(condition.Classify(err), 0)
	}
	return pass.End(done.outcome(), done.again())
}
