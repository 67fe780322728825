package nvidiagpullm

import (
	"slices"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// kindOfStep is what a server is asked to do next.
type kindOfStep string

// The steps of a run, in their order. What is next follows from what is, so that
// it may be asked again at any time:
//
//	model not stored                 pull
//	pod shall complete, no alias     mark   (it counts as alive from then on)
//	model not in memory              load
//	another of ours in memory        unload the former
//	prompts unanswered               prompt
//	pod shall complete               finish (the alias goes, and the pod with it)
const (
	stepNone   kindOfStep = ""
	stepPull   kindOfStep = "pull"
	stepMark   kindOfStep = "mark"
	stepLoad   kindOfStep = "load"
	stepUnload kindOfStep = "unload"
	stepPrompt kindOfStep = "prompt"
	stepFinish kindOfStep = "finish"
)

// step is one request to a server, or nothing.
type step struct {
	kind   kindOfStep
	model  string
	prompt string
}

// server is what an Ollama server says of itself.
type server struct {
	answers bool
	stored  []string // names of models, in normal form
	loaded  []string
}

// next decides what a server is asked to do. former is the model that we loaded
// before this one. It is a pure function.
func next(resource *infrav1.NvidiaGpuLlm, now server, answered int, former string) step {
	model := normal(nvidiagpullm.Model(resource))
	completes := !nvidiagpullm.KeepsAlive(resource)
	pending := answered < len(resource.Spec.Prompts)
	switch {
	case !now.answers:
		return step{}
	case !slices.Contains(now.stored, model):
		return step{kind: stepPull, model: model}
	case completes && !slices.Contains(now.stored, nvidiagpullm.RunningAlias):
		return step{kind: stepMark, model: model}
	case !slices.Contains(now.loaded, model) && (!completes || pending):
		return step{kind: stepLoad, model: model}
	case former != "" && former != model && slices.Contains(now.loaded, former):
		return step{kind: stepUnload, model: former}
	case pending:
		return step{kind: stepPrompt, model: model, prompt: resource.Spec.Prompts[answered]}
	case completes:
		return step{kind: stepFinish, model: model}
	default:
		return step{}
	}
}
