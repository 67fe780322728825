package reconcile

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/condition"
)

func pod(uid types.UID, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: uid, ResourceVersion: version}}
}

// TestMemory: a cache that lags is overruled, one that has caught up is not, and
// another object of the same name never is.
func TestMemory(t *testing.T) {
	var memory Memory[*corev1.Pod]
	if got := memory.Latest(pod("one", "5")); got.ResourceVersion != "5" {
		t.Errorf("an empty memory gives version %s", got.ResourceVersion)
	}
	memory.Remember(pod("one", "10"))
	if got := memory.Latest(pod("one", "9")); got.ResourceVersion != "10" {
		t.Errorf("a cache at 9 gives %s, want what was written, 10", got.ResourceVersion)
	}
	if got := memory.Latest(pod("another", "9")); got.ResourceVersion != "9" {
		t.Errorf("another object of that name gives %s, want itself", got.ResourceVersion)
	}
	memory.Remember(pod("one", "10"))
	if got := memory.Latest(pod("one", "100")); got.ResourceVersion != "100" {
		t.Errorf("a cache at 100 gives %s", got.ResourceVersion)
	}
	if len(memory.written) != 0 {
		t.Error("what the cache has caught up with is still remembered")
	}
	memory.Remember(pod("one", "10"))
	memory.Remember(pod("one", "9"))
	if got := memory.Latest(pod("one", "8")); got.ResourceVersion != "10" {
		t.Errorf("a version that was read before the last write replaced it: %s", got.ResourceVersion)
	}
	memory.Forget(client.ObjectKeyFromObject(pod("one", "")))
	if len(memory.written) != 0 {
		t.Error("what is gone is still remembered")
	}
}

func TestEnd(t *testing.T) {
	failure := errors.New("broken")
	for name, test := range map[string]struct {
		outcome condition.Outcome
		again   time.Duration
		result  ctrl.Result
		err     error
	}{
		"done":     {condition.Outcome{Verdict: condition.Done}, 0, ctrl.Result{}, nil},
		"stopped":  {condition.Outcome{Verdict: condition.Stopped}, 0, ctrl.Result{}, nil},
		"waiting":  {condition.Outcome{Verdict: condition.Waiting}, time.Second, ctrl.Result{RequeueAfter: time.Second}, nil},
		"retrying": {condition.Outcome{Verdict: condition.Retrying, Retry: failure}, 0, ctrl.Result{}, failure},
		"conflict": {condition.Outcome{Verdict: condition.Retrying, Retry: failure, Silent: true}, 0, ctrl.Result{RequeueAfter: conflictDelay}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := End(test.outcome, test.again)
			if result != test.result || !errors.Is(err, test.err) {
				t.Errorf("got %v and %v, want %v and %v", result, err, test.result, test.err)
			}
		})
	}
}

// TestBackoffIsBounded: however often it failed, a resource is tried again soon.
func TestBackoffIsBounded(t *testing.T) {
	backoff, last := Backoff(), time.Duration(0)
	for range 40 {
		next := backoff.When(ctrl.Request{})
		if next < last || next > lastDelay {
			t.Fatalf("%s follows %s", next, last)
		}
		last = next
	}
	if last != lastDelay {
		t.Errorf("it ends at %s, want %s", last, lastDelay)
	}
	backoff.Forget(ctrl.Request{})
	if first := backoff.When(ctrl.Request{}); first != firstDelay {
		t.Errorf("after a success it begins with %s, want %s", first, firstDelay)
	}
}

// TestProgressIsNoFailure: what failed beside something that was done is tried
// again soon, whatever the backoff says.
func TestProgressIsNoFailure(t *testing.T) {
	outcome := condition.Outcome{Verdict: condition.Retrying, Retry: errors.New("broken")}
	if result, err := (Pass{Progressed: true}).End(outcome, 0); err != nil || result.RequeueAfter != progressDelay {
		t.Errorf("got %v and %v", result, err)
	}
}

// TestAnnounce: faults and their end make events; progress, repetition and a
// good start don't.
func TestAnnounce(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: condition.Ready, Status: status, Reason: reason, Message: "message"}}
	}
	progress := ready(metav1.ConditionFalse, condition.ReasonProgressing)
	fault := ready(metav1.ConditionFalse, "ImageNotFound")
	serving := ready(metav1.ConditionTrue, "Serving")
	for name, test := range map[string]struct {
		before, after []metav1.Condition
		want          string
	}{
		"begins":    {nil, progress, ""},
		"serves":    {progress, serving, ""},
		"breaks":    {serving, fault, "Warning ImageNotFound message"},
		"at once":   {nil, fault, "Warning ImageNotFound message"},
		"repeats":   {fault, fault, ""},
		"recovers":  {fault, serving, "Normal Serving message"},
		"no status": {nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(1)
			Announce(recorder, pod("one", "1"), test.before, test.after)
			got := ""
			select {
			case got = <-recorder.Events:
			default:
			}
			if got != test.want {
				t.Errorf("got event %q, want %q", got, test.want)
			}
		})
	}
}
