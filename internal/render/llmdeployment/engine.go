package llmdeployment

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/part"
)

// launch is how one engine is started and probed.
type launch struct {
	args   []string
	env    []corev1.EnvVar
	probes part.Probes
}

// launchOf is the table of engines.
//
//	engine   port and model                            readiness       liveness
//	OpenAI   PORT, MODEL_NAME in the environment       GET /v1/models  TCP
//	vLLM     --model, --served-model-name, --port      GET /v1/models  GET /health
//	Ollama   OLLAMA_HOST                               GET /           GET /
//	Custom   PORT, MODEL_NAME in the environment       TCP             TCP
//
// GET /v1/models is the readiness that every version of every engine of OpenAI's
// API shares. Only vLLM promises /health; where nothing promises a cheap path,
// liveness is a connection.
func launchOf(model *llmv1alpha1.LLMModel, port int32) launch {
	spec := model.Spec
	startup := spec.StartupTimeoutSeconds
	if startup == 0 {
		startup = defaultStartupSeconds
	}
	tcp := part.TCPProbes(startup)
	openAI := part.HTTPProbes(part.HTTP, "/v1/models", "/v1/models", startup)
	switch spec.Engine {
	case llmv1alpha1.EngineVLLM:
		return launch{
			args: append([]string{
				"--model", spec.ModelName,
				"--served-model-name", spec.ModelName,
				"--port", strconv.Itoa(int(port)),
			}, spec.Args...),
			probes: part.HTTPProbes(part.HTTP, "/v1/models", "/health", startup),
		}
	case llmv1alpha1.EngineOllama:
		return launch{
			args:   spec.Args,
			env:    []corev1.EnvVar{{Name: "OLLAMA_HOST", Value: "0.0.0.0:" + strconv.Itoa(int(port))}},
			probes: part.HTTPProbes(part.HTTP, "/", "/", startup),
		}
	case llmv1alpha1.EngineCustom:
		return launch{args: spec.Args, probes: tcp}
	default:
		openAI.Liveness = tcp.Liveness
		return launch{args: spec.Args, probes: openAI}
	}
}
