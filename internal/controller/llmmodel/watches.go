package llmmodel

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// gathering is how long a model waits for more of its deployments to come or go
// before it is counted anew: a thousand deployments that are applied at once
// are a few status writes, not a thousand.
const gathering = 250 * time.Millisecond

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager) error {
	reconciler := &Reconciler{Client: mgr.GetClient(), Now: time.Now}
	return ctrl.NewControllerManagedBy(mgr).
		Named("llmmodel").
		WithOptions(controller.Options{RateLimiter: reconcile.Backoff()}).
		For(&llmv1alpha1.LLMModel{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&llmv1alpha1.LLMDeployment{}, users{}).
		Complete(reconciler)
}

// users enqueues the models that a deployment refers to, or has just ceased to.
type users struct{}

type queue = workqueue.TypedRateLimitingInterface[ctrlreconcile.Request]

var _ handler.EventHandler = users{}

func (users) Create(_ context.Context, e event.CreateEvent, q queue) { enqueue(q, e.Object) }
func (users) Delete(_ context.Context, e event.DeleteEvent, q queue) { enqueue(q, e.Object) }
func (users) Generic(_ context.Context, e event.GenericEvent, q queue) {
	enqueue(q, e.Object)
}

func (users) Update(_ context.Context, e event.UpdateEvent, q queue) {
	if modelRef(e.ObjectOld) != modelRef(e.ObjectNew) {
		enqueue(q, e.ObjectOld)
		enqueue(q, e.ObjectNew)
	}
}

func enqueue(q queue, object client.Object) {
	q.AddAfter(ctrlreconcile.Request{NamespacedName: types.NamespacedName{
		Namespace: object.GetNamespace(), Name: modelRef(object),
	}}, gathering)
}

func modelRef(object client.Object) string {
	if deployment, ok := object.(*llmv1alpha1.LLMDeployment); ok {
		return deployment.Spec.ModelRef
	}
	return ""
}
