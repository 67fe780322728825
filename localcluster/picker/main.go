// Command picker is llm-d's endpoint picker, put together from its published
// packages, with the same flags. It has the published plugins but for the
// package of llm-d's own scorers (precise-prefix-cache-scorer, load-aware-scorer,
// session-affinity-scorer, active-request-scorer, no-hit-lru-scorer), which needs
// cgo, Python and ZeroMQ; the inference extension's scorers are there. It changes
// nothing else.
package main

import (
	"os"

	"github.com/llm-d/llm-d-inference-scheduler/pkg/metrics"
	"github.com/llm-d/llm-d-inference-scheduler/pkg/plugins/filter"
	prerequest "github.com/llm-d/llm-d-inference-scheduler/pkg/plugins/pre-request"
	"github.com/llm-d/llm-d-inference-scheduler/pkg/plugins/profile"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/gateway-api-inference-extension/cmd/epp/runner"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/plugins"
)

// llmd are the plugins of llm-d by the names that an EndpointPickerConfig gives
// them. The runner adds those of the inference extension itself.
var llmd = map[string]plugins.FactoryFunc{
	filter.ByLabelType:                     filter.ByLabelFactory,
	filter.ByLabelSelectorType:             filter.ByLabelSelectorFactory,
	filter.DecodeRoleType:                  filter.DecodeRoleFactory,
	filter.PrefillRoleType:                 filter.PrefillRoleFactory,
	prerequest.PrefillHeaderHandlerType:    prerequest.PrefillHeaderHandlerFactory,
	profile.DataParallelProfileHandlerType: profile.DataParallelProfileHandlerFactory,
	profile.PdProfileHandlerType:           profile.PdProfileHandlerFactory,
}

func main() {
	for name, factory := range llmd {
		plugins.Register(name, factory)
	}
	picker := runner.NewRunner().WithCustomCollectors(metrics.GetCollectors()...)
	if picker.Run(ctrl.SetupSignalHandler()) != nil {
		os.Exit(1) // the runner has logged why
	}
}
