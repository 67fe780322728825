package integration

import (
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestPruneLeavesWhatIsNoLongerOurs: what another owner took, or what was
// deleted and made anew by someone else, is forgotten and not deleted.
func TestPruneLeavesWhatIsNoLongerOurs(t *testing.T) {
	foreign := []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "else", UID: "11111111-2222-3333-4444-555555555555", Controller: new(true),
	}}
	for name, meddle := range map[string]func(s *stand, data *corev1.ConfigMap){
		"another controller": func(s *stand, data *corev1.ConfigMap) {
			s.change(data, func() { data.OwnerReferences = foreign })
		},
		"released": func(s *stand, data *corev1.ConfigMap) {
			s.change(data, func() { data.OwnerReferences = nil })
		},
		"made anew": func(s *stand, data *corev1.ConfigMap) {
			if err := s.others.Delete(s.Context(), data); err != nil {
				s.Fatal(err)
			}
			s.create(bed.ConfigMap(s.namespace, "data", "theirs"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			s.mustApply(bed.ConfigMap(s.namespace, "data", "1"), bed.Account(s.namespace, "stays"))
			meddle(s, get(s, "data", &corev1.ConfigMap{}))
			want(t, map[string]apply.Action{"ServiceAccount/stays": apply.Unchanged, "ConfigMap/data": apply.Skipped},
				s.mustApply(bed.Account(s.namespace, "stays")))
			want(t, true, s.exists("data", &corev1.ConfigMap{}))
			want(t, []string{"ServiceAccount/stays"}, s.stored())
		})
	}
}

// TestPruneOfWhatChangesHands: between our read and our delete another owner
// takes the object. The delete names the version that was read, so it fails, and
// the second look leaves the object alone.
func TestPruneOfWhatChangesHands(t *testing.T) {
	s := newStand(t)
	s.mustApply(bed.ConfigMap(s.namespace, "data", "1"))
	s.wire.Disturb(func(_ int, call bed.Call) bed.Fault {
		if call.Method == http.MethodDelete {
			data := get(s, "data", &corev1.ConfigMap{})
			s.change(data, func() { data.OwnerReferences = nil })
			s.wire.Disturb(nil)
		}
		return bed.None
	})
	want(t, map[string]apply.Action{"ConfigMap/data": apply.Skipped}, s.mustApply())
	want(t, true, s.exists("data", &corev1.ConfigMap{}))
}

// TestSurvivorsStayInTheInventory until they are gone, and what comes after
// them in a teardown waits.
func TestSurvivorsStayInTheInventory(t *testing.T) {
	s := newStand(t)
	s.mustApply(bed.ConfigMap(s.namespace, "data", "1"), bed.Account(s.namespace, "chat"))
	data := get(s, "data", &corev1.ConfigMap{})
	s.change(data, func() { data.Finalizers = []string{"example.com/hold"} })
	result, err := s.apply()
	if err != nil {
		t.Fatal(err)
	}
	want(t, map[string]apply.Action{"ConfigMap/data": apply.Deleted}, actions(result))
	want(t, true, result.Again > 0)
	want(t, []string{"ServiceAccount/chat", "ConfigMap/data"}, s.stored())
	want(t, true, s.exists("chat", &corev1.ServiceAccount{}))

	s.wire.Take()
	s.mustApply()
	want(t, 0, len(s.wire.TakeWrites()))

	// Wanted again while it still goes: it is waited for, and the rest stays.
	_, err = s.apply(bed.ConfigMap(s.namespace, "data", "2"))
	if !condition.IsWait(err) || !strings.Contains(err.Error(), "is being deleted; it is made again as soon as it is gone") {
		t.Errorf("got %v", err)
	}

	data = get(s, "data", &corev1.ConfigMap{})
	s.change(data, func() { data.Finalizers = nil })
	s.mustApply()
	want(t, []string{}, s.stored())
	want(t, false, s.exists("chat", &corev1.ServiceAccount{}))
}

func TestDeleteTearsDownInReverseAndWaits(t *testing.T) {
	s := newStand(t)
	s.mustApply(everything(s.namespace)...)
	workload := get(s, "chat", &appsv1.Deployment{})
	s.change(workload, func() { workload.Finalizers = []string{"example.com/hold"} })
	s.wire.Take()
	owner := apply.Owner{Object: s.owner}
	_, err := s.engine.Delete(t.Context(), owner, s.inventory)
	if !condition.IsWait(err) || !strings.Contains(err.Error(), "and ServiceAccount") && !strings.Contains(err.Error(), "Deployment "+s.namespace+"/chat") {
		t.Errorf("got %v, want a wait for the Deployment", err)
	}
	want(t, []string{
		"DELETE poddisruptionbudgets/chat", "DELETE services/chat", "DELETE deployments/chat",
	}, through(s.wire.TakeWrites()))
	want(t, true, s.exists("chat", &corev1.ServiceAccount{}))

	workload = get(s, "chat", &appsv1.Deployment{})
	s.change(workload, func() { workload.Finalizers = nil })
	if _, err := s.engine.Delete(t.Context(), owner, s.inventory); err != nil {
		t.Fatal(err)
	}
	want(t, map[string]bool{"ConfigMap/owner": true}, names(bed.Picture(t, s.others, s.namespace, s.owner)))
	if _, err := s.engine.Delete(t.Context(), owner, s.inventory); err != nil {
		t.Errorf("a second delete: %v", err)
	}
}

// TestAStaleInventoryIsNotWrittenOver: the owner was changed since it was read,
// by another process that made more. The save conflicts and nothing is made.
func TestAStaleInventoryIsNotWrittenOver(t *testing.T) {
	s := newStand(t)
	stale := &bed.Inventory{Client: s.ours, Owner: s.inventory.Owner.DeepCopy(), Stale: true}
	s.mustApply(bed.ConfigMap(s.namespace, "first", "1"))
	_, err := s.engine.Apply(t.Context(), apply.Owner{Object: s.owner}, stale, bed.Want(t, bed.ConfigMap(s.namespace, "second", "1")))
	if !condition.Classify(err).Silent {
		t.Errorf("got %v, want a conflict", err)
	}
	want(t, false, s.exists("second", &corev1.ConfigMap{}))
	s.mustApply(bed.ConfigMap(s.namespace, "second", "1"))
	want(t, false, s.exists("first", &corev1.ConfigMap{}))
}

// TestAnInventoryOfAVersionThatIsNoLongerServed: the object is found in the
// version that is, and one of a kind that is gone is forgotten.
func TestAnInventoryOfAVersionThatIsNoLongerServed(t *testing.T) {
	s := newStand(t)
	s.mustApply(bed.Budget(s.namespace, "chat"))
	old := object.Ref{Group: "policy", Version: "v1beta1", Kind: "PodDisruptionBudget", Namespace: s.namespace, Name: "chat"}
	gone := object.Ref{Group: "example.com", Version: "v1", Kind: "Gone", Namespace: s.namespace, Name: "x"}
	if _, err := s.inventory.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.inventory.Save(t.Context(), []object.Ref{old, gone}); err != nil {
		t.Fatal(err)
	}
	want(t, map[string]apply.Action{"PodDisruptionBudget/chat": apply.Deleted}, s.mustApply())
	want(t, []string{}, s.stored())
}
