package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
)

// definition makes a namespaced kind of a group.
func definition(t *testing.T, group, kind string) *unstructured.Unstructured {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	content := map[string]any{}
	err := yaml.Unmarshal([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+plural+`.`+group+`}
spec:
  group: `+group+`
  scope: Namespaced
  names: {kind: `+kind+`, plural: `+plural+`, singular: `+strings.ToLower(kind)+`}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: number}}}}}}
`), &content)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

func custom(group, kind, namespace, name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": kind,
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"size": size},
	}}
}

// TestDefinitionsAndNamespacesComeFirst: one pass brings a namespace, a kind and
// an object of that kind in that namespace, whatever their order, and teardown
// waits for each before it goes on.
func TestDefinitionsAndNamespacesComeFirst(t *testing.T) {
	s := newStand(t)
	group := s.namespace + ".example.com"
	place := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": s.namespace + "-new"},
	}}
	wanted := []*unstructured.Unstructured{
		custom(group, "Widget", place.GetName(), "one", 1), definition(t, group, "Widget"), place,
	}
	owner := apply.Owner{Object: s.owner}
	preview, err := s.engine.Plan(t.Context(), owner, s.inventory, wanted)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range preview {
		want(t, apply.Created, each.Action)
	}
	for range 2 {
		result, err := s.engine.Apply(t.Context(), owner, s.inventory, wanted)
		if err != nil {
			t.Fatal(err)
		}
		want(t, 3, len(result.Live))
		want(t, []string{"Namespace", "CustomResourceDefinition", "Widget"},
			[]string{result.Live[0].GetKind(), result.Live[1].GetKind(), result.Live[2].GetKind()})
	}
	// A number without a fraction is an integer to Go and a float to JSON.
	result, err := s.engine.Apply(t.Context(), owner, s.inventory, wanted)
	if err != nil || result.Wrote() {
		t.Errorf("a third pass wrote %v (%v)", result.Changes, err)
	}
	pass := func() {
		if _, err := s.engine.Apply(t.Context(), owner, s.inventory, wanted[2:]); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(wanted[1].GroupVersionKind())
	bed.AwaitGone(t, s.others, wanted[1].DeepCopy(), list)
	pass()
	want(t, []string{"Namespace/" + place.GetName()}, s.stored())
}

// TestADefinitionThatCannotBeEstablished: its names are taken by another one.
// The wait is bounded, its objects are skipped, and the rest is applied.
func TestADefinitionThatCannotBeEstablished(t *testing.T) {
	s := newStand(t)
	group := s.namespace + ".example.com"
	if err := s.others.Create(t.Context(), definition(t, group, "Widget")); err != nil {
		t.Fatal(err)
	}
	s.engine = apply.New(apply.Options{Client: s.ours, EstablishTimeout: 1})
	taken := definition(t, group, "Gadget")
	_ = unstructured.SetNestedField(taken.Object, "Widget", "spec", "names", "kind")
	wanted := append(bed.Want(t, bed.Account(s.namespace, "chat")), taken)
	result, err := s.engine.Apply(t.Context(), apply.Owner{Object: s.owner}, s.inventory, append(wanted, custom(group, "Widget", s.namespace, "one", 1)))
	outcome := condition.Classify(err)
	want(t, condition.Waiting, outcome.Verdict)
	want(t, "CustomResourceDefinition gadgets."+group+" isn't served yet; waiting until the API server has established it", outcome.Message)
	want(t, true, result.Again > 0)
	want(t, map[string]apply.Action{
		"CustomResourceDefinition/gadgets." + group: apply.Failed, "ServiceAccount/chat": apply.Created, "Widget/one": apply.Skipped,
	}, actions(result))
}

// TestPlanWritesNothing and tells what a pass then does.
func TestPlanWritesNothing(t *testing.T) {
	s := newStand(t)
	s.mustApply(bed.ConfigMap(s.namespace, "changed", "1"), bed.ConfigMap(s.namespace, "same", "1"), bed.ConfigMap(s.namespace, "dropped", "1"))
	foreign := bed.ConfigMap(s.namespace, "foreign", "theirs")
	foreign.Labels = nil
	s.create(foreign)
	wanted := bed.Want(t, bed.ConfigMap(s.namespace, "changed", "2"), bed.ConfigMap(s.namespace, "same", "1"),
		bed.ConfigMap(s.namespace, "fresh", "1"), bed.ConfigMap(s.namespace, "foreign", "1"))
	before := versions(s)
	previews, err := s.engine.Plan(t.Context(), apply.Owner{Object: s.owner}, s.inventory, wanted)
	if !condition.IsStop(err) {
		t.Errorf("got %v, want a Stop for the foreign object", err)
	}
	want(t, before, versions(s))
	told := map[string]apply.Action{}
	for _, each := range previews {
		told[each.Object.Name] = each.Action
	}
	want(t, map[string]apply.Action{
		"changed": apply.Configured, "same": apply.Unchanged, "fresh": apply.Created,
		"foreign": apply.Failed, "dropped": apply.Deleted,
	}, told)
	value, _, _ := unstructured.NestedString(previews[0].After.Object, "data", "value")
	want(t, "2", value)

	// An owner that isn't in the cluster yet.
	unborn := &corev1.ConfigMap{}
	unborn.Namespace, unborn.Name = s.namespace, "unborn"
	fresh, err := s.engine.Plan(t.Context(), apply.Owner{Object: client.Object(unborn)}, nil, bed.Want(t, bed.ConfigMap(s.namespace, "x", "1")))
	if err != nil {
		t.Fatal(err)
	}
	want(t, apply.Created, fresh[0].Action)
	want(t, before, versions(s))
}
