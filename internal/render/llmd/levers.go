package llmd

import "github.com/slipway-dev/slipway/internal/diagnosis"

// Levers are the words for what the user of an Llmd can change of a component's
// workloads. Which of a chart's values it is only the chart knows.
func Levers(c Component) diagnosis.Levers {
	in := func(what string) string { return what + " in " + field(c) + ".values" }
	return diagnosis.Levers{
		Image:          in("the image"),
		PullSecrets:    in("imagePullSecrets"),
		CPU:            in("resources.requests.cpu"),
		Memory:         in("resources.limits.memory"),
		GPU:            in("the GPUs"),
		Replicas:       in("replicas"),
		Port:           in("the port"),
		Engine:         in("the probe"),
		PodSecurity:    in("change the securityContext"),
		NodeSelector:   in("nodeSelector"),
		Tolerations:    in("tolerations"),
		Storage:        in("the volumes"),
		Configuration:  in("envFrom"),
		Command:        in("the command"),
		StartupTimeout: in("startupProbe.failureThreshold"),
	}
}
