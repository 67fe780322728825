package llmd

import (
	"slices"

	"github.com/slipway-dev/slipway/internal/wave"
)

// Component is one of the parts of llm-d, each a release of its own. It is the
// value of the label app.kubernetes.io/component on all that a release makes.
type Component string

// The components.
const (
	Infra        Component = "infra"
	GatewayAPI   Component = "gateway-api"
	ModelService Component = "modelservice"
)

// PartOf is the value of the label app.kubernetes.io/part-of on all that the
// releases make.
const PartOf = "llm-d"

// Default is what a component's chart is unless the spec says otherwise.
type Default struct {
	Component Component
	Release   string
	Chart     Chart
	// Values that the chart can't be rendered without, by their paths. Each counts
	// only where the spec's values have nothing at that path.
	Values []PathValue
}

// Chart names a chart and where it is; package registry has the forms.
type Chart struct {
	Repository string
	Name       string
	Version    string
	Digest     string
}

// PathValue is a value and its path in the values.
type PathValue struct {
	Path  []string
	Value any
}

// Defaults are the charts of llm-d, in the order in which they are released.
func Defaults() []Default {
	return []Default{
		{
			Component: Infra, Release: "llmd-infra",
			Chart: Chart{Repository: "https://llm-d-incubation.github.io/llm-d-infra/", Name: "llm-d-infra", Version: "1.3.3"},
		},
		{
			Component: GatewayAPI, Release: "llmd-gateway-api",
			Chart: Chart{Repository: "oci://registry.k8s.io/gateway-api-inference-extension/charts", Name: "inferencepool", Version: "1.0.1"},
			// The label that llm-d-modelservice gives its pods.
			Values: []PathValue{{
				Path:  []string{"inferencePool", "modelServers", "matchLabels"},
				Value: map[string]any{"llm-d.ai/inferenceServing": "true"},
			}},
		},
		{
			Component: ModelService, Release: "llmd-modelservice",
			Chart: Chart{Repository: "https://llm-d-incubation.github.io/llm-d-modelservice/", Name: "llm-d-modelservice", Version: "0.2.11"},
		},
	}
}

// needs says which components must be ready before another is released.
var needs = map[string][]string{
	string(Infra):        nil,
	string(GatewayAPI):   {string(Infra)},
	string(ModelService): {string(GatewayAPI)},
}

// Needs are the components that must be ready before c is released.
func Needs(c Component) []Component {
	var all []Component
	for _, each := range needs[string(c)] {
		all = append(all, Component(each))
	}
	return all
}

// Order gives the components in the order in which they are released.
func Order() []Component { return flat(wave.Order(needs)) }

// Teardown gives the components in the order in which they are uninstalled.
func Teardown() []Component { return flat(wave.Teardown(needs)) }

func flat(waves [][]string, err error) []Component {
	if err != nil {
		panic(err) // the graph above has no ring
	}
	var all []Component
	for _, each := range slices.Concat(waves...) {
		all = append(all, Component(each))
	}
	return all
}
