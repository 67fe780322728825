package faults

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/test/bed"
)

// passes bounds how often a pass is repeated until it succeeds. One fault costs
// one pass.
const passes = 4

// operator is one process after another that works for one owner.
type operator struct {
	t         *testing.T
	namespace string
	owner     *corev1.ConfigMap
	wire      *bed.Wire
	ours      client.Client
	others    client.Client
	engine    *apply.Engine
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{t: t, wire: &bed.Wire{}, others: bed.Client(t, server)}
	o.ours = bed.Client(t, o.wire.Through(server))
	o.namespace = bed.Namespace(t, o.others)
	o.owner = bed.NewOwner(t, o.others, o.namespace, "owner")
	o.restart()
	return o
}

// restart forgets all that a process remembers.
func (o *operator) restart() { o.engine = apply.New(apply.Options{Client: o.ours}) }

func (o *operator) inventory() *bed.Inventory {
	return &bed.Inventory{Client: o.ours, Owner: o.owner.DeepCopy()}
}

// step is one thing that a user asks for.
type step struct {
	name string
	do   func(ctx context.Context, o *operator) error
}

func applying(name string, wanted func(namespace string) []runtime.Object) step {
	return step{name: name, do: func(ctx context.Context, o *operator) error {
		_, err := o.engine.Apply(ctx, apply.Owner{Object: o.owner}, o.inventory(), bed.Want(o.t, wanted(o.namespace)...))
		return err
	}}
}

// story is a resource's life: made, changed (one object changed, one let go, one
// handed to an autoscaler, two dropped, one more), torn down.
var story = []step{
	applying("create", func(ns string) []runtime.Object {
		return []runtime.Object{
			bed.Account(ns, "chat"), bed.ConfigMap(ns, "settings", "1"), bed.Service(ns, "chat", 8080),
			bed.Deployment(ns, "chat", "example/chat:v1", 4), bed.Budget(ns, "chat"),
		}
	}),
	applying("update", func(ns string) []runtime.Object {
		return []runtime.Object{
			bed.Account(ns, "chat"), bed.Service(ns, "chat", 9090), bed.ConfigMap(ns, "more", "1"),
			bed.Deployment(ns, "chat", "example/chat:v2", -1),
		}
	}),
	{name: "delete", do: func(ctx context.Context, o *operator) error {
		_, err := o.engine.Delete(ctx, apply.Owner{Object: o.owner}, o.inventory())
		return err
	}},
}

// settle repeats a step until it succeeds, as a work queue does.
func (o *operator) settle(step step) {
	o.t.Helper()
	var err error
	for range passes {
		if err = step.do(o.t.Context(), o); err == nil {
			return
		}
	}
	o.t.Fatalf("%s still fails after %d passes: %v", step.name, passes, err)
}

// TestTheWorldEndsTheSame: for every step of a story, every write in it and
// every fault, the next passes end in the world of the run without the fault.
func TestTheWorldEndsTheSame(t *testing.T) {
	faultless := newOperator(t)
	writes, worlds := make([]int, len(story)), make([]bed.World, len(story))
	for i, step := range story {
		faultless.wire.Take()
		faultless.settle(step)
		writes[i] = len(faultless.wire.TakeWrites())
		worlds[i] = faultless.picture()
	}
	if writes[0] != 6 || writes[1] != 8 || writes[2] != 4 {
		t.Fatalf("the story has %v writes; it no longer is what this test was made for", writes)
	}
	for at, broken := range story {
		for n := 1; n <= writes[at]; n++ {
			for fault := bed.DieBefore; fault <= bed.Throttle; fault++ {
				t.Run(fmt.Sprintf("%s/%d/%s", broken.name, n, fault), func(t *testing.T) {
					t.Parallel()
					o := newOperator(t)
					for _, before := range story[:at] {
						o.settle(before)
					}
					o.breakAt(broken, n, fault)
					o.settle(broken)
					compare(t, worlds[at], o.picture())
					for i, after := range story[at+1:] {
						o.settle(after)
						compare(t, worlds[at+1+i], o.picture())
					}
				})
			}
		}
	}
}

// breakAt runs a step into its fault. After a death a new process goes on.
func (o *operator) breakAt(step step, n int, fault bed.Fault) {
	o.t.Helper()
	o.wire.DisturbOne(n, fault)
	err := step.do(o.t.Context(), o)
	o.wire.Disturb(nil)
	if err == nil && fault.Lethal() {
		o.t.Fatalf("the process survived its death at write %d", n)
	}
	if fault.Lethal() {
		o.restart()
	}
}

func (o *operator) picture() bed.World {
	o.t.Helper()
	return bed.Picture(o.t, o.others, o.namespace, o.owner)
}

func compare(t *testing.T, faultless, got bed.World) {
	t.Helper()
	if diff := cmp.Diff(faultless, got); diff != "" {
		t.Errorf("the world differs from the one without the fault (-):\n%s", diff)
	}
}

// TestADeathLeavesNothingUnrecorded: whatever is there after a death is in the
// inventory that is stored then, so that it can always be found again.
func TestADeathLeavesNothingUnrecorded(t *testing.T) {
	for n := 1; n <= 6; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			o := newOperator(t)
			o.breakAt(story[0], n, bed.DieAfter)
			refs, err := o.inventory().Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			recorded := map[string]bool{"ConfigMap/owner": true}
			for _, ref := range refs {
				recorded[ref.Kind+"/"+ref.Name] = true
			}
			there := o.picture()
			if len(there) != n {
				t.Errorf("%d objects are there after %d writes", len(there), n)
			}
			for name := range there {
				if !recorded[name] {
					t.Errorf("%s was made and isn't in the inventory", name)
				}
			}
		})
	}
}
