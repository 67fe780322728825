package diagnosis

import "fmt"

// Levers are the words by which a kind's user knows what can be changed, as
// "spec.image of LLMModel gpt-small". An empty one gets the name of the field
// in a pod's template.
type Levers struct {
	Image string
	// Images are the words for the images of single containers, by their names, where
	// each has its own.
	Images         map[string]string
	PullSecrets    string
	CPU            string
	Memory         string
	GPU            string
	Replicas       string
	Port           string
	Engine         string // what chooses the server that runs, and so the paths that are probed
	PodSecurity    string // the whole advice, as "set spec.podSecurity: Baseline in LLMModel x"
	NodeSelector   string
	Tolerations    string
	Storage        string // what names the volume or its class
	Configuration  string // what names Secrets and ConfigMaps
	Command        string
	StartupTimeout string
}

// imageOf are the words for a container's image.
func (l Levers) imageOf(container string) string { return cmpOr(l.Images[container], l.Image) }

// LLMLevers are the levers of an LLMDeployment that runs an LLMModel.
func LLMLevers(model string) Levers {
	of := func(field string) string { return fmt.Sprintf("%s of LLMModel %s", field, model) }
	return Levers{
		Image:          of("spec.image"),
		PullSecrets:    of("spec.imagePullSecrets"),
		CPU:            of("spec.resources.cpu"),
		Memory:         of("spec.resources.memory"),
		GPU:            of("spec.resources.gpu"),
		Replicas:       "spec.replicas",
		Port:           "spec.port",
		Engine:         of("spec.engine"),
		PodSecurity:    fmt.Sprintf("set spec.podSecurity: Baseline in LLMModel %s", model),
		NodeSelector:   "spec.nodeSelector",
		Tolerations:    "spec.tolerations",
		Storage:        of("spec.storage"),
		Configuration:  of("spec.envFrom"),
		Command:        of("spec.command"),
		StartupTimeout: of("spec.startupTimeoutSeconds"),
	}
}

// ChartLevers are those of a workload of a chart or of manifests, whose fields aren't
// known by name: in says where to look for what.
func ChartLevers(in func(what string) string) Levers {
	return Levers{
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

// filled gives the levers that a caller left out the names of a pod's fields.
func (l Levers) filled() Levers {
	for _, each := range []struct {
		lever *string
		field string
	}{
		{&l.Image, "image"},
		{&l.PullSecrets, "imagePullSecrets"},
		{&l.CPU, "resources.requests.cpu"},
		{&l.Memory, "resources.limits.memory"},
		{&l.GPU, "the GPUs in resources.limits"},
		{&l.Replicas, "replicas"},
		{&l.Port, "containerPort"},
		{&l.Engine, "the probe"},
		{&l.PodSecurity, "change its securityContext"},
		{&l.NodeSelector, "nodeSelector"},
		{&l.Tolerations, "tolerations"},
		{&l.Storage, "volumes"},
		{&l.Configuration, "envFrom"},
		{&l.Command, "command"},
		{&l.StartupTimeout, "startupProbe.failureThreshold"},
	} {
		if *each.lever == "" {
			*each.lever = each.field
		}
	}
	return l
}
