package apply

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/object"
)

const liveObject = `
metadata: {labels: {ours: a, theirs: b}, finalizers: [x/one, y/two]}
spec:
  replicas: 3
  list: [p, q]
  template:
    containers:
    - {name: main, image: v1, ports: [{port: 80, protocol: TCP, name: http}, {port: 81, protocol: TCP}]}
    - {name: sidecar, image: proxy}
status: {ready: 1}
`

const ownedFields = `
f:metadata: {f:labels: {f:ours: {}}, f:finalizers: {'v:"x/one"': {}}}
f:spec:
  f:list: {'i:1': {}}
  f:atomic: {}
  f:template:
    f:containers:
      'k:{"name":"main"}':
        .: {}
        f:name: {}
        f:image: {}
        f:ports: {'k:{"port":80,"protocol":"TCP"}': {.: {}, f:port: {}}}
`

func decode(t interface{ Fatal(...any) }, text string) map[string]any {
	var raw []byte
	var err error
	if raw, err = yaml.YAMLToJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		t.Fatal(err)
	}
	return content
}

func entries(t *testing.T, manager, fields string) []metav1.ManagedFieldsEntry {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(fields))
	if err != nil {
		t.Fatal(err)
	}
	return []metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(string(raw)),
	}}
}

// TestOwnFields has a row for each change to a live object, and whether it is
// one of what we own.
func TestOwnFields(t *testing.T) {
	owned := entries(t, "slipway", ownedFields)
	before := ownFields(decode(t, liveObject), owned, "slipway")
	container := func(o map[string]any, at int) map[string]any {
		return o["spec"].(map[string]any)["template"].(map[string]any)["containers"].([]any)[at].(map[string]any)
	}
	for name, test := range map[string]struct {
		change func(o map[string]any)
		counts bool
	}{
		"nothing":         {func(map[string]any) {}, false},
		"a status":        {func(o map[string]any) { o["status"] = nil }, false},
		"another's label": {func(o map[string]any) { delete(labelsOf(o), "theirs") }, false},
		"our label": {func(o map[string]any) {
			labelsOf(o)["ours"] = "c"
		}, true},
		"our label gone":    {func(o map[string]any) { delete(labelsOf(o), "ours") }, true},
		"another's replica": {func(o map[string]any) { o["spec"].(map[string]any)["replicas"] = 9 }, false},
		"a sidecar":         {func(o map[string]any) { container(o, 1)["image"] = "other" }, false},
		"our container": {func(o map[string]any) {
			container(o, 0)["image"] = "v2"
		}, true},
		"another's field of our container": {func(o map[string]any) { container(o, 0)["tty"] = true }, false},
		"our port gone": {func(o map[string]any) {
			container(o, 0)["ports"] = container(o, 0)["ports"].([]any)[1:]
		}, true},
		"another's port gone": {func(o map[string]any) {
			container(o, 0)["ports"] = container(o, 0)["ports"].([]any)[:1]
		}, false},
		"the containers' order": {func(o map[string]any) {
			list := o["spec"].(map[string]any)["template"].(map[string]any)["containers"].([]any)
			list[0], list[1] = list[1], list[0]
		}, false},
		"our finalizer gone": {func(o map[string]any) {
			o["metadata"].(map[string]any)["finalizers"] = []any{"y/two"}
		}, true},
		"another's finalizer gone": {func(o map[string]any) {
			o["metadata"].(map[string]any)["finalizers"] = []any{"x/one"}
		}, false},
		"our element by index": {func(o map[string]any) { o["spec"].(map[string]any)["list"] = []any{"p", "r"} }, true},
		"an atomic value appears": {func(o map[string]any) {
			o["spec"].(map[string]any)["atomic"] = map[string]any{"a": "b"}
		}, true},
		"an atomic value appears, empty": {func(o map[string]any) {
			o["spec"].(map[string]any)["atomic"] = map[string]any{}
		}, false},
		"all of it": {func(o map[string]any) { clear(o) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			changed := decode(t, liveObject)
			test.change(changed)
			if got := ownFields(changed, owned, "slipway") != before; got != test.counts {
				t.Errorf("it counts as our change: %v, want %v", got, test.counts)
			}
		})
	}
}

