package simulatordeployment

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/faults/story"
)

// claimed are the writes of who gets the names, at the least, and of who doesn't;
// statuses of quick successors may be one write.
const claimed = 8

// small has a Deployment of its own name, and its Service and its picker share
// their names with every other one.
func small(namespace, name string) *simv1alpha1.SimulatorDeployment {
	return &simv1alpha1.SimulatorDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       simv1alpha1.SimulatorDeploymentSpec{Replicas: new(int32(1)), EPP: &simv1alpha1.EPPConfig{Enabled: true}},
	}
}

// TestNobodySharesAName: two resources that want the same names come at once, and
// the operator is killed at each of its writes, or the write is refused, or its
// answer is lost. One gets them all, the other waits and makes nothing, until
// the first is gone.
func TestNobodySharesAName(t *testing.T) {
	for _, fault := range []bed.Fault{bed.DieAfter, bed.LoseAnswer, bed.Fail, bed.Conflict} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			n, hit := 1, true
			for ; hit; n++ {
				t.Run(fmt.Sprint(n), func(t *testing.T) { hit = contend(t, n, fault) })
			}
			if n-2 < claimed {
				t.Errorf("%d writes were broken; this test no longer sees them", n-2)
			}
		})
	}
}

func contend(t *testing.T, n int, fault bed.Fault) bool {
	p := story.NewPlace(t, api, controllerName)
	watchHolders(p)
	happened := p.BreakAt(n, fault)
	p.Must(p.User.Create(p.Context(), small(p.Namespace, "one")))
	p.Must(p.User.Create(p.Context(), small(p.Namespace, "two")))
	var first, second string
	settled := func() string {
		var missing string
		first, second, missing = standing(p)
		return missing
	}
	hit := true
	if fault.Lethal() {
		hit = p.AwaitDeath(happened, func() bool { return settled() == "" })
		p.Restart()
	}
	p.Await(settled)
	if !fault.Lethal() {
		select {
		case <-happened:
		default:
			hit = false
		}
	}
	p.Mend()
	if made := madeFor(p, second); len(made) > 0 {
		t.Errorf("%s waits and has made %v", second, made)
	}
	p.Must(p.User.Delete(p.Context(), small(p.Namespace, first)))
	p.Await(func() string { return notReady(read(p, second)) })
	if made := madeFor(p, first); len(made) > 0 {
		t.Errorf("%s is gone and has left %v", first, made)
	}
	p.Must(p.User.Delete(p.Context(), small(p.Namespace, second)))
	p.Await(func() string { return strings.Join(append(madeFor(p, first), madeFor(p, second)...), " ") })
	return hit
}

// watchHolders fails the test as soon as two resources have one name in their
// inventories. The API server tells of changes in their order.
func watchHolders(p *story.Place) {
	p.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	watcher, err := p.User.Watch(ctx, &simv1alpha1.SimulatorDeploymentList{}, client.InNamespace(p.Namespace))
	p.Must(err)
	var ended sync.WaitGroup
	ended.Go(func() {
		held := map[string]map[object.Ref]bool{}
		for event := range watcher.ResultChan() {
			if found, is := event.Object.(*simv1alpha1.SimulatorDeployment); is {
				hold(p, held, found, event.Type == watch.Deleted)
			}
		}
	})
	p.Cleanup(func() {
		cancel()
		ended.Wait()
	})
}

func hold(p *story.Place, held map[string]map[object.Ref]bool, found *simv1alpha1.SimulatorDeployment, gone bool) {
	names := map[object.Ref]bool{}
	for _, entry := range found.Status.Inventory {
		names[object.Ref(entry).Identity()] = !gone
	}
	held[found.Name] = names
	for other, theirs := range held {
		for name := range names {
			if other != found.Name && names[name] && theirs[name] {
				p.Errorf("%s and %s both hold %s", found.Name, other, name.Display())
			}
		}
	}
}

func read(p *story.Place, name string) *simv1alpha1.SimulatorDeployment {
	p.Helper()
	found := small(p.Namespace, name)
	p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(found), found))
	return found
}

// standing tells which of the two serves and which waits, or what is missing for
// that.
func standing(p *story.Place) (first, second, missing string) {
	p.Helper()
	for _, order := range [][2]string{{"one", "two"}, {"two", "one"}} {
		served, waits := read(p, order[0]), condition.Find(read(p, order[1]).Status.Conditions, condition.Ready)
		if notReady(served) == "" && waits != nil && waits.Reason == "NamesTaken" {
			return order[0], order[1], ""
		}
		missing += fmt.Sprintf("%s: %s; ", order[0], notReady(served))
	}
	return "", "", missing
}

// madeFor are the objects that were made for a resource.
func madeFor(p *story.Place, name string) []string {
	p.Helper()
	var found []string
	for _, kind := range bed.Watched() {
		for _, each := range bed.List(p.Context(), p.T, p.User, kind, p.Namespace) {
			if each.GetLabels()[object.LabelManagedBy] == object.ManagedBy && each.GetLabels()[object.LabelInstance] == name {
				found = append(found, each.GetKind()+"/"+each.GetName())
			}
		}
	}
	return found
}
