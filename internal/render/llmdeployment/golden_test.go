package llmdeployment_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/llmdeployment"
	"github.com/slipway-dev/slipway/test/golden"
)

// TestGoldens renders testdata/NAME.in.yaml: an LLMModel and an LLMDeployment.
func TestGoldens(t *testing.T) {
	golden.Each(t, func(t *testing.T, path string) []byte {
		objects, err := llmdeployment.Objects(load(t, path))
		return golden.Manifests(t, objects, err)
	})
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
