package simulatordeployment

import "github.com/slipway-dev/slipway/internal/condition"

// clash says that the Service whose name a user chose has the name of one that
// another part has; nil where it hasn't. What those are called depends on which
// parts there are, which no rule of the definition could say in a few words.
func (s stack) clash() error {
	if !s.service.wanted || !s.decode.enabled {
		return nil
	}
	taken := map[string]string{}
	if s.staged {
		for _, stage := range []stage{s.prefill, s.decode} {
			if stage.enabled {
				taken[stage.name] = Title(stage.component)
			}
		}
	}
	if s.epp.enabled {
		taken[s.epp.name] = Title(Picker)
	}
	for _, each := range s.envoys {
		taken[each.name] = Title(each.component)
	}
	if part, is := taken[s.service.name]; is {
		return condition.Stop(condition.ReasonInvalidSpec,
			"spec.service.name gives the Service the name %s, which the Service of the %s has; write another one", s.service.name, part)
	}
	return nil
}

// titles are what a component is called in a sentence.
var titles = map[Component]string{
	Prefill:         "prefill",
	Decode:          "decode",
	Picker:          "picker",
	StandardGateway: "standard gateway",
	IstioGateway:    "Istio gateway",
}

// Title is what a component is called in a sentence.
func Title(component Component) string { return titles[component] }
