package plan

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/object"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// TestOffline plans each testdata/*.in.yaml without a cluster.
func TestOffline(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			// What a rendered object looks like is for its renderer's goldens.
			brief := slices.Contains([]string{"specification.in.yaml", "simulator.in.yaml"}, filepath.Base(input))
			golden(t, strings.TrimSuffix(input, ".in.yaml")+".out.txt", offline(t, raw, Style{Brief: brief}))
		})
	}
}

func offline(t *testing.T, raw []byte, style Style) []byte {
	t.Helper()
	manifests, err := Read(bytes.NewReader(raw))
	if err != nil {
		return []byte("error: " + err.Error() + "\n")
	}
	made, err := (&Planner{Namespace: "team"}).Plan(t.Context(), manifests)
	if err != nil {
		return []byte("error: " + err.Error() + "\n")
	}
	var out bytes.Buffer
	if err := Print(&out, made, style); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
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

func TestDiffOfAChange(t *testing.T) {
	before := map[string]any{"spec": map[string]any{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "replicas": int64(1)}}
	after := map[string]any{"spec": map[string]any{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "replicas": int64(2)}}
	plan := &Plan{Changes: []Change{
		{Object: object.Ref{Kind: "Deployment", Namespace: "team", Name: "chat"}, Action: apply.Configured, Before: before, After: after},
		{Object: object.Ref{Kind: "Service", Namespace: "team", Name: "old"}, Action: apply.Deleted, Before: before},
		{Object: object.Ref{Kind: "LLMDeployment", Namespace: "team", Name: "bad"}, Action: apply.Failed, Message: "spec.port: port must be a whole number"},
	}}
	var got bytes.Buffer
	if err := Print(&got, plan, Style{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/change.out.txt", got.Bytes())
}

// TestSecretsStaySecret: no value of a Secret gets into a plan, and whether one
// changes does.
func TestSecretsStaySecret(t *testing.T) {
	secret := func(data map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "data": data,
			"metadata": map[string]any{"name": "s", "annotations": map[string]any{lastApplied: "hunter2"}},
		}}
	}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOf(rapid.StringMatching(`[a-c]`), rapid.SampledFrom([]any{"hunter2", "hunter3", "hunter4"}))
		before, after := values.Draw(t, "before"), values.Draw(t, "after")
		change := Change{
			Object: object.Ref{Version: "v1", Kind: "Secret", Name: "s"}, Action: apply.Configured,
			Before: essence(secret(before)), After: essence(secret(after)),
		}
		mask(&change)
		var out bytes.Buffer
		if err := Print(&out, &Plan{Changes: []Change{change}}, Style{}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "hunter") {
			t.Fatalf("it shows a value:\n%s", out.String())
		}
		shown := cmp.Equal(change.Before, change.After)
		if shown != cmp.Equal(before, after) {
			t.Fatalf("equal is %v, shown as %v", !shown, shown)
		}
	})
}

func TestReadRefuses(t *testing.T) {
	for name, test := range map[string]struct{ input, want string }{
		"nothing":        {"---\n# nothing\n", "no manifest"},
		"no kind":        {"a: b", "kind"},
		"a list of text": {"- a", "no object"},
		"a field twice":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, name: b}", "already set"},
		"bad YAML":       {"apiVersion: v1\n\tkind: x", "document 1"},
		"too large":      {"a: " + strings.Repeat("x", MaxBytes), "larger than 16 MiB"},
	} {
		if _, err := Read(strings.NewReader(test.input)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap}\n---\nnull")
	f.Add("{apiVersion: llm.example.com/v1alpha1, kind: LLMDeployment, metadata: {name: a}, spec: {modelRef: b}}\n---\n{apiVersion: llm.example.com/v1alpha1, kind: LLMModel, metadata: {name: b}, spec: {resources: {cpu: []}}}")
	f.Add("{apiVersion: llm.example.com/v1alpha1, kind: LLMDeployment, metadata: {name: a}, spec: {modelRef: b, replicas: 10000, port: -1, nodeSelecter: {a: b}}}\n---\n{apiVersion: llm.example.com/v1alpha1, kind: LLMModel, metadata: {name: b}, spec: {modelName: b, image: \"i:v1\", resources: {cpu: 1e999999999, memory: \"1e999999999\", gpu: 2}}}")
	f.Add("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: [*c]}")
	f.Fuzz(func(t *testing.T, input string) {
		manifests, err := Read(strings.NewReader(input))
		if err != nil {
			return
		}
		made, err := (&Planner{Namespace: "team"}).Plan(t.Context(), manifests)
		if err != nil {
			return
		}
		if err := Print(&bytes.Buffer{}, made, Style{Colour: true}); err != nil {
			t.Fatal(err)
		}
	})
}
