package olm_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/olm"
)

func objectsOf(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var made []*unstructured.Unstructured
	for each := range strings.SplitSeq(text, "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(each), &obj.Object); err != nil {
			t.Fatal(err)
		}
		made = append(made, obj)
	}
	return made
}

const before = `kind: Deployment
metadata: {name: d}
spec: {template: {metadata: {annotations: {images.x: "x:1"}}, spec: {initContainers: [{name: i, image: "i:1"}], containers: [{name: c, image: "c:1", env: [{name: RELATED_IMAGE_A, value: "a:1"}]}]}}}
---
kind: ClusterRole
metadata: {name: r}
rules:
- {apiGroups: ["", apps], resources: [pods], verbs: [get, list]}
- {apiGroups: [wide], resources: ["*"], verbs: ["*"]}
- {apiGroups: [""], resources: [secrets], resourceNames: [one], verbs: [get]}
- {nonResourceURLs: [/metrics], verbs: [get]}
---
kind: CustomResourceDefinition
metadata: {name: a.x}
spec:
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, required: [a], properties: {
      a: {type: string}, b: {type: integer}, c: {type: string, enum: [p, q]}, d: {type: array, items: {type: object, properties: {e: {type: string}}}}, f: {type: string}}}}}}}
  - {name: v1beta1, served: true}
---
kind: CustomResourceDefinition
metadata: {name: gone.x}
---
kind: CustomResourceDefinition
metadata: {name: stored.x}
spec: {versions: [{name: v1alpha1, served: true, storage: true}]}`

const after = `kind: Deployment
metadata: {name: d}
spec: {template: {metadata: {annotations: {images.x: "x:2"}}, spec: {initContainers: [], containers: [{name: c, image: "c:2", env: [{name: RELATED_IMAGE_A, value: "a:1"}, {name: RELATED_IMAGE_B, value: "b:1"}]}]}}}
---
kind: ClusterRole
metadata: {name: r}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list, delete]}
- {apiGroups: [wide], resources: [things], verbs: [get]}
- {apiGroups: [""], resources: [secrets], verbs: [get]}
---
kind: CustomResourceDefinition
metadata: {name: a.x}
spec:
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, required: [a, f], properties: {
      a: {type: string, enum: [z]}, b: {type: string}, c: {type: string, enum: [p]}, d: {type: array, items: {type: object, properties: {}}}, f: {type: string}, g: {}}}}}}}
---
kind: CustomResourceDefinition
metadata: {name: stored.x}
spec: {versions: [{name: v1, served: true, storage: true}]}`

func TestCompare(t *testing.T) {
	want := olm.Difference{
		Images: []string{"d images.x: x:1 -> x:2", "d/c RELATED_IMAGE_B: new: b:1", "d/c: c:1 -> c:2", "d/i: gone: i:1"},
		Gained: []string{"ClusterRole r: delete pods", "ClusterRole r: get secrets"},
		Lost:   []string{"ClusterRole r: * *.wide", "ClusterRole r: get /metrics", "ClusterRole r: get pods.apps", "ClusterRole r: list pods.apps"},
		Warnings: []string{
			"a.x no longer serves version v1beta1",
			"a.x v1: spec now requires f",
			"a.x v1: spec.a may now only be one of [z]",
			"a.x v1: spec.b was of type integer and is now of type string",
			"a.x v1: spec.c may no longer be [q]",
			"a.x v1: spec.d[].e was removed",
			"gone.x is no longer part of the bundle; the definition and its objects stay until someone deletes them",
		},
		Errors: []string{"stored.x no longer has version v1alpha1, in which its objects are stored; update to a version of the operator between them first, and let it migrate them"},
	}
	if diff := cmp.Diff(want, olm.Compare(objectsOf(t, before), objectsOf(t, after))); diff != "" {
		t.Error(diff)
	}
	if same := olm.Compare(objectsOf(t, before), objectsOf(t, before)); len(same.Images)+len(same.Gained)+len(same.Lost)+len(same.Warnings)+len(same.Errors) > 0 {
		t.Errorf("the same objects differ: %+v", same)
	}
}
