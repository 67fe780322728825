package status

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/readiness"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// TestTree prints the world of each testdata/*.in.yaml, whose first object is
// asked about, and compares that with its .out.txt.
func TestTree(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			objects := load(t, input)
			var got bytes.Buffer
			if err := Print(&got, build(link(t, objects[0], objects, levers(objects[0]))), Style{}); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(input, ".in.yaml")+".out.txt", got.Bytes())
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func load(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, doc := range strings.Split(string(raw), "\n---\n") {
		content, err := utilyaml.ToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		made := &unstructured.Unstructured{}
		if err := made.UnmarshalJSON(content); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, made)
	}
	return objects
}

// link does for a world in a file what Reader.below does for one in a cluster.
func link(t *testing.T, live *unstructured.Unstructured, world []*unstructured.Unstructured, words diagnosis.Levers) *seen {
	t.Helper()
	found := &seen{ref: object.Of(live), live: live}
	for _, ref := range named(live) {
		child := &seen{ref: ref}
		for _, each := range world {
			if object.Of(each) == ref {
				child = link(t, each, world, words)
			}
		}
		found.children = append(found.children, child)
	}
	for _, each := range world {
		if live.GetUID() != "" && ownedBy(each, live.GetUID()) && len(makes(live)) > 0 {
			found.children = append(found.children, link(t, each, world, words))
		}
	}
	if live.GetKind() == "Deployment" && readiness.Evaluate(live).Status != readiness.Ready {
		found.facts = facts(t, live, world)
		found.facts.Levers = words
	}
	return found
}

func facts(t *testing.T, live *unstructured.Unstructured, world []*unstructured.Unstructured) *diagnosis.Facts {
	t.Helper()
	wanted, _, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	made := &diagnosis.Facts{Workload: diagnosis.Workload{Namespace: live.GetNamespace(), Name: live.GetName(), Replicas: int32(wanted)}}
	for _, each := range world {
		if each.GetKind() != "Pod" {
			continue
		}
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(each.Object, &pod); err != nil {
			t.Fatal(err)
		}
		made.Pods = append(made.Pods, pod)
	}
	return made
}

func TestFlat(t *testing.T) {
	node := func(namespace, name string, status readiness.Status, message string) *Node {
		return &Node{Object: object.Ref{Kind: "LLMDeployment", Namespace: namespace, Name: name}, Status: status, Message: message}
	}
	nodes := []*Node{
		node("team", "chat", readiness.Ready, "2 replicas serve GPT-Small"),
		node("team", "translate-service", readiness.Failed, "image i:v1 can't be pulled: not found; correct spec.image of LLMModel i"),
		node("lab", "new", readiness.InProgress, "waiting for 1 replica to become ready"),
	}
	for name, all := range map[string]bool{"one": false, "all": true} {
		var got bytes.Buffer
		if err := PrintFlat(&got, nodes, all, Style{}); err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/flat-"+name+".out.txt", got.Bytes())
	}
}

// TestColourTakesNoRoom: with colours, all is where it was without.
func TestColourTakesNoRoom(t *testing.T) {
	objects := load(t, "testdata/image-not-found.in.yaml")
	tree := build(link(t, objects[0], objects, levers(objects[0])))
	var plain, painted bytes.Buffer
	if err := Print(&plain, tree, Style{}); err != nil {
		t.Fatal(err)
	}
	if err := Print(&painted, tree, Style{Colour: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(painted.String(), "\x1b[31m✗\x1b[0m") {
		t.Error("there is no red mark")
	}
	bare := painted.String()
	for _, code := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"} {
		bare = strings.ReplaceAll(bare, code, "")
	}
	if diff := cmp.Diff(plain.String(), bare); diff != "" {
		t.Error(diff)
	}
}

func TestTarget(t *testing.T) {
	for _, test := range []struct {
		words       []string
		all, refuse bool
		kind, name  string
	}{
		{nil, true, false, "", ""},
		{[]string{"llmdep"}, true, false, "llmdep", ""},
		{[]string{"llmdep/chat"}, false, false, "llmdep", "chat"},
		{[]string{"llmdep", "chat"}, false, false, "llmdep", "chat"},
		{[]string{"/chat"}, false, true, "", ""},
		{[]string{"a/b/c"}, false, true, "", ""},
		{[]string{"llmdep/chat"}, true, true, "", ""},
	} {
		kind, name, err := Target{Words: test.words, AllNamespaces: test.all}.split()
		if (err != nil) != test.refuse || kind != test.kind || name != test.name {
			t.Errorf("%v: got %q, %q, %v", test.words, kind, name, err)
		}
	}
}

func TestTheTreeAsData(t *testing.T) {
	objects := load(t, "testdata/ready.in.yaml")
	text, err := yaml.Marshal(build(link(t, objects[0], objects, levers(objects[0]))))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/ready.out.yaml", text)
}
