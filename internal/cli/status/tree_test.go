package status

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// created is five minutes before the wide views of these tests.
var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestWide prints a tree with all details: as it is, and on a terminal of 110
// columns, which is too narrow for it.
func TestWide(t *testing.T) {
	objects := load(t, "testdata/image-not-found.in.yaml")
	for _, each := range objects {
		each.SetCreationTimestamp(metav1.NewTime(created))
	}
	tree := build(link(t, objects[0], objects, levers(objects[0])))
	for name, width := range map[string]int{"wide": 0, "wide-110": 110, "wide-10": 10} {
		var got bytes.Buffer
		style := Style{Wide: true, Width: width, Now: created.Add(5 * time.Minute)}
		if err := Print(&got, tree, style); err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+name+".out.txt", got.Bytes())
		table, _, _ := strings.Cut(got.String(), "\n\n")
		for line := range strings.Lines(table) {
			if columns := Width(strings.TrimRight(line, "\n")); width == 110 && columns > width {
				t.Errorf("%d columns: %s", columns, line)
			}
		}
	}
}

func TestDetails(t *testing.T) {
	restarts := int64(3)
	for name, test := range map[string]struct {
		manifest string
		want     Details
	}{
		"a pod":               {`{apiVersion: v1, kind: Pod, spec: {nodeName: n1, containers: [{image: "a:1"}, {image: "b:1"}]}, status: {containerStatuses: [{ready: true, restartCount: 1}, {restartCount: 2}]}}`, Details{Ready: "1/2", Restarts: &restarts, Node: "n1", Image: "a:1 +1"}},
		"a pod without place": {`{apiVersion: v1, kind: Pod, spec: {containers: [{image: "a:1"}]}}`, Details{Ready: "0/1", Image: "a:1"}},
		"a deployment":        {`{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2, template: {spec: {containers: [{image: "a:1"}]}}}, status: {readyReplicas: 1}}`, Details{Ready: "1/2", Image: "a:1"}},
		"a daemon set":        {`{apiVersion: apps/v1, kind: DaemonSet, status: {desiredNumberScheduled: 3}}`, Details{Ready: "0/3"}},
		"a job":               {`{apiVersion: batch/v1, kind: Job, spec: {completions: 1}, status: {succeeded: 1}}`, Details{Ready: "1/1"}},
		"a service":           {`{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1, ports: [{port: 80}, {port: 90}]}}`, Details{URL: "10.0.0.1:80"}},
		"of IPv6":             {`{apiVersion: v1, kind: Service, spec: {clusterIP: "fd00::1", ports: [{port: 80}]}}`, Details{URL: "[fd00::1]:80"}},
		"a headless service":  {`{apiVersion: v1, kind: Service, spec: {clusterIP: None, ports: [{port: 80}]}}`, Details{}},
		"a model":             {`{apiVersion: llm.example.com/v1alpha1, kind: LLMModel, spec: {image: "a:1"}}`, Details{Image: "a:1"}},
		"what serves":         {`{apiVersion: llm.example.com/v1alpha1, kind: LLMDeployment, spec: {replicas: 1}, status: {url: "http://a", readyReplicas: 1}}`, Details{Ready: "1/1", URL: "http://a"}},
		"fields amiss":        {`{apiVersion: v1, kind: Pod, spec: {nodeName: 1, containers: {}}, status: {containerStatuses: [1]}}`, Details{Ready: "0/0", Restarts: new(int64)}},
	} {
		live := &unstructured.Unstructured{}
		content, err := yaml.YAMLToJSON([]byte(test.manifest))
		if err != nil {
			t.Fatal(err)
		}
		if err := live.UnmarshalJSON(content); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, detailsOf(live)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string][]string{
		"":                         {""},
		"abc":                      {"abc"},
		"abcd":                     {"abc", "d"},
		"äbcdef":                   {"äbc", "def"},
		"\x1b[31mabcd\x1b[0m":      {"\x1b[31mabc", "d\x1b[0m"},
		"\x1b[31mabc\x1b[0mdefg":   {"\x1b[31mabc\x1b[0m", "def", "g"},
		"no end of a colour \x1b[": {"no ", "end", " of", " a ", "col", "our", " \x1b["},
	} {
		if diff := cmp.Diff(want, Wrap(text, 3)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// TestClip: what is left of a text is never wider than it may be, and ends the
// colours that it begins.
func TestClip(t *testing.T) {
	for _, test := range []struct {
		text string
		to   int
		want string
	}{
		{"short", 5, "short"}, {"longer", 5, "long…"}, {"", 5, ""}, {"ünï", 2, "ü…"}, {"ab", 1, "…"},
		{"\x1b[31m✗\x1b[0m a pod", 4, "\x1b[31m✗\x1b[0m a…"}, {"\x1b[31mFailed\x1b[0m", 3, "\x1b[31mFa…\x1b[0m"},
	} {
		if got := clip(test.text, test.to); got != test.want || Width(got) > test.to {
			t.Errorf("%q to %d: got %q, want %q", test.text, test.to, got, test.want)
		}
	}
	if got := shorten("registry.example.com/gpt:v1", 8, tail); got != "…/gpt:v1" {
		t.Errorf("got %q", got)
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
func link(t *testing.T, live *unstructured.Unstructured, world []*unstructured.Unstructured, levers words) *seen {
	t.Helper()
	found := &seen{ref: object.Of(live), live: live}
	for _, ref := range named(live) {
		child := &seen{ref: ref}
		for _, each := range world {
			if object.Of(each) == ref {
				child = link(t, each, world, levers)
			}
		}
		found.children = append(found.children, child)
	}
	for _, each := range world {
		if live.GetUID() != "" && ownedBy(each, live.GetUID()) && len(makes(live)) > 0 {
			found.children = append(found.children, link(t, each, world, levers))
		}
	}
	if live.GetKind() == "Deployment" && readiness.Evaluate(live).Status != readiness.Ready {
		found.facts = facts(t, live, world)
		found.facts.Levers = levers(live)
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
	nodes[0].Details = Details{Ready: "2/2", URL: "http://chat.team.svc:8080", Created: &metav1.Time{Time: created}}
	for name, style := range map[string]Style{"one": {}, "all": {}, "wide": {Wide: true, Now: created.Add(time.Hour)}} {
		var got bytes.Buffer
		if err := PrintFlat(&got, nodes, name == "all", style); err != nil {
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
