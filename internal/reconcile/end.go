package reconcile

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/condition"
)

// End turns an outcome into what the work queue is told: an error is retried
// with backoff, a conflict at once and in silence, and what is waited for is
// looked at again after the given time at the latest (zero: a watch tells).
func End(outcome condition.Outcome, again time.Duration) (ctrl.Result, error) {
	return Pass{}.End(outcome, again)
}

// Pass is what a pass got done.
type Pass struct {
	// Progressed is true when something was written. What failed beside it is then
	// tried again soon: the backoff is for a pass that gets nowhere, and would else
	// grow with each of many objects that fail in turn.
	Progressed bool
}

// End is End for such a pass.
func (p Pass) End(outcome condition.Outcome, again time.Duration) (ctrl.Result, error) {
	switch {
	case outcome.Silent:
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	case outcome.Retry != nil && p.Progressed:
		return ctrl.Result{RequeueAfter: progressDelay}, nil
	case outcome.Retry != nil:
		return ctrl.Result{}, outcome.Retry
	default:
		return ctrl.Result{RequeueAfter: again}, nil
	}
}

// Backoff is how long a resource that can't be brought on waits between tries:
// twice as long each time, up to a bound, so that it goes on soon after an API
// server that was away for long is back. The usual bound is a quarter of an hour.
func Backoff() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstDelay, lastDelay)
}

// Bounds of the backoff.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = 30 * time.Second
)

// conflictDelay lets the cache see what we conflicted with.
const conflictDelay = 20 * time.Millisecond

// progressDelay is before the rest of a pass that got on is tried again.
const progressDelay = 200 * time.Millisecond

// Announce records an event when a resource's Ready condition turned: a warning
// for a fault that wasn't told yet, a normal one when a fault is over. What goes
// well from the start makes no noise.
func Announce(recorder events.EventRecorder, object client.Object, before, after []metav1.Condition) {
	was, is := condition.Find(before, condition.Ready), condition.Find(after, condition.Ready)
	if is == nil || was != nil && was.Reason == is.Reason && was.Status == is.Status {
		return
	}
	switch {
	case isFault(is):
		recorder.Eventf(object, nil, corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
	case is.Status == metav1.ConditionTrue && was != nil && isFault(was):
		recorder.Eventf(object, nil, corev1.EventTypeNormal, is.Reason, "Reconcile", "%s", is.Message)
	}
}

// isFault tells a fault from work in progress.
func isFault(ready *metav1.Condition) bool {
	return ready.Status == metav1.ConditionFalse && ready.Reason != condition.ReasonProgressing
}
