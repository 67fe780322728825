package simulatordeployment_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// TestServiceOfAnotherPart: a Service with the name of a part's own is refused
// with the part's name, and only where that part is there.
func TestServiceOfAnotherPart(t *testing.T) {
	const stages = "prefill: {enabled: true}\ndecode: {enabled: true}\n"
	for name, test := range map[string]struct{ spec, part string }{
		"decode's":              {stages + "service: {name: ms-sim-llm-d-modelservice-decode}", "decode"},
		"prefill's":             {stages + "service: {name: ms-sim-llm-d-modelservice-prefill}", "prefill"},
		"the picker's":          {"epp: {enabled: true}\nservice: {name: gaie-sim-epp}", "picker"},
		"the standard one's":    {"inferenceGateway: {enabled: true, standard: {enabled: true}}\nservice: {name: infra-sim-inference-gateway}", "standard gateway"},
		"Istio's":               {"inferenceGateway: {enabled: true, istio: {enabled: true}}\nservice: {name: infra-sim-inference-gateway-istio}", "Istio gateway"},
		"with a prefix":         {stages + "namePrefix: blue-\nservice: {name: ms-sim-llm-d-modelservice-decode}", "decode"},
		"of a part that is off": {"epp: {enabled: false}\nservice: {name: gaie-sim-epp}", ""},
		"without stages":        {"service: {name: ms-sim-llm-d-modelservice-decode}", ""},
		"no decode, no Service": {"prefill: {enabled: true}\nservice: {name: ms-sim-llm-d-modelservice-prefill}", ""},
		"another":               {stages + "epp: {enabled: true}\nservice: {name: front}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := &simv1alpha1.SimulatorDeployment{}
			deployment.Namespace, deployment.Name = "team", "sim"
			if err := yaml.UnmarshalStrict([]byte(test.spec), &deployment.Spec); err != nil {
				t.Fatal(err)
			}
			_, err := simulatordeployment.Objects(simulatordeployment.Input{Deployment: deployment})
			switch {
			case test.part == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case test.part != "" && (!condition.IsStop(err) || !strings.Contains(err.Error(), "which the Service of the "+test.part+" has; write another one")):
				t.Errorf("got %v, want a stop that names the %s", err, test.part)
			}
		})
	}
}
