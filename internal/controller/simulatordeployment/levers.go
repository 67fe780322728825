package simulatordeployment

import (
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// fields are the paths of a component's settings in the spec.
var fields = map[simulatordeployment.Component]string{
	simulatordeployment.Prefill:         "spec.prefill.",
	simulatordeployment.Decode:          "spec.decode.",
	simulatordeployment.Picker:          "spec.epp.",
	simulatordeployment.StandardGateway: "spec.inferenceGateway.standard.",
	simulatordeployment.IstioGateway:    "spec.inferenceGateway.istio.",
}

// titles are what a component is called in a sentence.
var titles = map[simulatordeployment.Component]string{
	simulatordeployment.Prefill:         "prefill",
	simulatordeployment.Decode:          "decode",
	simulatordeployment.Picker:          "picker",
	simulatordeployment.StandardGateway: "standard gateway",
	simulatordeployment.IstioGateway:    "Istio gateway",
}

// leversOf are the words for what a user can change of a part.
func leversOf(facts *facts, component simulatordeployment.Component) diagnosis.Levers {
	path := fields[component]
	if component == simulatordeployment.Decode && !simulatordeployment.HasStages(facts.deployment) {
		path = "spec."
	}
	levers := diagnosis.Levers{
		Image:       path + "image",
		PullSecrets: "spec.imagePullSecrets",
		CPU:         path + "resources.requests.cpu",
		Memory:      path + "resources.limits.memory",
		GPU:         path + "resources.limits",
		Replicas:    path + "replicas",
		Port:        "the port in the image's own configuration",
		Command:     path + "image",
	}
	if component == simulatordeployment.Prefill || component == simulatordeployment.Decode {
		levers.Command = path + "args"
	}
	return levers
}
