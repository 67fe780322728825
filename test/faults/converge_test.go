package faults

import (
	"flag"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/test/bed"
)

// checks is how many histories are tried: each is some twenty passes against a
// real server. -rapid.checks asks for more.
const checks = "25"

// history is a wanted set: which of a few objects, each in one of a few states.
type history struct {
	wanted map[string]int // the name of an object, and its state
	fault  bed.Fault
	at     int // the write that the fault hits
}

func histories() *rapid.Generator[[]history] {
	one := rapid.Custom(func(t *rapid.T) history {
		return history{
			wanted: rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "workload", "service"}), rapid.IntRange(1, 2), 0, 5).Draw(t, "wanted"),
			fault:  bed.Fault(rapid.IntRange(int(bed.None), int(bed.Throttle)).Draw(t, "fault")),
			at:     rapid.IntRange(1, 6).Draw(t, "at"),
		}
	})
	return rapid.SliceOfN(one, 1, 5)
}

func (h history) objects(namespace string) []runtime.Object {
	var all []runtime.Object
	for name, state := range h.wanted {
		switch name {
		case "workload":
			all = append(all, bed.Deployment(namespace, name, fmt.Sprintf("image:v%d", state), int32(3-2*state)))
		case "service":
			all = append(all, bed.Service(namespace, name, int32(state)))
		default:
			all = append(all, bed.ConfigMap(namespace, name, fmt.Sprint(state)))
		}
	}
	return all
}

// TestAnyHistoryEndsInItsLastWish: whatever sets were wanted before, and
// whatever broke on the way, the end is exactly the last set, and the inventory
// names it and nothing else.
func TestAnyHistoryEndsInItsLastWish(t *testing.T) {
	if given := flag.Lookup("rapid.checks"); given.Value.String() == given.DefValue {
		if err := given.Value.Set(checks); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		o := newOperator(t)
		story := histories().Draw(rt, "history")
		for _, each := range story {
			o.wire.DisturbOne(each.at, each.fault)
			_, err := o.pass(each)
			if err != nil && each.fault == bed.None {
				rt.Fatalf("a pass without a fault fails: %v", err)
			}
			o.wire.Disturb(nil)
			if each.fault.Lethal() {
				o.restart()
			}
		}
		last := story[len(story)-1]
		o.settle(applying("last", last.objects))
		if result, err := o.pass(last); err != nil || result.Wrote() {
			rt.Fatalf("after it settled, a pass still did %+v (%v)", result.Changes, err)
		}
		o.isExactly(rt, last)
	})
}

func (o *operator) pass(h history) (apply.Result, error) {
	return o.engine.Apply(o.t.Context(), apply.Owner{Object: o.owner}, o.inventory(), bed.Want(o.t, h.objects(o.namespace)...))
}

// isExactly compares the world with that of a namespace in which nothing but
// the last set was ever wanted.
func (o *operator) isExactly(rt *rapid.T, last history) {
	clean := newOperator(o.t)
	clean.settle(applying("clean", last.objects))
	want := clean.picture()
	got := o.picture()
	if _, there := last.wanted["workload"]; there {
		// A handover leaves the name of its manager on the replicas that it kept.
		ignoreManagers(want, got)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("the world isn't the last wish (-):\n%s", diff)
	}
}

// ignoreManagers takes managers and replicas off a Deployment: a history in
// which replicas were fixed and then left to others keeps the number.
func ignoreManagers(worlds ...bed.World) {
	for _, world := range worlds {
		content := world["Deployment/workload"].(map[string]any)
		delete(content["metadata"].(map[string]any), "managedFields")
		delete(content["spec"].(map[string]any), "replicas")
	}
}
