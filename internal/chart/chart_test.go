package chart

import (
	"path"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// rendered is a text with the templates of strings put into effect.
func rendered(t interface{ Fatalf(string, ...any) }, text, namespace string) string {
	code, err := template.New("it").Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var out strings.Builder
	if err := code.Execute(&out, map[string]any{"Release": map[string]any{"Namespace": namespace}}); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out.String()
}

// TestAnyTextSurvives: whatever stands in an object stands in what its template
// renders to, the namespace in place of the one that stood for it.
func TestAnyTextSurvives(t *testing.T) {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"{", "{{", "}}", "{{- x -}}", "`", `"`, `\`, "\n", " ", ": ", "# ", "- ", "true", "0123", "~", "é", "\u2028", "\t", Namespace, "{" + Namespace, "{{/* ", "{{`", "'"}),
		rapid.StringMatching(`[ -~]{0,200}`),
	)
	word := rapid.Map(rapid.SliceOfN(part, 0, 8), func(parts []string) string { return strings.Join(parts, "") })
	rapid.Check(t, func(t *rapid.T) {
		key, text := word.Draw(t, "key"), word.Draw(t, "text")
		if strings.Contains(key+text, mark) {
			return
		}
		namespace := rapid.SampledFrom([]string{"sea", "123", "null", "1e3"}).Draw(t, "namespace")
		content := map[string]any{"a" + key: text, "list": []any{text, map[string]any{"b": text}}, "number": int64(7)}
		made := &manifest{}
		got, err := made.text(content)
		if err != nil {
			t.Fatal(err)
		}
		var read map[string]any
		if err := yaml.Unmarshal([]byte(rendered(t, string(got), namespace)), &read); err != nil {
			t.Fatalf("%v in\n%s", err, got)
		}
		put := func(text string) string { return strings.ReplaceAll(text, Namespace, namespace) }
		want := map[string]any{"a" + put(key): put(text), "list": []any{put(text), map[string]any{"b": put(text)}}, "number": float64(7)}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Fatalf("%s\nof\n%s", diff, got)
		}
	})
}

func parsed(text string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &made.Object); err != nil {
		panic(err)
	}
	return made
}

// TestNamesThatMeanHarm: a bundle's names never become part of a template's code.
func TestNamesThatMeanHarm(t *testing.T) {
	for name, text := range map[string]string{
		"deployment": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: 'a`}}{{fail `x`}}'}\nspec: {template: {spec: {containers: [{name: a, image: b}]}}}",
		"container":  "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: 'a` }}', image: b}]}}}",
		"block":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: " + mark + "0}",
	} {
		if _, err := Make(Input{Name: "x", Version: "1.0.0", Objects: []*unstructured.Unstructured{parsed(text)}}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	made, err := Make(Input{Name: "x", Version: "1.0.0", Objects: []*unstructured.Unstructured{
		parsed("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {metadata: {annotations: {'images.`}}': c}}, spec: {containers: [{name: a, image: b}]}}}"),
		parsed("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ../../../etc/a}"),
	}})
	if err != nil || len(made.Values.RelatedImages) > 0 {
		t.Errorf("%v, %v", made.Values.RelatedImages, err)
	}
	for name := range made.Files {
		if path.Clean(name) != name || strings.Count(name, "/") > 1 {
			t.Errorf("file %s", name)
		}
	}
}

func TestFilesOfAChart(t *testing.T) {
	definition := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: NAME}\nspec: {group: a, description: 'DESCRIPTION'}"
	objects := []*unstructured.Unstructured{
		parsed(strings.NewReplacer("NAME", "plain.a", "DESCRIPTION", "{{ x }}").Replace(definition)),
		parsed(strings.NewReplacer("NAME", "converted.a", "DESCRIPTION", "{{ x }} in "+Namespace).Replace(definition)),
		parsed("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: " + Namespace + "}"),
		parsed("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: other}\nimagePullSecrets: [{name: own}]"),
		parsed("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'x-" + Namespace + "-y'}"),
	}
	made, err := Make(Input{Name: "Some Package", Version: "1.2.3", Description: "it", KubeVersion: "1.25.0", Objects: objects})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		".helmignore", "Chart.yaml", "crds/customresourcedefinition-plain.a.yaml", "templates/NOTES.txt",
		"templates/clusterrole-x-namespace-y.yaml", "templates/customresourcedefinition-converted.a.yaml",
		"templates/serviceaccount-a-2.yaml", "templates/serviceaccount-a.yaml", "values.schema.json", "values.yaml",
	}
	if diff := cmp.Diff(want, sortedKeys(made.Files)); diff != "" {
		t.Error(diff)
	}
	for file, want := range map[string]string{
		"crds/customresourcedefinition-plain.a.yaml":          "description: '{{ x }}'",
		"templates/customresourcedefinition-converted.a.yaml": "description: \"{{`{{`}} x }} in {{ .Release.Namespace }}\"",
		"templates/serviceaccount-a.yaml":                     "{{- with .Values.imagePullSecrets }}\nimagePullSecrets: {{ toJson . }}\n{{- end }}",
		"templates/serviceaccount-a-2.yaml":                   "{{- with concat (list (dict `name` `own`)) .Values.imagePullSecrets }}",
		"Chart.yaml":                                          "kubeVersion: '>=1.25.0-0'",
		"values.yaml":                                         "imagePullSecrets: []",
	} {
		if text := string(made.Files[file]); !strings.Contains(text, want) {
			t.Errorf("%s has no %s:\n%s", file, want, text)
		}
	}
}