func labelsOf(o map[string]any) map[string]any {
	return o["metadata"].(map[string]any)["labels"].(map[string]any)
}

// TestLostOwnershipCounts, and what other managers own, or we by other means,
// doesn't.
func TestLostOwnershipCounts(t *testing.T) {
	live := decode(t, liveObject)
	full := entries(t, "slipway", ownedFields)
	before := ownFields(live, full, "slipway")
	if ownFields(live, entries(t, "slipway", "f:spec: {f:list: {'i:1': {}}}"), "slipway") == before {
		t.Error("the loss of fields doesn't count")
	}
	if ownFields(live, nil, "slipway") == before {
		t.Error("the loss of all fields doesn't count")
	}
	update := entries(t, "slipway", "f:spec: {f:replicas: {}}")
	update[0].Operation = metav1.ManagedFieldsOperationUpdate
	status := entries(t, "slipway", "f:status: {f:ready: {}}")
	status[0].Subresource = "status"
	others := append(append(update, status...), entries(t, "kubectl", "f:spec: {f:replicas: {}}")...)
	if ownFields(live, append(others, full...), "slipway") != before {
		t.Error("what isn't applied by us counts")
	}
}

// TestDecodedTwiceIsTheSame: an object has the same fields whether its numbers
// are integers, as Kubernetes decodes them, or floats, as JSON has them.
func TestDecodedTwiceIsTheSame(t *testing.T) {
	owned := entries(t, "slipway", ownedFields)
	floats := decode(t, liveObject)
	integers := asIntegers(floats).(map[string]any)
	if ownFields(floats, owned, "slipway") != ownFields(integers, owned, "slipway") {
		t.Error("the hash depends on how numbers are decoded")
	}
}

func asIntegers(value any) any {
	switch v := value.(type) {
	case float64:
		return int64(v)
	case map[string]any:
		made := map[string]any{}
		for key, each := range v {
			made[key] = asIntegers(each)
		}
		return made
	case []any:
		made := []any{}
		for _, each := range v {
			made = append(made, asIntegers(each))
		}
		return made
	default:
		return v
	}
}

// FuzzFields: whatever a server calls our fields, no path of it makes us fail.
func FuzzFields(f *testing.F) {
	f.Add(`{"f:spec":{"k:{\"name\":\"x\"}":{},"v:1":{},"i:0":{},"i:-1":{},".":{},"x":{}}}`, `{"spec":[{"name":"x"},1]}`)
	f.Add(`{"f:a":null,"f:b":3,"k:{":{}}`, `{"a":1}`)
	f.Fuzz(func(t *testing.T, fields, live string) {
		var content map[string]any
		_ = json.Unmarshal([]byte(live), &content)
		owned := []metav1.ManagedFieldsEntry{{
			Manager: "slipway", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields),
		}}
		first, second := ownFields(content, owned, "slipway"), ownFields(content, owned, "slipway")
		if first != second {
			t.Error("the hash isn't stable")
		}
	})
}

// TestMemoryForgetsTheOldest and never holds more than its bound.
func TestMemoryForgetsTheOldest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 4).Draw(t, "size")
		m := newMemory(size)
		names := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})).Draw(t, "names")
		for i, name := range names {
			m.put(object.Ref{Version: "v1", Name: name}, record{version: name})
			if got, there := m.get(object.Ref{Version: "v2", Name: name}); !there || got.version != name {
				t.Fatalf("%s at %d is forgotten at once, or depends on its version", name, i)
			}
			if m.records.Len() > size {
				t.Fatalf("it holds %d", m.records.Len())
			}
		}
	})
}

func TestOlder(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{{"9", "10", true}, {"10", "9", false}, {"10", "10", false}, {"", "1", false}, {"x", "1", false}, {"1", "x", false}} {
		if got := older(test.a, test.b); got != test.want {
			t.Errorf("%q older than %q: %v", test.a, test.b, got)
		}
	}
}
