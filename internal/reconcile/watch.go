package reconcile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slipway-dev/slipway/internal/object"
)

// Instance finds the resource that an object was made for by its labels. name is
// the value of object.LabelName on all that a kind makes.
func Instance(name string) handler.MapFunc {
	return func(_ context.Context, made client.Object) []ctrlreconcile.Request {
		labels := made.GetLabels()
		if labels[object.LabelName] != name {
			return nil
		}
		return []ctrlreconcile.Request{{NamespacedName: types.NamespacedName{
			Namespace: made.GetNamespace(), Name: labels[object.LabelInstance],
		}}}
	}
}

// Concerned finds the resource that an event is about: a failing probe, or a
// claim without a class, shows in nothing but events.
func Concerned(cached client.Reader, name string) handler.MapFunc {
	instance := Instance(name)
	return func(ctx context.Context, about client.Object) []ctrlreconcile.Request {
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
		if err := cached.Get(ctx, key, object); err != nil {
			return nil // not one of ours
		}
		return instance(ctx, object)
	}
}

// FaultyPods lets through what may change a diagnosis. A pod that is ready, was
// just made or is on its way shows in its Deployment's status; looking at each
// would only cost.
func FaultyPods() predicate.Predicate {
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
// or has been started again. A sidecar's state counts like any other's.
func blocked(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Reason != "" {
		return true
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range list {
			waiting := status.State.Waiting
			if status.RestartCount > 0 || status.State.Terminated != nil ||
				waiting != nil && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
				return true
			}
		}
	}
	return false
}
