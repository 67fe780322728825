package bootstrap_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
)

// rendered are the goldens of the operator's renderer, which this module can't
// import.
const rendered = "../../../../internal/render/simulatordeployment/testdata/*.out.yaml"

// TestEveryRenderedBootstrapIsRead: what the operator writes for a gateway keeps
// the rules of Envoy's own messages, and holds nothing that the stand-in refuses.
func TestEveryRenderedBootstrapIsRead(t *testing.T) {
	files, err := filepath.Glob(rendered)
	if err != nil {
		t.Fatal(err)
	}
	picked, plain := 0, 0
	for _, file := range files {
		for name, text := range bootstraps(t, file) {
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				config, err := bootstrap.Read([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				if config.Listeners[0].HTTP.Processor != nil {
					picked++
				} else {
					plain++
				}
			})
		}
	}
	if picked == 0 || plain == 0 {
		t.Errorf("%d bootstraps with a picker and %d without one were read; there should be both", picked, plain)
	}
}

// bootstraps are Envoy's configurations in a golden, by their ConfigMap's name.
func bootstraps(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, document := range bytes.Split(text, []byte("---\n")) {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Data     map[string]string
		}
		if err := yaml.Unmarshal(document, &object); err != nil {
			t.Fatal(err)
		}
		if config := object.Data["envoy.yaml"]; object.Kind == "ConfigMap" && config != "" {
			found[object.Metadata.Name] = config
		}
	}
	return found
}
