package llmdeployment_test

import (
	"bufio"
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/llmdeployment"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// TestGoldens renders testdata/NAME.in.yaml (an LLMModel and an LLMDeployment)
// and compares with testdata/NAME.out.yaml. `go test -update` rewrites them.
func TestGoldens(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no goldens found: %v", err)
	}
	for _, path := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".in.yaml"), func(t *testing.T) {
			got := render(t, path)
			golden := strings.TrimSuffix(path, ".in.yaml") + ".out.yaml"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("rendered objects changed (-want +got); go test -update rewrites them:\n%s", diff)
			}
		})
	}
}

func render(t *testing.T, path string) []byte {
	t.Helper()
	objects, err := llmdeployment.Objects(load(t, path))
	if err != nil {
		return []byte("error: " + err.Error() + "\n")
	}
	var out bytes.Buffer
	for _, object := range objects {
		text, err := sigsyaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes()
}

func load(t *testing.T, path string) llmdeployment.Input {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in := llmdeployment.Input{Model: &llmv1alpha1.LLMModel{}, Deployment: &llmv1alpha1.LLMDeployment{}}
	decoder := yaml.NewYAMLReader(bufio.NewReader(file))
	for {
		document, err := decoder.Read()
		if err == io.EOF {
			return in
		}
		if err != nil {
			t.Fatal(err)
		}
		var target any = in.Deployment
		if bytes.Contains(document, []byte("kind: LLMModel\n")) {
			target = in.Model
		}
		if err := sigsyaml.UnmarshalStrict(document, target); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}
