package simulatordeployment_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sigsyaml "sigs.k8s.io/yaml"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// TestGoldens renders testdata/NAME.in.yaml (the APIs that a cluster serves, and
// a SimulatorDeployment) and compares with testdata/NAME.out.yaml. `go test
// -update` rewrites them.
func TestGoldens(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no goldens found: %v", err)
	}
	for _, path := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".in.yaml"), func(t *testing.T) {
			got := render(t, load(t, path))
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

func render(t *testing.T, in simulatordeployment.Input) []byte {
	t.Helper()
	objects, err := simulatordeployment.Objects(in)
	if err != nil {
		t.Fatal(err)
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

func load(t *testing.T, path string) simulatordeployment.Input {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	served, resource, found := bytes.Cut(text, []byte("\n---\n"))
	if !found {
		t.Fatalf("%s: two documents are needed: what is served, and the resource", path)
	}
	in := simulatordeployment.Input{Deployment: &simv1alpha1.SimulatorDeployment{}}
	if err := sigsyaml.UnmarshalStrict(served, &in.Served); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if err := sigsyaml.UnmarshalStrict(resource, in.Deployment); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return in
}
