package nvidiagpullm

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

func installation(keepAlive bool, model string, prompts ...string) *infrav1.NvidiaGpuLlm {
	return &infrav1.NvidiaGpuLlm{Spec: infrav1.NvidiaGpuLlmSpec{
		Action: infrav1.ActionInstall, LLMName: "pod", Model: model, KeepAlive: &keepAlive, Prompts: prompts,
	}}
}

func TestNext(t *testing.T) {
	const model, alias = "phi:latest", nvidiagpullm.RunningAlias
	stays, completes := installation(true, "phi", "a", "b"), installation(false, "phi", "a", "b")
	for name, test := range map[string]struct {
		resource *infrav1.NvidiaGpuLlm
		now      server
		answered int
		former   string
		want     step
	}{
		"a server that doesn't answer":   {stays, server{}, 0, "", step{}},
		"nothing stored":                 {stays, server{answers: true}, 0, "", step{kind: stepPull, model: model}},
		"stored":                         {stays, server{answers: true, stored: []string{model}}, 0, "", step{kind: stepLoad, model: model}},
		"loaded":                         {stays, server{answers: true, stored: []string{model}, loaded: []string{model}}, 0, model, step{kind: stepPrompt, model: model, prompt: "a"}},
		"one answered":                   {stays, server{answers: true, stored: []string{model}, loaded: []string{model}}, 1, model, step{kind: stepPrompt, model: model, prompt: "b"}},
		"all answered":                   {stays, server{answers: true, stored: []string{model}, loaded: []string{model}}, 2, model, step{}},
		"a runner was killed":            {stays, server{answers: true, stored: []string{model}}, 2, model, step{kind: stepLoad, model: model}},
		"another model is wanted":        {stays, server{answers: true, stored: []string{"old:latest"}, loaded: []string{"old:latest"}}, 2, "old:latest", step{kind: stepPull, model: model}},
		"both are loaded":                {stays, server{answers: true, stored: []string{model, "old:latest"}, loaded: []string{model, "old:latest"}}, 2, "old:latest", step{kind: stepUnload, model: "old:latest"}},
		"somebody else's model is there": {stays, server{answers: true, stored: []string{model, "theirs:latest"}, loaded: []string{model, "theirs:latest"}}, 2, model, step{}},
		"it shall complete":              {completes, server{answers: true, stored: []string{model}}, 0, "", step{kind: stepMark, model: model}},
		"it is marked":                   {completes, server{answers: true, stored: []string{model, alias}}, 0, "", step{kind: stepLoad, model: model}},
		"it has answered":                {completes, server{answers: true, stored: []string{model, alias}}, 2, "", step{kind: stepFinish, model: model}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := next(test.resource, test.now, test.answered, test.former); got != test.want {
				t.Errorf("next is %+v, want %+v", got, test.want)
			}
		})
	}
}

// world is a server and what is written down, as steps change them.
type world struct {
	now      server
	answered int
	former   string
	finished bool
}

func (w *world) carryOut(what step) {
	add := func(list []string, name string) []string {
		if slices.Contains(list, name) {
			return list
		}
		return append(list, name)
	}
	without := func(list []string, name string) []string {
		return slices.DeleteFunc(list, func(each string) bool { return each == name })
	}
	switch what.kind {
	case stepPull:
		w.now.stored = add(w.now.stored, what.model)
	case stepMark:
		w.now.stored = add(w.now.stored, nvidiagpullm.RunningAlias)
	case stepLoad:
		w.now.loaded = add(w.now.loaded, what.model)
	case stepUnload:
		w.now.loaded, w.former = without(w.now.loaded, what.model), ""
	case stepPrompt:
		w.answered++
	case stepFinish:
		w.now.stored, w.finished = without(w.now.stored, nvidiagpullm.RunningAlias), true
	}
}

// TestEveryRunEnds: whatever the server has, and whatever it loses on the way, the
// steps come to an end with every prompt answered once, in order, and the model
// where it shall be.
func TestEveryRunEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompts := rapid.SliceOfN(rapid.StringMatching("[a-z]{1,4}"), 0, 4).Draw(t, "prompts")
		keepAlive := rapid.Bool().Draw(t, "keepAlive")
		resource := installation(keepAlive, "phi", prompts...)
		some := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"phi:latest", "old:latest", nvidiagpullm.RunningAlias}), func(s string) string { return s })
		w := &world{
			now:    server{answers: true, stored: some.Draw(t, "stored"), loaded: some.Draw(t, "loaded")},
			former: rapid.SampledFrom([]string{"", "old:latest", "phi:latest"}).Draw(t, "former"),
		}
		losses := rapid.IntRange(0, 3).Draw(t, "losses")
		for range 40 {
			what := next(resource, w.now, w.answered, w.former)
			if what.kind == stepNone || w.finished {
				break
			}
			if what.kind == stepPrompt && what.prompt != prompts[w.answered] {
				t.Fatalf("prompt %q after %d answers of %v", what.prompt, w.answered, prompts)
			}
			w.carryOut(what)
			if losses > 0 && !w.finished && rapid.Bool().Draw(t, "killed") {
				losses--
				w.now.loaded = nil // the runner, or the pod with a claim
			}
		}
		if w.answered != len(prompts) {
			t.Errorf("%d of %d prompts are answered", w.answered, len(prompts))
		}
		if keepAlive && !slices.Contains(w.now.loaded, "phi:latest") {
			t.Errorf("the model is not in memory at the end: %v", w.now.loaded)
		}
		if !keepAlive && !w.finished {
			t.Errorf("a pod that shall complete goes on")
		}
		if keepAlive && slices.Contains(w.now.loaded, "old:latest") && w.former == "old:latest" {
			t.Errorf("the former model is still in memory")
		}
	})
}
