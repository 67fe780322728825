// Package golden compares what the renderers make of testdata/NAME.in.yaml with
// testdata/NAME.out.yaml. `go test -update` rewrites the latter.
package golden

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// Each renders each input, and compares. What the function returns is the output.
func Each(t *testing.T, render func(t *testing.T, path string) []byte) {
	t.Helper()
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no goldens found: %v", err)
	}
	for _, path := range inputs {
		name := strings.TrimSuffix(path, ".in.yaml")
		t.Run(filepath.Base(name), func(t *testing.T) {
			got := render(t, path)
			if *update {
				if err := os.WriteFile(name+".out.yaml", got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name + ".out.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("rendered objects changed (-want +got); go test -update rewrites them:\n%s", diff)
			}
		})
	}
}

// Manifests are rendered objects as YAML documents, or the error that came of
// them as text.
func Manifests(t *testing.T, objects []*unstructured.Unstructured, err error) []byte {
	t.Helper()
	if err != nil {
		return []byte("error: " + err.Error() + "\n")
	}
	var out bytes.Buffer
	for _, object := range objects {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes()
}
