package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChartsAreVendored(t *testing.T) {
	repository, out := t.TempDir(), filepath.Join(t.TempDir(), "charts")
	for name, text := range map[string]string{
		"llm-d-infra/Chart.yaml":         "apiVersion: v2\nname: llm-d-infra\nversion: 1.3.3\n",
		"llm-d-infra/templates/pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: \"example.com/infra:v1\"}]}\n",
	} {
		path := filepath.Join(repository, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	manifest := fmt.Sprintf("apiVersion: components.platform.opendatahub.io/v1alpha1\nkind: Llmd\nmetadata: {name: default-llm-d}\nspec:\n"+
		"  infra: {repository: {url: %q}}\n  gatewayAPI: {enabled: false}\n  modelService: {enabled: false}\n", repository)
	run := func(manifest string, args ...string) (string, string, error) {
		var results, progress bytes.Buffer
		root := newRoot(Streams{In: strings.NewReader(manifest), Out: &results, Err: &progress})
		root.SetArgs(append([]string{"charts", "vendor", "-o", out}, args...))
		err := root.ExecuteContext(t.Context())
		return results.String(), progress.String(), err
	}
	results, progress, err := run(manifest, "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	// What is printed can be piped on.
	if results != "example.com/infra:v1\n" {
		t.Errorf("results: %q", results)
	}
	if !strings.Contains(progress, "the charts are in "+out) {
		t.Errorf("progress: %q", progress)
	}
	if _, err := os.Stat(filepath.Join(out, "manifests", "1-llmd-infra.yaml")); err != nil {
		t.Error(err)
	}
	if _, _, err := run("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "-f", "-"); err == nil || !strings.Contains(err.Error(), "give one") {
		t.Errorf("no resource: %v", err)
	}
}
