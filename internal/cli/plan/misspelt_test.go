package plan

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func carried(t *testing.T, kind schema.GroupVersionKind) Schema {
	t.Helper()
	found, err := Carried(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestExplain: what a strict decoder says becomes a sentence with the field that
// is meant.
func TestExplain(t *testing.T) {
	deployment, model := carried(t, deploymentKind), carried(t, modelKind)
	const decoder = "strict decoding error: "
	const unsure = ": unknown field; correct its name or remove it"
	for _, test := range []struct {
		name, said string
		known      Schema
		want       string
	}{
		{"a letter is missing", decoder + `unknown field "spec.replica"`, deployment, "spec.replica: unknown field; did you mean spec.replicas?"},
		{"letters are swapped", decoder + `unknown field "spec.imgae"`, model, "spec.imgae: unknown field; did you mean spec.image?"},
		{"small letters", decoder + `unknown field "spec.modelref"`, deployment, "spec.modelref: unknown field; did you mean spec.modelRef?"},
		{"at the top", decoder + `unknown field "specs"`, model, "specs: unknown field; did you mean spec?"},
		{"in the metadata", decoder + `unknown field "metadata.lables"`, model, "metadata.lables: unknown field; did you mean metadata.labels?"},
		{"below", decoder + `unknown field "spec.resources.memry"`, model, "spec.resources.memry: unknown field; did you mean spec.resources.memory?"},
		{"in a list", decoder + `unknown field "spec.tolerations[12].opertor"`, deployment, "spec.tolerations[12].opertor: unknown field; did you mean spec.tolerations[12].operator?"},
		{"too high", decoder + `unknown field "replicas"`, deployment, "replicas: unknown field; did you mean spec.replicas?"},
		{"not deep enough", decoder + `unknown field "spec.gpu"`, model, "spec.gpu: unknown field; did you mean spec.resources.gpu?"},
		{"nothing is near", decoder + `unknown field "spec.temperature"`, model, "spec.temperature" + unsure},
		{"too short", decoder + `unknown field "spec.x"`, model, "spec.x" + unsure},
		{"too long", decoder + `unknown field "spec.` + strings.Repeat("image", 20) + `"`, model, "spec." + strings.Repeat("image", 20) + unsure},
		{"a path that leads nowhere", decoder + `unknown field "spec.a.b.c[0].d"`, model, "spec.a.b.c[0].d" + unsure},
		{"no schema", decoder + `unknown field "spec.imgae"`, Schema{}, "spec.imgae" + unsure},
		{"two", decoder + `unknown field "spec.imgae", unknown field "spec.x"`, model, "spec.imgae: unknown field; did you mean spec.image?; spec.x" + unsure},
		{"twice", decoder + `duplicate field "spec.image"`, model, "spec.image: written twice; remove one of them"},
		{"many", decoder + strings.Repeat(`duplicate field "a", `, 7), model, strings.Repeat("a: written twice; remove one of them; ", 5) + "and 2 more"},
		{"by server-side apply", `failed to create typed patch object (a/b; llm.example.com/v1alpha1, Kind=LLMModel): errors:
  .spec.imgae: field not declared in schema
  .spec.envFrom[name="a"].prefx: field not declared in schema`, model, "spec.imgae: unknown field; did you mean spec.image?; spec.envFrom[name=\"a\"].prefx: unknown field; did you mean spec.envFrom[name=\"a\"].prefix?"},
		{"another error", "quota exceeded", model, "quota exceeded"},
	} {
		if got := explain(test.said, test.known); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

// TestExplainWithReferences: the API server's own schemas refer to one another.
func TestExplainWithReferences(t *testing.T) {
	var document map[string]any
	err := yaml.Unmarshal([]byte(`components: {schemas: {
  Deployment: {properties: {spec: {allOf: [{$ref: "#/components/schemas/Spec"}]}, loop: {$ref: "#/components/schemas/Loop"}}, x-kubernetes-group-version-kind: [{group: apps, version: v1, kind: Deployment}]},
  Spec: {properties: {replicas: {}, containers: {items: {allOf: [{$ref: "#/components/schemas/Container"}]}}, byName: {additionalProperties: {$ref: "#/components/schemas/Container"}}}},
  Container: {properties: {image: {}}}, Loop: {$ref: "#/components/schemas/Loop"}}}`), &document)
	if err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	known, err := published(document, kind)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"spec.replcas":             "spec.replicas",
		"spec.containers[0].imgae": "spec.containers[0].image",
		"spec.byName.any.imgae":    "spec.byName.any.image",
		"loop.imgae":               "",
		"spec.containers.imgae":    "",
	} {
		if got := known.meant(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	kind.Kind = "Absent"
	if _, err := published(document, kind); err == nil {
		t.Error("it finds a schema of a kind that isn't there")
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		from, to string
		want     int
	}{
		{"", "", 0}, {"image", "image", 0}, {"imgae", "image", 1}, {"replica", "replicas", 1},
		{"abc", "", 3}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"äb", "bä", 1},
	} {
		if got := distance(test.from, test.to); got != test.want {
			t.Errorf("%q to %q: %d, want %d", test.from, test.to, got, test.want)
		}
	}
}

// TestDistanceIsOne: it is nought for the same word only, the same both ways, and
// never more than the longer word.
func TestDistanceIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-d]{0,8}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		there, back := distance(a, b), distance(b, a)
		if there != back || (there == 0) != (a == b) || there > max(len(a), len(b)) {
			t.Fatalf("%q and %q: %d there, %d back", a, b, there, back)
		}
	})
}
