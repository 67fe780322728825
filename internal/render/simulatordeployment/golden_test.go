package simulatordeployment_test

import (
	"bytes"
	"os"
	"testing"

	sigsyaml "sigs.k8s.io/yaml"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
	"github.com/slipway-dev/slipway/test/golden"
)

// TestGoldens renders testdata/NAME.in.yaml: the APIs that a cluster serves, and
// a SimulatorDeployment.
func TestGoldens(t *testing.T) {
	golden.Each(t, func(t *testing.T, path string) []byte { return render(t, load(t, path)) })
}

func render(t *testing.T, in simulatordeployment.Input) []byte {
	t.Helper()
	objects, err := simulatordeployment.Objects(in)
	if err != nil {
		t.Fatal(err)
	}
	return golden.Manifests(t, objects, nil)
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
