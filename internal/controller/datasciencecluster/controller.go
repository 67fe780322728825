// Package datasciencecluster runs DataScienceClusters, of whose components
// Slipway knows one: it makes the Llmd that spec.components.llmd asks for, and
// mirrors what that says.
package datasciencecluster

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/datasciencecluster"
)

// Reconciler runs DataScienceClusters.
type Reconciler struct {
	Client client.Client // reads from the cache
	Engine *apply.Engine
	Events events.EventRecorder
	Now    func() time.Time

	memory reconcile.Memory[*datascienceclusterv2.DataScienceCluster]
}

// +kubebuilder:rbac:groups=datasciencecluster.opendatahub.io,resources=datascienceclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=datasciencecluster.opendatahub.io,resources=datascienceclusters/status,verbs=update;patch
// +kubebuilder:rbac:groups=datasciencecluster.opendatahub.io,resources=datascienceclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=components.platform.opendatahub.io,resources=llmds,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile makes the components, and says how they are. What it made goes with
// the resource by owner references, so a deletion needs nothing here.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &datascienceclusterv2.DataScienceCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, cluster); err != nil {
		r.memory.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster = r.memory.Latest(cluster)
	if cluster.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	record := r.record(cluster)
	result, err := r.apply(ctx, record)
	llmd, readErr := r.component(ctx, cluster)
	if readErr != nil {
		return ctrl.Result{}, readErr
	}
	before := cluster.Status.Conditions
	status := report(record.Object, llmd, condition.Classify(err), metav1.NewTime(r.Now()))
	pass := reconcile.Pass{Progressed: result.Wrote()}
	if err := record.Write(ctx, status); err != nil {
		return pass.End(condition.Classify(err), 0)
	}
	r.warn(record.Object, before)
	return pass.End(condition.Classify(err), result.Again)
}

func (r *Reconciler) apply(ctx context.Context, record *record) (apply.Result, error) {
	var wanted []*unstructured.Unstructured
	wanted, err := datasciencecluster.Objects(record.Object)
	if err != nil {
		return apply.Result{}, err
	}
	if len(wanted) == 0 && len(record.Object.Status.Inventory) == 0 {
		return apply.Result{}, nil
	}
	return r.Engine.Apply(ctx, apply.Owner{Object: record.Object}, record, wanted)
}

// component reads the Llmd, if it is this cluster's.
func (r *Reconciler) component(ctx context.Context, cluster *datascienceclusterv2.DataScienceCluster) (*componentsv1alpha1.Llmd, error) {
	found := &componentsv1alpha1.Llmd{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: componentsv1alpha1.LlmdName}, found)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(found, cluster) {
		return nil, nil //nolint:nilnil // there is none
	}
	return found, err
}

// warn records an event when components that nobody here runs are first seen.
func (r *Reconciler) warn(cluster *datascienceclusterv2.DataScienceCluster, before []metav1.Condition) {
	is := condition.Find(cluster.Status.Conditions, datascienceclusterv2.ConditionUnknownComponents)
	was := condition.Find(before, datascienceclusterv2.ConditionUnknownComponents)
	if is != nil && (was == nil || was.Message != is.Message) {
		r.Events.Eventf(cluster, nil, corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
	}
}

// record is the one writer of a resource's status.
type record = reconcile.Record[*datascienceclusterv2.DataScienceCluster, datascienceclusterv2.DataScienceClusterStatus]

func (r *Reconciler) record(cluster *datascienceclusterv2.DataScienceCluster) *record {
	return &record{
		Writer: r.Client, Events: r.Events, Memory: &r.memory, Object: cluster,
		Parts: func(c *datascienceclusterv2.DataScienceCluster) reconcile.StatusParts[datascienceclusterv2.DataScienceClusterStatus] {
			return reconcile.StatusParts[datascienceclusterv2.DataScienceClusterStatus]{
				Status: &c.Status, ObservedGeneration: c.Status.ObservedGeneration,
				Conditions: c.Status.Conditions, Inventory: &c.Status.Inventory,
			}
		},
		Starting: func() datascienceclusterv2.DataScienceClusterStatus {
			return report(cluster, nil, condition.Outcome{Verdict: condition.Done}, metav1.NewTime(r.Now()))
		},
	}
}

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, engine *apply.Engine) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("datasciencecluster").
		For(&datascienceclusterv2.DataScienceCluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&componentsv1alpha1.Llmd{}).
		Complete(&Reconciler{
			Client: mgr.GetClient(), Engine: engine, Events: mgr.GetEventRecorder("slipway"), Now: time.Now,
		})
}

// unknown are the names of the components that Slipway doesn't run.
func unknown(cluster *datascienceclusterv2.DataScienceCluster) []string {
	return slices.Sorted(maps.Keys(cluster.Spec.Components.Unknown))
}
