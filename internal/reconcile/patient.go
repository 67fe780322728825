package reconcile

import (
	"context"
	"maps"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// patience is for how long news of progress are gathered before a pass looks at
// them: a workload that comes up tells of it many times, and each pass costs as
// much as one that looks at all of it.
const patience = 250 * time.Millisecond

// Owned finds the owner of an object that a controller made, as a builder's Owns
// does, and lets it wait a moment where an event tells of progress, so that one
// pass serves many of them: that an object was made, and that its status changed.
// A spec or a label that someone changed, and an object that is gone, are seen to
// at once.
func Owned(mgr ctrl.Manager, owner client.Object) handler.EventHandler {
	return patient{handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), owner, handler.OnlyControllerOwner())}
}

type patient struct{ handler.EventHandler }

type requests = workqueue.TypedRateLimitingInterface[ctrl.Request]

func (p patient) Create(ctx context.Context, e event.CreateEvent, queue requests) {
	p.EventHandler.Create(ctx, e, slowly(queue))
}

func (p patient) Update(ctx context.Context, e event.UpdateEvent, queue requests) {
	if isProgress(e.ObjectOld, e.ObjectNew) {
		queue = slowly(queue)
	}
	p.EventHandler.Update(ctx, e, queue)
}

// isProgress tells a change of nothing but the status or the annotations, in which
// a workload's controller counts its revisions. A kind that counts no generations
// tells of none.
func isProgress(before, after client.Object) bool {
	return after.GetGeneration() != 0 && before.GetGeneration() == after.GetGeneration() &&
		before.GetUID() == after.GetUID() && after.GetDeletionTimestamp() == nil &&
		maps.Equal(before.GetLabels(), after.GetLabels())
}

// slow is a queue in which everything that is added waits for the moment.
type slow struct {
	priorityqueue.PriorityQueue[ctrl.Request]
}

func slowly(queue requests) requests {
	if able, is := queue.(priorityqueue.PriorityQueue[ctrl.Request]); is {
		return slow{able}
	}
	return queue
}

func (s slow) Add(request ctrl.Request) { s.AddWithOpts(priorityqueue.AddOpts{}, request) }

func (s slow) AddWithOpts(options priorityqueue.AddOpts, all ...ctrl.Request) {
	options.After = max(options.After, patience)
	s.PriorityQueue.AddWithOpts(options, all...)
}
