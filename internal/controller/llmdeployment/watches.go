package llmdeployment

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/llmdeployment"
)

// Owned are the kinds that a deployment makes.
func Owned() []client.Object {
	return []client.Object{
		&corev1.ServiceAccount{},
		&corev1.PersistentVolumeClaim{},
		&corev1.Service{},
		&appsv1.Deployment{},
		&policyv1.PodDisruptionBudget{},
	}
}

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, engine *apply.Engine, evidence *reconcile.Evidence) error {
	reconciler := &Reconciler{
		Client:   mgr.GetClient(),
		Evidence: evidence,
		Engine:   engine,
		Events:   mgr.GetEventRecorder("slipway"),
		Now:      time.Now,
	}
	generation := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	build := ctrl.NewControllerManagedBy(mgr).
		Named("llmdeployment").
		WithOptions(controller.Options{RateLimiter: reconcile.Backoff()}).
		For(&llmv1alpha1.LLMDeployment{}, generation).
		Watches(&llmv1alpha1.LLMModel{}, handler.EnqueueRequestsFromMapFunc(reconciler.usersOf), generation).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(reconcile.Instance(llmdeployment.LabelNameValue)), builder.WithPredicates(reconcile.FaultyPods())).
		Watches(&corev1.Event{}, handler.EnqueueRequestsFromMapFunc(reconcile.Concerned(mgr.GetClient(), llmdeployment.LabelNameValue)))
	for _, kind := range Owned() {
		build = build.Watches(kind, reconcile.Owned(mgr, &llmv1alpha1.LLMDeployment{}))
	}
	return build.Complete(reconciler)
}

// usersOf finds the deployments of a model.
func (r *Reconciler) usersOf(ctx context.Context, model client.Object) []ctrlreconcile.Request {
	var users llmv1alpha1.LLMDeploymentList
	err := r.Client.List(ctx, &users,
		client.InNamespace(model.GetNamespace()),
		client.MatchingFields{reconcile.IndexModelRef: model.GetName()},
		client.UnsafeDisableDeepCopy) // only names are read
	if err != nil {
		return nil // the cache is closing down
	}
	requests := make([]ctrlreconcile.Request, 0, len(users.Items))
	for i := range users.Items {
		requests = append(requests, ctrlreconcile.Request{NamespacedName: client.ObjectKeyFromObject(&users.Items[i])})
	}
	return requests
}
