package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestAdoption has a row for each rule: what is there already, and what becomes
// of it.
func TestAdoption(t *testing.T) {
	controlledBy := func(kind, name string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	}
	for _, test := range []struct {
		name    string
		there   func(there *corev1.ConfigMap, s *stand)
		verdict condition.Verdict
		says    string
	}{
		{"ours", func(there *corev1.ConfigMap, s *stand) {
			there.OwnerReferences = controlledBy("ConfigMap", "owner", s.owner.UID)
		}, condition.Done, ""},
		{"from a backup: our labels, nobody's", func(*corev1.ConfigMap, *stand) {}, condition.Done, ""},
		{"handed over", func(there *corev1.ConfigMap, _ *stand) {
			there.Labels = nil
			there.Annotations = map[string]string{object.AnnotationAdopt: "true"}
		}, condition.Done, ""},
		{"of an earlier owner of our name", func(there *corev1.ConfigMap, _ *stand) {
			there.OwnerReferences = controlledBy("ConfigMap", "owner", "11111111-2222-3333-4444-555555555555")
		}, condition.Waiting, "belongs to an earlier ConfigMap NAMESPACE/owner and is being cleaned up; waiting until it is gone"},
		{"controlled by another", func(there *corev1.ConfigMap, _ *stand) {
			there.OwnerReferences = controlledBy("ReplicaSet", "web", "11111111-2222-3333-4444-555555555555")
		}, condition.Stopped, "exists and is controlled by ReplicaSet web; rename this ConfigMap, or delete the other one"},
		{"controlled by another and handed over", func(there *corev1.ConfigMap, _ *stand) {
			there.OwnerReferences = controlledBy("ReplicaSet", "web", "11111111-2222-3333-4444-555555555555")
			there.Annotations = map[string]string{object.AnnotationAdopt: "true"}
		}, condition.Stopped, "is controlled by ReplicaSet web"},
		{"a person's", func(there *corev1.ConfigMap, _ *stand) { there.Labels = nil },
			condition.Stopped, "exists and wasn't made for this ConfigMap; delete it, or hand it over with the annotation slipway.dev/adopt=true on it"},
		{"Slipway's, of another instance", func(there *corev1.ConfigMap, _ *stand) {
			there.Labels[object.LabelInstance] = "else"
		}, condition.Stopped, "wasn't made for this ConfigMap"},
		{"Helm's, of the same instance", func(there *corev1.ConfigMap, _ *stand) {
			there.Labels[object.LabelManagedBy] = "Helm"
		}, condition.Stopped, "wasn't made for this ConfigMap"},
		{"of an owner elsewhere", func(there *corev1.ConfigMap, _ *stand) {
			there.Labels[object.LabelOwnerUID] = "11111111-2222-3333-4444-555555555555"
			there.Annotations = map[string]string{object.AnnotationOwner: "v1/ConfigMap/elsewhere/owner"}
		}, condition.Stopped, "belongs to ConfigMap elsewhere/owner"},
		{"of an earlier owner of our name, by label", func(there *corev1.ConfigMap, s *stand) {
			there.Labels[object.LabelOwnerUID] = "11111111-2222-3333-4444-555555555555"
			there.Annotations = map[string]string{object.AnnotationOwner: "v1/ConfigMap/" + s.namespace + "/owner"}
		}, condition.Done, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStand(t)
			there := bed.ConfigMap(s.namespace, "data", "theirs")
			test.there(there, s)
			s.create(there)
			result, err := s.apply(bed.ConfigMap(s.namespace, "data", "ours"), bed.Account(s.namespace, "free"))
			outcome := condition.Classify(err)
			want(t, test.verdict, outcome.Verdict)
			if says := strings.ReplaceAll(outcome.Message, s.namespace, "NAMESPACE"); !strings.Contains(says, test.says) {
				t.Errorf("it says %q, want %q", says, test.says)
			}
			want(t, apply.Created, actions(result)["ServiceAccount/free"])
			after := get(s, "data", &corev1.ConfigMap{})
			want(t, there.UID, after.UID)
			if test.verdict == condition.Done {
				want(t, map[string]string{"value": "ours"}, after.Data)
				want(t, s.owner.UID, metav1.GetControllerOf(after).UID)
			} else {
				want(t, map[string]string{"value": "theirs"}, after.Data)
				want(t, there.ResourceVersion, after.ResourceVersion)
			}
		})
	}
}

// TestAForeignObjectThatAppearsMeanwhile: between our read and our write someone
// else creates an object of that name. It isn't taken over.
func TestAForeignObjectThatAppearsMeanwhile(t *testing.T) {
	s := newStand(t)
	s.wire.Disturb(func(_ int, call bed.Call) bed.Fault {
		if strings.HasSuffix(call.Path, "/data") {
			foreign := bed.ConfigMap(s.namespace, "data", "theirs")
			foreign.Labels = nil
			s.create(foreign)
			s.wire.Disturb(nil)
		}
		return bed.None
	})
	_, err := s.apply(bed.ConfigMap(s.namespace, "data", "ours"))
	if !condition.IsStop(err) {
		t.Errorf("got %v, want a Stop", err)
	}
	want(t, map[string]string{"value": "theirs"}, get(s, "data", &corev1.ConfigMap{}).Data)
}

// TestAnObjectThatIsReplacedMeanwhile: between our read and our write ours is
// deleted and someone else creates one of that name. The write names the object
// that was read, so it fails, and the second look leaves the other alone.
func TestAnObjectThatIsReplacedMeanwhile(t *testing.T) {
	s := newStand(t)
	s.mustApply(bed.ConfigMap(s.namespace, "data", "1"))
	s.wire.Disturb(func(_ int, call bed.Call) bed.Fault {
		if strings.HasSuffix(call.Path, "/data") {
			s.wire.Disturb(nil)
			if err := s.others.Delete(s.Context(), get(s, "data", &corev1.ConfigMap{})); err != nil {
				s.Fatal(err)
			}
			foreign := bed.ConfigMap(s.namespace, "data", "theirs")
			foreign.Labels = nil
			s.create(foreign)
		}
		return bed.None
	})
	_, err := s.apply(bed.ConfigMap(s.namespace, "data", "2"))
	if !condition.IsStop(err) {
		t.Errorf("got %v, want a Stop", err)
	}
	want(t, map[string]string{"value": "theirs"}, get(s, "data", &corev1.ConfigMap{}).Data)
}

// TestObjectsThatCannotReferToTheirOwner carry its UID in a label, and are
// pruned by it.
func TestObjectsThatCannotReferToTheirOwner(t *testing.T) {
	s := newStand(t)
	elsewhere := bed.Namespace(t, s.others)
	s.mustApply(bed.ConfigMap(elsewhere, "data", "1"))
	made := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: elsewhere, Name: "data"}
	if err := s.others.Get(t.Context(), key, made); err != nil {
		t.Fatal(err)
	}
	want(t, string(s.owner.UID), made.Labels[object.LabelOwnerUID])
	want(t, "v1/ConfigMap/"+s.namespace+"/owner", made.Annotations[object.AnnotationOwner])
	want(t, 0, len(made.OwnerReferences))
	want(t, map[string]apply.Action{"ConfigMap/data": apply.Deleted}, s.mustApply())
	if err := s.others.Get(t.Context(), key, made); err == nil {
		t.Error("it is still there")
	}
}
