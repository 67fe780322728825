package simulatordeployment

import (
	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/diagnosis"
)

// fields are the paths of a component's settings in the spec.
var fields = map[Component]string{
	Prefill:         "spec.prefill.",
	Decode:          "spec.decode.",
	Picker:          "spec.epp.",
	StandardGateway: "spec.inferenceGateway.standard.",
	IstioGateway:    "spec.inferenceGateway.istio.",
}

// Levers are the words for what a user can change of a part; none for what isn't
// one.
func Levers(deployment *simv1alpha1.SimulatorDeployment, component Component) diagnosis.Levers {
	path, is := fields[component]
	if !is {
		return diagnosis.Levers{}
	}
	if component == Decode && !HasStages(deployment) {
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
	if HasStages(deployment) && (component == Prefill || component == Decode) {
		levers.Command = path + "args"
	}
	return levers
}
