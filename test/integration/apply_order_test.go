package integration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
)

// tail is the resource and the name that a path ends in.
func tail(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

func everything(namespace string) []runtime.Object {
	return []runtime.Object{
		bed.Budget(namespace, "chat"),
		bed.Deployment(namespace, "chat", "example/chat:v1", 2),
		bed.Service(namespace, "chat", 8080),
		bed.Account(namespace, "chat"),
	}
}

// TestOrderOfRequests: the inventory is written before anything is made, objects
// in the order of their kinds, the pruned ones in reverse, and the inventory
// again only when it changes.
func TestOrderOfRequests(t *testing.T) {
	s := newStand(t)
	s.mustApply(everything(s.namespace)...)
	want(t, []string{
		"GET configmaps/owner", "PATCH configmaps/owner",
		"GET serviceaccounts/chat", "PATCH serviceaccounts/chat",
		"GET deployments/chat", "PATCH deployments/chat",
		"GET services/chat", "PATCH services/chat",
		"GET poddisruptionbudgets/chat", "PATCH poddisruptionbudgets/chat",
	}, through(s.wire.Take()))

	s.mustApply(bed.ConfigMap(s.namespace, "other", "1"), bed.Account(s.namespace, "chat"))
	want(t, []string{
		"PATCH configmaps/owner", // old ∪ wanted
		"PATCH configmaps/other",
		"DELETE poddisruptionbudgets/chat", "DELETE services/chat", "DELETE deployments/chat",
		"PATCH configmaps/owner", // wanted
	}, through(s.wire.TakeWrites()))
	want(t, []string{"ServiceAccount/chat", "ConfigMap/other"}, s.stored())
}

func TestNothingIsMadeWhenTheInventoryCannotBeWritten(t *testing.T) {
	s := newStand(t)
	s.wire.DisturbOne(1, bed.Conflict)
	_, err := s.apply(everything(s.namespace)...)
	if outcome := condition.Classify(err); err == nil || !outcome.Silent || outcome.Retry == nil {
		t.Errorf("got %v, want a conflict that is retried in silence", err)
	}
	want(t, 1, len(s.wire.TakeWrites()))
	want(t, map[string]bool{"ConfigMap/owner": true}, names(bed.Picture(t, s.others, s.namespace, s.owner)))
}

func names(world bed.World) map[string]bool {
	all := map[string]bool{}
	for name := range world {
		all[name] = true
	}
	return all
}

func TestDuplicatesAndNamelessObjectsAreRefusedBeforeAnyRequest(t *testing.T) {
	s := newStand(t)
	for name, wanted := range map[string][]runtime.Object{
		"ConfigMap " + s.namespace + "/twice is wanted twice; give one of them another name": {
			bed.ConfigMap(s.namespace, "twice", "1"), bed.ConfigMap(s.namespace, "twice", "2"),
		},
	} {
		_, err := s.apply(wanted...)
		if !condition.IsStop(err) || err.Error() != name {
			t.Errorf("got %v, want %q", err, name)
		}
	}
	want(t, 0, len(s.wire.Take()))
}

// TestSecondPassIsFree: nothing is written, and nothing is read but what the
// cache would answer. Without a cache that is one read for each object.
func TestSecondPassIsFree(t *testing.T) {
	s := newStand(t)
	first := s.mustApply(everything(s.namespace)...)
	want(t, map[string]apply.Action{
		"ServiceAccount/chat": apply.Created, "Service/chat": apply.Created,
		"Deployment/chat": apply.Created, "PodDisruptionBudget/chat": apply.Created,
	}, first)
	s.wire.Take()
	second := s.mustApply(everything(s.namespace)...)
	for name, action := range second {
		want(t, apply.Unchanged, action)
		_ = name
	}
	for _, call := range s.wire.Take() {
		if call.Writes() {
			t.Errorf("a second pass wrote %s %s", call.Method, call.Path)
		}
	}
}

// TestFreshProcessWritesNothingNew: an engine that remembers nothing applies
// once more, which the server takes as no change: no new generation, no pod
// restarted.
func TestFreshProcessWritesNothingNew(t *testing.T) {
	s := newStand(t)
	s.mustApply(everything(s.namespace)...)
	before := versions(s)
	s.restart()
	for _, action := range s.mustApply(everything(s.namespace)...) {
		want(t, apply.Unchanged, action)
	}
	want(t, before, versions(s))
}
