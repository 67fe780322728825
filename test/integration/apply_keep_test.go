package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestKeptObjectsCarryNoMark: objects whose record someone else keeps are applied
// as they are, put back when they are changed, and touched at no other time.
func TestKeptObjectsCarryNoMark(t *testing.T) {
	s := newStand(t)
	wanted := bed.Want(t, &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "kept"}, Data: map[string]string{"a": "1"},
	})
	keep := func() apply.Result {
		t.Helper()
		result, err := s.engine.Keep(t.Context(), wanted)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	want(t, map[string]apply.Action{"ConfigMap/kept": apply.Created}, actions(keep()))
	made := get(s, "kept", &corev1.ConfigMap{})
	if len(made.Labels) > 0 || len(made.OwnerReferences) > 0 || len(made.Annotations) > 0 {
		t.Errorf("it carries a mark: %+v", made.ObjectMeta)
	}
	s.wire.Take()
	want(t, map[string]apply.Action{"ConfigMap/kept": apply.Unchanged}, actions(keep()))
	if writes := s.wire.TakeWrites(); len(writes) > 0 {
		t.Errorf("an unchanged object was written: %v", writes)
	}
	ref := object.Of(wanted[0])
	before, err := s.engine.Look(t.Context(), ref, true)
	if err != nil || before.Object == nil || before.Shared {
		t.Fatalf("%+v, %v", before, err)
	}
	if err := s.others.Patch(t.Context(), made, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"2","b":"3"}}`))); err != nil {
		t.Fatal(err)
	}
	after, err := s.engine.Look(t.Context(), ref, true)
	if err != nil || after.Own == before.Own || !after.Shared {
		t.Errorf("a change isn't seen: %+v, %v", after, err)
	}
	s.wire.Take()
	foreseen, err := s.engine.Foresee(t.Context(), wanted[0])
	if err != nil || foreseen.Object["data"].(map[string]any)["a"] != "1" || get(s, "kept", made).Data["a"] != "2" {
		t.Errorf("foreseen %+v, %v", foreseen, err)
	}
	want(t, map[string]apply.Action{"ConfigMap/kept": apply.Configured}, actions(keep()))
	want(t, map[string]string{"a": "1", "b": "3"}, get(s, "kept", made).Data)
	for range 2 {
		if err := s.engine.Discard(t.Context(), ref, after.Object, metav1.DeletePropagationBackground); err == nil {
			t.Error("an object that was changed since it was read is deleted")
		}
	}
	newest, err := s.engine.Look(t.Context(), ref, true)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // one that is gone is no error
		if err := s.engine.Discard(t.Context(), ref, newest.Object, metav1.DeletePropagationBackground); err != nil {
			t.Error(err)
		}
	}
}
