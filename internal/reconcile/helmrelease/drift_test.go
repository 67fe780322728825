package helmrelease

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/release"
)

func content(t *testing.T, text string) map[string]any {
	t.Helper()
	objects, err := parse(text)
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	return objects[0].Object
}

func TestIncludes(t *testing.T) {
	live := content(t, `{kind: x, spec: {replicas: 3, list: [{a: 1, default: yes}, {b: 2}], empty: {}, text: a}}`)
	for wanted, want := range map[string]bool{
		`{kind: x}`:                                 true,
		`{kind: x, spec: {replicas: 3}}`:            true,
		`{kind: x, spec: {replicas: 4}}`:            false,
		`{kind: x, spec: {replicas: "3"}}`:          false,
		`{kind: x, spec: {list: [{a: 1}, {b: 2}]}}`: true,
		`{kind: x, spec: {list: [{b: 2}, {a: 1}]}}`: false,
		`{kind: x, spec: {list: [{a: 1}]}}`:         false,
		`{kind: x, spec: {absent: {}}}`:             true,
		`{kind: x, spec: {absent: []}}`:             true,
		`{kind: x, spec: {absent: null}}`:           true,
		`{kind: x, spec: {absent: {a: 1}}}`:         false,
		`{kind: x, spec: {text: null}}`:             false,
		`{kind: x, spec: {text: {a: 1}}}`:           false,
		`{kind: x, spec: {text: [1]}}`:              false,
	} {
		if got := includes(live, content(t, wanted)); got != want {
			t.Errorf("includes %s: %v", wanted, got)
		}
	}
}

func TestDifferencesAreJSONPointers(t *testing.T) {
	before := content(t, `{kind: x, metadata: {labels: {a/b: "1", c: "2"}}, spec: {list: [1, 2], same: 1}}`)
	after := content(t, `{kind: x, metadata: {labels: {a/b: "9"}}, spec: {list: [1, 3], same: 1, new: {}}}`)
	want := []string{"/metadata/labels/a~1b", "/metadata/labels/c", "/spec/list", "/spec/new"}
	if diff := cmp.Diff(want, differences(before, after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIgnoredFieldsAreKeptAsTheyAre(t *testing.T) {
	wanted := &unstructured.Unstructured{Object: content(t, `{kind: x, metadata: {annotations: {a/b: ours, c: ours}}, spec: {replicas: 1, list: [{image: ours}], gone: 1}}`)}
	live := &unstructured.Unstructured{Object: content(t, `{kind: x, metadata: {annotations: {a/b: theirs}}, spec: {replicas: 7, list: [{image: theirs}], new: 1}}`)}
	paths := []string{"/spec/replicas", "/metadata/annotations/a~1b", "/spec/list/0/image", "/spec/gone", "/spec/new", "/spec/no/such/way", "/spec/list/9"}
	kept := keeping(wanted, live, paths)
	want := content(t, `{kind: x, metadata: {annotations: {a/b: theirs, c: ours}}, spec: {replicas: 7, list: [{image: theirs}]}}`)
	if diff := cmp.Diff(want, kept.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text, _ := yaml.Marshal(wanted.Object); !cmp.Equal(wanted.Object["spec"].(map[string]any)["replicas"], int64(1)) {
		t.Errorf("what was released was changed:\n%s", text)
	}
}

func TestRulesFitTheirTargets(t *testing.T) {
	ref := object.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "n", Name: "a"}
	ignored := []release.Ignore{
		{Paths: []string{"/spec/replicas"}, Target: release.Target{Kind: "Deployment"}},
		{Paths: []string{"/metadata"}, Target: release.Target{Kind: "Service"}},
		{Target: release.Target{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "n", Name: "b"}},
	}
	rules := rulesFor(ignored, ref)
	if rules.all || !rules.covers("/spec/replicas") || !rules.covers("/spec/replicas/x") || rules.covers("/spec/replicasets") || rules.covers("/metadata") {
		t.Errorf("%+v", rules)
	}
	ref.Name = "b"
	if !rulesFor(ignored, ref).all {
		t.Error("an object that is to be ignored isn't")
	}
}

func TestParseTakesListsApart(t *testing.T) {
	objects, err := parse("# Source: x\n---\nkind: A\napiVersion: v1\n---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: B}\n- {apiVersion: v1, kind: C}\n")
	var found []string
	for _, each := range objects {
		found = append(found, each.GetKind())
	}
	if diff := cmp.Diff([]string{"A", "B", "C"}, found); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	if _, err := parse("a: [unclosed"); err == nil {
		t.Error("broken YAML is no error")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("kind: A\n---\nkind: List\nitems: [{kind: B}]\n")
	f.Fuzz(func(t *testing.T, manifest string) {
		objects, err := parse(manifest)
		for _, each := range objects {
			if each == nil || err == nil && each.Object == nil {
				t.Error("an object without content")
			}
		}
	})
}
