package simulatordeployment_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// TestLevers: what a user is told to change is a field that the definition has,
// and the one of the part that is meant.
func TestLevers(t *testing.T) {
	staged := &simv1alpha1.SimulatorDeployment{Spec: simv1alpha1.SimulatorDeploymentSpec{
		Decode: &simv1alpha1.StageConfig{Enabled: true},
	}}
	plain := &simv1alpha1.SimulatorDeployment{}
	schema := specSchema(t)
	for _, test := range []struct {
		deployment *simv1alpha1.SimulatorDeployment
		component  simulatordeployment.Component
		image      string
		command    string
	}{
		{staged, simulatordeployment.Prefill, "spec.prefill.image", "spec.prefill.args"},
		{staged, simulatordeployment.Decode, "spec.decode.image", "spec.decode.args"},
		{plain, simulatordeployment.Decode, "spec.image", "spec.image"},
		{staged, simulatordeployment.Picker, "spec.epp.image", "spec.epp.image"},
		{plain, simulatordeployment.StandardGateway, "spec.inferenceGateway.standard.image", "spec.inferenceGateway.standard.image"},
		{staged, simulatordeployment.IstioGateway, "spec.inferenceGateway.istio.image", "spec.inferenceGateway.istio.image"},
	} {
		levers := simulatordeployment.Levers(test.deployment, test.component)
		if levers.Image != test.image || levers.Command != test.command {
			t.Errorf("%s: image %s and command %s, want %s and %s", test.component, levers.Image, levers.Command, test.image, test.command)
		}
		for _, lever := range reflect.ValueOf(levers).Fields() {
			if path, is := strings.CutPrefix(lever.String(), "spec."); is && !has(schema, strings.Split(path, ".")) {
				t.Errorf("%s: the definition has no %s", test.component, lever)
			}
		}
	}
	if got := simulatordeployment.Levers(staged, "another"); !reflect.DeepEqual(got, diagnosis.Levers{}) {
		t.Errorf("what is no part has %+v", got)
	}
}

// specSchema is what the custom resource definition says of a spec.
func specSchema(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../../config/crd/sim.llm-d.io_simulatordeployments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition map[string]any
	if err := yaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(definition, "spec", "versions")
	schema, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
	if err != nil || !found {
		t.Fatalf("no schema: %v", err)
	}
	return schema
}

// has tells whether a schema has a field; any is one of a map.
func has(schema map[string]any, path []string) bool {
	for _, field := range path {
		properties, _ := schema["properties"].(map[string]any)
		next, is := properties[field].(map[string]any)
		if !is {
			next, is = schema["additionalProperties"].(map[string]any)
		}
		if !is {
			return false
		}
		schema = next
	}
	return true
}
