// Package platformstack runs PlatformStacks in the operator: it has the engine
// (package stack) make a pass over a stack whenever something of it changes, and
// tells what came of it.
package platformstack

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/reconcile/stack"
)

// Reconciler runs PlatformStacks.
type Reconciler struct {
	// Server reads from the API server itself: a pass begins with what it wrote last.
	Server client.Reader
	Engine *stack.Engine
	Events events.EventRecorder

	follower *follower
}

// What a stack installs is made with the rights of the account that it names, and
// so is what it reads. To impersonate that account is a right that whoever makes it
// gives to Slipway, for this one account (config/samples has it): one for all
// accounts would be every right in the cluster.
//
// +kubebuilder:rbac:groups=platform.slipway.dev,resources=platformstacks,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=platform.slipway.dev,resources=platformstacks/status,verbs=update;patch
// +kubebuilder:rbac:groups=platform.slipway.dev,resources=platformstacks/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile makes one pass over a stack.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	current := &platformv1alpha1.PlatformStack{}
	if err := r.Server.Get(ctx, req.NamespacedName, current); err != nil {
		r.follower.follow(req.Name, nil, nil)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	done, err := r.Engine.Run(ctx, current)
	if err != nil {
		return reconcile.End(condition.Classify(err), 0)
	}
	for _, left := range done.Left {
		r.Events.Eventf(current, nil, corev1.EventTypeWarning, "ReleaseLeftBehind", "Delete",
			"release %s in namespace %s couldn't be uninstalled in %s and is left; remove it with helm uninstall", left.Name, left.Namespace, stack.TeardownDeadline)
	}
	if done.Stack == nil {
		r.follower.follow(req.Name, nil, nil)
		return ctrl.Result{}, nil
	}
	reconcile.Announce(r.Events, done.Stack, current.Status.Conditions, done.Stack.Status.Conditions)
	r.follower.follow(req.Name, done.Rights, done.Followed)
	pass := reconcile.Pass{Progressed: done.Acted}
	return pass.End(done.Outcome, done.Again)
}

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, options stack.Options) error {
	// What a stack consists of is read from the server: it may be of any kind.
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	options.Config, options.Client = mgr.GetConfig(), direct
	r := &Reconciler{
		Server: mgr.GetAPIReader(), Engine: stack.New(options), Events: mgr.GetEventRecorder("slipway"),
		follower: newFollower(mgr.GetRESTMapper()),
	}
	if err := mgr.Add(r.follower); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("platformstack").
		For(&platformv1alpha1.PlatformStack{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WatchesRawSource(source.Channel(r.follower.changed, &handler.EnqueueRequestForObject{})).
		WithLogConstructor(func(*ctrlreconcile.Request) logr.Logger {
			return mgr.GetLogger().WithValues("controller", "platformstack")
		}).
		Complete(r)
}
