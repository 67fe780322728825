package stack

import (
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/olm"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// Action is what would be done about a component.
type Action string

// The actions.
const (
	ActionInstall   Action = "Install"
	ActionUpgrade   Action = "Upgrade"
	ActionUnchanged Action = "Unchanged"
	ActionLeave     Action = "Leave" // it is there from elsewhere
	ActionUninstall Action = "Uninstall"
	ActionUnknown   Action = "Unknown" // Fault says why
)

// Planned is what a pass after another would do about one component.
type Planned struct {
	Name      string
	Namespace string
	// Wave from 1: all of a wave can go at once. 0 for what is uninstalled.
	Wave   int
	Action Action
	// From and To are versions; empty where there is none.
	From, To string
	Digest   string
	// Images of its workloads, sorted, each once.
	Images []string
	// Difference from what runs. Its warnings need an approval by approval: Manual, and
	// its errors are refused.
	Difference olm.Difference
	// Message says more about the action, in a sentence.
	Message string
	// Fault is why nothing can be said: the source can't be had, or values are amiss.
	Fault error
}

// Plan tells what would be done for a stack, in order, and writes nothing. The
// stack needn't be in the cluster. The error is of the whole stack: a ring of
// dependencies, or an API server that doesn't answer.
func (e *Engine) Plan(ctx context.Context, stack *platformv1alpha1.PlatformStack) ([]Planned, error) {
	p := e.begin(stack)
	var err error
	if p.hand, err = p.handsFor(p.stack); err != nil {
		return nil, err
	}
	if p.sources, err = p.gather(ctx); err != nil {
		return nil, p.advised(err)
	}
	if p.waves, err = platformstack.Waves(platformstack.Input{Stack: p.stack, Sources: p.sources}); err != nil {
		return nil, err
	}
	var plan []Planned
	for i, components := range p.waves {
		for _, c := range components {
			planned := p.planned(ctx, c)
			planned.Wave = i + 1
			plan = append(plan, planned)
		}
	}
	for _, each := range platformstack.Removals(stack.Status.Releases, p.waves) {
		if each.Name == each.Component {
			plan = append(plan, Planned{Name: each.Component, Namespace: each.Namespace, Action: ActionUninstall})
		}
	}
	return plan, ctx.Err()
}

// planned looks at one component.
func (p *pass) planned(ctx context.Context, c platformstack.Component) Planned {
	planned := Planned{Name: c.Name, Namespace: c.Namespace, Action: ActionUnknown, Fault: c.Fault}
	s := &stand{component: c}
	if planned.Fault == nil {
		s.made, planned.Fault = p.fetch(ctx, c)
	}
	if planned.Fault == nil {
		planned.Fault = p.chooseCertificates(ctx, s)
	}
	if planned.Fault != nil {
		return planned
	}
	planned.To, planned.Digest = s.made.version, s.made.digest
	want := p.want(s, s.made)
	if s.report, planned.Fault = p.hand.runner.Look(ctx, want); planned.Fault != nil {
		return planned
	}
	planned.Message = s.report.Decision.Message
	planned.Action = ActionUnchanged
	if s.report.Decision.Kind == release.Install || s.report.Decision.Kind == release.Upgrade {
		planned.Action = Action(s.report.Decision.Kind)
	}
	if newest := s.report.Newest; newest != nil {
		planned.From = version(newest.Version)
	}
	if !p.isRecorded(c.Release()) && planned.Action != ActionUnchanged {
		left, err := p.existing(ctx, s)
		if planned.Fault = err; err != nil || left != "" {
			planned.Action, planned.Message = ActionLeave, left
			return planned
		}
	}
	c.Values = want.Values
	planned.Fault = p.compare(ctx, s, c, &planned)
	return planned
}

// compare fills in images, and what would change.
func (p *pass) compare(ctx context.Context, s *stand, c platformstack.Component, planned *Planned) error {
	after, err := p.templated(s.made, c)
	if err != nil {
		return err
	}
	planned.Images = images(after)
	parts, err := p.parts(s)
	if err != nil {
		return err
	}
	var definitions []*unstructured.Unstructured
	for i, each := range parts {
		// Hooks are compared whatever becomes of the component itself.
		if i > 0 || planned.Action != ActionUnchanged {
			definitions = append(definitions, each.definitions...)
		}
	}
	before, err := p.live(ctx, definitions)
	if err != nil {
		return err
	}
	if planned.Action == ActionUnchanged {
		planned.Difference = olm.Compare(before, definitions)
		return nil
	}
	current, err := helm.New(p.hand.config, c.Namespace, p.options.Log, p.options.Now).Get(c.Name)
	if err != nil && !errors.Is(err, helm.ErrNotFound) {
		return err
	}
	objects, err := parse([]byte(current.Manifest))
	if err != nil {
		return err
	}
	planned.Difference = olm.Compare(append(before, objects...), append(definitions, after...))
	return nil
}

// images are those of the pods that objects make, sorted, each once.
func images(objects []*unstructured.Unstructured) []string {
	found := map[string]bool{}
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, below := range v {
				if list, is := below.([]any); is && (key == "containers" || key == "initContainers") {
					for _, each := range list {
						container, _ := each.(map[string]any)
						if image, is := container["image"].(string); is {
							found[image] = true
						}
					}
				}
				walk(below)
			}
		case []any:
			for _, below := range v {
				walk(below)
			}
		}
	}
	for _, each := range objects {
		if each.GetKind() != kindDefinition {
			walk(each.Object)
		}
	}
	return slices.Sorted(maps.Keys(found))
}
