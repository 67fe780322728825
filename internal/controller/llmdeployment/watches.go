package llmdeployment

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/object"
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
		For(&llmv1alpha1.LLMDeployment{}, generation).
		Watches(&llmv1alpha1.LLMModel{}, handler.EnqueueRequestsFromMapFunc(reconciler.usersOf), generation).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(instanceOf), builder.WithPredicates(faultyPods())).
		Watches(&corev1.Event{}, handler.EnqueueRequestsFromMapFunc(reconciler.concernedBy))
	for _, kind := range Owned() {
		build = build.Owns(kind)
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

// instanceOf finds the deployment that an object was made for.
func instanceOf(_ context.Context, made client.Object) []ctrlreconcile.Request {
	labels := made.GetLabels()
	if labels[object.LabelName] != llmdeployment.LabelNameValue {
		return nil
	}
	return []ctrlreconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: made.GetNamespace(), Name: labels[object.LabelInstance],
	}}}
}

// concernedBy finds the deployment that an event is about: a failing probe, or a
// claim without a class, shows in nothing but events.
func (r *Reconciler) concernedBy(ctx context.Context, about client.Object) []ctrlreconcile.Request {
	event, ok := about.(*corev1.Event)
	if !ok {
		return nil
	}
	var object client.Object
	switch event.InvolvedObject.Kind {
	case "Pod":
		object = &corev1.Pod{}
	case "PersistentVolumeClaim":
		object = &corev1.PersistentVolumeClaim{}
	default:
		return nil
	}
	key := types.NamespacedName{Namespace: event.InvolvedObject.Namespace, Name: event.InvolvedObject.Name}
	if err := r.Client.Get(ctx, key, object); err != nil {
		return nil // not one of ours
	}
	return instanceOf(ctx, object)
}

// faultyPods lets through what may change a diagnosis. A pod that is ready, was
// just made or is on its way shows in its Deployment's status; looking at each
// would only cost.
func faultyPods() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && !ready(pod) && (blocked(pod) || unscheduled(pod))
	})
}

func ready(pod *corev1.Pod) bool { return conditionIs(pod, corev1.PodReady, corev1.ConditionTrue) }

func unscheduled(pod *corev1.Pod) bool {
	return conditionIs(pod, corev1.PodScheduled, corev1.ConditionFalse)
}

func conditionIs(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == status
		}
	}
	return false
}

// blocked tells whether a container waits for more than its creation, has ended,
// or has been started again.
func blocked(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Reason != "" {
		return true
	}
	for _, status := range pod.Status.ContainerStatuses {
		waiting := status.State.Waiting
		if status.RestartCount > 0 || status.State.Terminated != nil ||
			waiting != nil && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
			return true
		}
	}
	return false
}
