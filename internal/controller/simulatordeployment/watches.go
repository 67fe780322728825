package simulatordeployment

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// Owned are the kinds that every stack may make. The optional ones are watched
// as long as the cluster serves them.
func Owned() []client.Object {
	return []client.Object{
		&corev1.ServiceAccount{},
		&corev1.ConfigMap{},
		&rbacv1.Role{},
		&rbacv1.RoleBinding{},
		&corev1.Service{},
		&appsv1.Deployment{},
		&policyv1.PodDisruptionBudget{},
	}
}

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, engine *apply.Engine, evidence *reconcile.Evidence) error {
	r := &Reconciler{
		Client:   mgr.GetClient(),
		Server:   mgr.GetAPIReader(),
		Evidence: evidence,
		Engine:   engine,
		Events:   mgr.GetEventRecorder("slipway"),
		Now:      time.Now,
		served:   &reconcile.Served{Server: mgr.GetAPIReader(), Kinds: simulatordeployment.Optional()},
		claims:   newClaims(),
	}
	enqueue := handler.EnqueueRequestsFromMapFunc
	build := ctrl.NewControllerManagedBy(mgr).
		Named("simulatordeployment").
		WithOptions(controller.Options{RateLimiter: reconcile.Backoff()}).
		For(&simv1alpha1.SimulatorDeployment{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&simv1alpha1.SimulatorDeployment{}, enqueue(r.waiting), builder.WithPredicates(releases())).
		Watches(&corev1.Pod{}, enqueue(reconcile.Instance(simulatordeployment.LabelNameValue)), builder.WithPredicates(reconcile.FaultyPods())).
		Watches(&corev1.Event{}, enqueue(reconcile.Concerned(mgr.GetClient(), simulatordeployment.LabelNameValue))).
		WatchesMetadata(reconcile.Definition(), enqueue(r.all), builder.WithPredicates(predicate.NewPredicateFuncs(r.definitionChanged)))
	for _, kind := range Owned() {
		build = build.Watches(kind, reconcile.Owned(mgr, &simv1alpha1.SimulatorDeployment{})).
			Watches(kind, enqueue(r.waiting), builder.WithPredicates(deletions()))
	}
	made, err := build.Build(r)
	if err != nil {
		return err
	}
	r.watch = &optionalWatches{manager: mgr, controller: made, waiting: r.waiting, all: r.all, kinds: simulatordeployment.Optional()}
	return nil
}

// definitionChanged lets through the definitions of optional kinds, and forgets
// what was known of them.
func (r *Reconciler) definitionChanged(definition client.Object) bool {
	if !r.served.Concerns(definition.GetName()) {
		return false
	}
	r.served.Changed(definition.GetName())
	return true
}

// all finds every resource: what the cluster serves concerns each.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []ctrlreconcile.Request {
	return r.those(ctx, func(*simv1alpha1.SimulatorDeployment) bool { return true })
}

// waiting finds the resources of a namespace that wait for names.
func (r *Reconciler) waiting(ctx context.Context, other client.Object) []ctrlreconcile.Request {
	return r.those(ctx, func(each *simv1alpha1.SimulatorDeployment) bool {
		ready := condition.Find(each.Status.Conditions, condition.Ready)
		return each.UID != other.GetUID() && ready != nil && isTaken(ready.Reason)
	}, client.InNamespace(other.GetNamespace()))
}

func (r *Reconciler) those(ctx context.Context, meant func(*simv1alpha1.SimulatorDeployment) bool, options ...client.ListOption) []ctrlreconcile.Request {
	var list simv1alpha1.SimulatorDeploymentList
	if err := r.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache is closing down
	}
	var requests []ctrlreconcile.Request
	for i := range list.Items {
		if each := r.memory.Peek(&list.Items[i]); meant(each) {
			requests = append(requests, ctrlreconcile.Request{NamespacedName: client.ObjectKeyFromObject(each)})
		}
	}
	return requests
}

// releases lets through the end of a resource and the release of a name.
func releases() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*simv1alpha1.SimulatorDeployment), e.ObjectNew.(*simv1alpha1.SimulatorDeployment)
			return len(after.Status.Inventory) < len(before.Status.Inventory)
		},
	}
}

func deletions() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// optionalWatches watch the optional kinds while they are served.
type optionalWatches struct {
	manager    ctrl.Manager
	controller controller.Controller
	waiting    handler.MapFunc
	all        handler.MapFunc
	kinds      []object.OptionalKind

	mu       sync.Mutex
	versions []string // that are watched
}

// follow starts a watch for each kind that came, and ends that of each that went.
func (w *optionalWatches) follow(ctx context.Context, versions []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(w.versions, versions) {
		return nil
	}
	if w.versions == nil {
		w.versions = make([]string, len(versions))
	}
	for i, version := range versions {
		if w.versions[i] == version || w.kinds[i].Kind == "InferenceObjective" {
			continue
		}
		if w.versions[i] != "" {
			if err := w.manager.GetCache().RemoveInformer(ctx, blank(w.kinds[i], w.versions[i])); err != nil {
				return fmt.Errorf("end the watch of %s: %w", w.kinds[i].Kind, err)
			}
		}
		if version != "" {
			if err := w.start(blank(w.kinds[i], version)); err != nil {
				return fmt.Errorf("watch %s: %w", w.kinds[i].Kind, err)
			}
		}
		w.versions[i] = version
	}
	w.versions = slices.Clone(versions)
	return nil
}

func (w *optionalWatches) start(kind client.Object) error {
	owner := reconcile.Owned(w.manager, &simv1alpha1.SimulatorDeployment{})
	if err := w.controller.Watch(source.Kind(w.manager.GetCache(), kind, owner)); err != nil {
		return err
	}
	if err := w.controller.Watch(reconcile.Synced(w.manager.GetCache(), kind, w.all)); err != nil {
		return err
	}
	return w.controller.Watch(source.Kind(w.manager.GetCache(), kind,
		handler.EnqueueRequestsFromMapFunc(w.waiting), deletions()))
}

func blank(kind object.OptionalKind, version string) client.Object {
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: version, Kind: kind.Kind})
	return made
}
