package reconcile

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// TestProgressIsGathered: what only tells of progress waits in the queue, and what
// someone changed is there at once.
func TestProgressIsGathered(t *testing.T) {
	was := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "b", UID: "1", Generation: 1, Labels: map[string]string{"a": "b"},
	}}
	changed := func(change func(*appsv1.Deployment)) client.Object {
		is := was.DeepCopy()
		change(is)
		return is
	}
	changes := map[string]struct {
		to    client.Object
		waits bool
	}{
		"the status":       {changed(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }), true},
		"the revision":     {changed(func(d *appsv1.Deployment) { d.Annotations = map[string]string{"revision": "1"} }), true},
		"the spec":         {changed(func(d *appsv1.Deployment) { d.Generation = 2 }), false},
		"a label":          {changed(func(d *appsv1.Deployment) { d.Labels = nil }), false},
		"it is being gone": {changed(func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), false},
		"another one":      {changed(func(d *appsv1.Deployment) { d.UID = "2" }), false},
		"no generations":   {changed(func(d *appsv1.Deployment) { d.Generation = 0 }), false},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			queue := &recorded{}
			about := patient{&handler.EnqueueRequestForObject{}}
			about.Create(t.Context(), event.CreateEvent{Object: was}, queue)
			about.Update(t.Context(), event.UpdateEvent{ObjectOld: was, ObjectNew: change.to}, queue)
			want := []time.Duration{patience, 0}
			if change.waits {
				want[1] = patience
			}
			if !slices.Equal(queue.after, want) {
				t.Errorf("a creation and the change wait %v, want %v", queue.after, want)
			}
		})
	}
}

// recorded is a queue that writes down how long each request is to wait.
type recorded struct {
	priorityqueue.PriorityQueue[ctrl.Request]
	after []time.Duration
}

func (r *recorded) Add(request ctrl.Request) { r.AddWithOpts(priorityqueue.AddOpts{}, request) }

func (r *recorded) AddWithOpts(options priorityqueue.AddOpts, _ ...ctrl.Request) {
	r.after = append(r.after, options.After)
}
