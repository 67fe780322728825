package bundle_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamldocuments "k8s.io/apimachinery/pkg/util/yaml"

	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/cli/bundle"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/object"
)

const published = "../../../../shared/bundles"

func makeChart(t *testing.T, request bundle.Request) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "chart")
	if err := maker(&bytes.Buffer{}).Chart(t.Context(), request, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// render gives all objects of a chart by their identity.
func render(t *testing.T, dir, namespace string, values map[string]any) map[object.Ref]map[string]any {
	t.Helper()
	loaded, err := helm.Load(os.DirFS(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	text, err := helm.Template(helm.Request{Name: "test", Chart: loaded, Values: values}, namespace, "v1.37.0")
	if err != nil {
		t.Fatal(err)
	}
	documents := []string{text}
	for _, each := range loaded.CRDs() {
		documents = append(documents, string(each))
	}
	found := map[object.Ref]map[string]any{}
	for _, each := range documents {
		reader := yamldocuments.NewYAMLReader(bufio.NewReader(strings.NewReader(each)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := yaml.YAMLToJSON(document)
			if err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			if string(data) == "null" {
				continue
			}
			obj := &unstructured.Unstructured{}
			if err := obj.UnmarshalJSON(data); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			found[object.Of(obj).Identity()] = obj.Object
		}
	}
	return found
}

// TestChartsAreTheSameObjects: a chart passes helm lint and renders to what extract
// writes, in namespaces whose names YAML would take for something else.
func TestChartsAreTheSameObjects(t *testing.T) {
	for name, reference := range map[string]string{
		"dolphin":               dolphin,
		"cert-manager-operator": filepath.Join(published, "cert-manager-operator"),
		"sail-operator":         filepath.Join(published, "sail-operator"),
		"lws-operator":          filepath.Join(published, "lws-operator"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(reference); err != nil {
				t.Skip("the published bundles aren't beside this checkout")
			}
			dir := makeChart(t, bundle.Request{Reference: reference})
			if err := helm.Lint(os.DirFS(filepath.Dir(dir)), filepath.Base(dir), nil); err != nil {
				t.Fatal(err)
			}
			for _, namespace := range []string{"sea", "123", "true", "a-name-that-is-as-long-as-a-name-of-a-namespace-can-possibly-be"} {
				objects, _ := extract(t, bundle.Request{Reference: reference, Namespace: namespace})
				want := map[object.Ref]map[string]any{}
				for _, each := range objects {
					want[object.Of(each).Identity()] = each.Object
					if each.GetKind() == "CustomResourceDefinition" { // Helm must not delete it
						annotations := each.GetAnnotations()
						if annotations == nil {
							annotations = map[string]string{}
						}
						annotations["helm.sh/resource-policy"] = "keep"
						each.SetAnnotations(annotations)
					}
				}
				got := render(t, dir, namespace, nil)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("in %s: %.3000s", namespace, diff)
				}
			}
		})
	}
}

func TestValuesOfAChart(t *testing.T) {
	dir := makeChart(t, bundle.Request{Reference: dolphin, Exclude: []string{`.kind == "ConsoleCLIDownload"`}})
	values := map[string]any{
		"imagePullSecrets": []any{map[string]any{"name": "pull"}},
		"relatedImages":    map[string]any{"fin": "mirror.example/fin:3"},
		"deployments": map[string]any{"dolphin": map[string]any{
			"nodeSelector": map[string]any{"zone": "a", "kubernetes.io/os": nil},
			"tolerations":  []any{map[string]any{"key": "gpu", "operator": "Exists"}},
			"containers":   map[string]any{"manager": map[string]any{"image": "mirror.example/dolphin:9", "resources": map[string]any{"limits": map[string]any{"cpu": "1"}}}},
		}},
	}
	var deployment, helper, account map[string]any
	for ref, each := range render(t, dir, "sea", values) {
		switch ref.Kind + "/" + ref.Name {
		case "Deployment/dolphin":
			deployment = each
		case "Deployment/helper":
			helper = each
		case "ServiceAccount/dolphin":
			account = each
		}
	}
	pull := []any{map[string]any{"name": "pull"}}
	if diff := cmp.Diff(any(pull), account["imagePullSecrets"]); diff != "" {
		t.Error(diff)
	}
	pod, _, _ := unstructured.NestedMap(helper, "spec", "template", "spec")
	if diff := cmp.Diff(any(pull), pod["imagePullSecrets"]); diff != "" {
		t.Errorf("the pod of the namespace's own account: %s", diff)
	}
	pod, _, _ = unstructured.NestedMap(deployment, "spec", "template", "spec")
	containers := pod["containers"].([]any)
	manager := containers[0].(map[string]any)
	annotation, _, _ := unstructured.NestedString(deployment, "spec", "template", "metadata", "annotations", "images.fin")
	variable := manager["env"].([]any)[0].(map[string]any)["value"]
	got := []any{pod["nodeSelector"], pod["tolerations"], manager["image"], manager["resources"], annotation, variable, containers[1].(map[string]any)["image"]}
	want := []any{
		map[string]any{"zone": "a"}, []any{map[string]any{"key": "gpu", "operator": "Exists"}},
		"mirror.example/dolphin:9", map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "64Mi"}, "limits": map[string]any{"cpu": "1"}},
		"mirror.example/fin:3", "mirror.example/fin:3", "example.com/proxy:7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	loaded, err := helm.Load(os.DirFS(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []map[string]any{
		{"image": "x"},
		{"imagePullSecrets": []any{"pull"}},
		{"deployments": map[string]any{"dolphins": map[string]any{}}},
		{"relatedImages": map[string]any{"fin": "a \" b"}},
	} {
		if _, err := helm.Template(helm.Request{Name: "test", Chart: loaded, Values: wrong}, "sea", ""); err == nil {
			t.Errorf("%v is taken", wrong)
		}
	}
}

func TestChartSentences(t *testing.T) {
	dir := t.TempDir()
	if err := maker(&bytes.Buffer{}).Chart(t.Context(), bundle.Request{Reference: dolphin, Certificates: "mine"}, dir); err == nil || err.Error() != `--certificates "mine": write cert-manager, self-signed or provided` {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := maker(&bytes.Buffer{}).Chart(t.Context(), bundle.Request{Reference: dolphin}, dir); err == nil || !strings.Contains(err.Error(), "isn't empty") {
		t.Error(err)
	}
	if names := listed(t, dir); len(names) != 1 {
		t.Error(names)
	}
}
