// Package platformstack renders a PlatformStack: from its spec and from what that
// refers to, to components in the order in which they go, the releases that each
// is made of, and those that shall be gone. It reads and writes nothing, fetches
// no chart and knows no Helm SDK.
package platformstack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/source"
	"github.com/slipway-dev/slipway/internal/wave"
)

// LabelStack is on every object that is made for a stack, with the stack's name.
const LabelStack = "platform.slipway.dev/stack"

// AnnotationRetry on a PlatformStack has failed releases tried again when its
// value changes.
const AnnotationRetry = "slipway.dev/retry"

// defaultTimeout is the CRD's own.
const defaultTimeout = 5 * time.Minute

// Input is what is rendered.
type Input struct {
	Stack *platformv1alpha1.PlatformStack
	// Sources are the ConfigMaps and Secrets that Sources names, as far as they are
	// there.
	Sources map[source.Source]source.Data
}

// Component is a component that shall be.
type Component struct {
	Spec      *platformv1alpha1.Component
	Name      string
	Namespace string
	// Credentials of a chart's repository.
	Credentials source.Credentials
	Values      map[string]any
	Timeout     time.Duration
	// Before and After are its hooks.
	Before, After []Hook
	// Fault is what keeps the component from being rendered: condition's Wait for a
	// source that isn't there, or Stop. What runs is left as it is.
	Fault error
}

// Hook is a hook, and where the release of one that applies objects is.
type Hook struct {
	*platformv1alpha1.Hook
	Release platformv1alpha1.StackRelease // of Apply only
}

// Release is where the component's own release is.
func (c Component) Release() platformv1alpha1.StackRelease {
	return platformv1alpha1.StackRelease{Component: c.Name, Name: c.Name, Namespace: c.Namespace}
}

// Releases are all that the component is made of, in the order of making.
func (c Component) Releases() []platformv1alpha1.StackRelease {
	var all []platformv1alpha1.StackRelease
	add := func(hooks []Hook) {
		for _, each := range hooks {
			if each.Apply != nil {
				all = append(all, each.Release)
			}
		}
	}
	add(c.Before)
	all = append(all, c.Release())
	add(c.After)
	return all
}

// Sources lists what must be read before a stack is rendered, sorted, each once.
func Sources(stack *platformv1alpha1.PlatformStack) []source.Source {
	if stack.DeletionTimestamp != nil {
		return nil
	}
	var all []source.Source
	for _, secret := range stack.Spec.PullSecrets {
		all = append(all, PullSource(secret))
	}
	for i := range stack.Spec.Components {
		spec := &stack.Spec.Components[i]
		for _, reference := range spec.ValuesFrom {
			all = append(all, source.OfValues(reference, NamespaceOf(spec)))
		}
		if chart := spec.Source.Chart; chart != nil {
			all = append(all, source.OfRepository(&chart.Repository, NamespaceOf(spec))...)
		}
	}
	slices.SortFunc(all, func(a, b source.Source) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// PullSource is the Secret that a pull secret is copied from.
func PullSource(secret platformv1alpha1.PullSecret) source.Source {
	return source.Source{Kind: source.KindSecret, Namespace: secret.Namespace, Name: secret.Name}
}

// NamespaceOf is where a component goes.
func NamespaceOf(spec *platformv1alpha1.Component) string { return cmp.Or(spec.Namespace, spec.Name) }

// Waves gives the components that shall be: those of a wave can go at once, and
// each after everything that it depends on. A stack on its way out has none. The
// error is condition's Stop: a ring, an unknown name, two releases of one name.
func Waves(in Input) ([][]Component, error) {
	if in.Stack.DeletionTimestamp != nil {
		return nil, nil
	}
	made := map[string]Component{}
	for i := range in.Stack.Spec.Components {
		each := one(in, i)
		made[each.Name] = each
	}
	if err := distinct(in.Stack, made); err != nil {
		return nil, err
	}
	order, err := wave.Order(needs(in.Stack))
	if err != nil {
		return nil, condition.Stop(condition.ReasonInvalidSpec, "components: %w", err)
	}
	waves := make([][]Component, 0, len(order))
	for _, names := range order {
		var together []Component
		for _, name := range names {
			together = append(together, made[name])
		}
		waves = append(waves, together)
	}
	return waves, nil
}

func needs(stack *platformv1alpha1.PlatformStack) map[string][]string {
	needs := map[string][]string{}
	for _, each := range stack.Spec.Components {
		needs[each.Name] = each.DependsOn
	}
	return needs
}

// distinct demands that no two releases are the same one: a hook's name is made
// of two.
func distinct(stack *platformv1alpha1.PlatformStack, made map[string]Component) error {
	taken := map[object.Ref]string{}
	for _, spec := range stack.Spec.Components {
		for _, each := range made[spec.Name].Releases() {
			if by, is := taken[place(each)]; is {
				return condition.Stop(condition.ReasonInvalidSpec,
					"components %s and %s both have a release %s in namespace %s; rename a component or a hook", by, each.Component, each.Name, each.Namespace)
			}
			taken[place(each)] = each.Component
		}
	}
	return nil
}

func one(in Input, i int) Component {
	spec := &in.Stack.Spec.Components[i]
	made := Component{Spec: spec, Name: spec.Name, Namespace: NamespaceOf(spec), Timeout: timeout(spec.Timeout)}
	if spec.Hooks != nil {
		made.Before, made.After = made.hooks(spec.Hooks.Before), made.hooks(spec.Hooks.After)
	}
	field := "component " + spec.Name + ": "
	if chart := spec.Source.Chart; chart != nil {
		made.Credentials, made.Fault = source.Open(&chart.Repository, made.Namespace, field+"source.chart.repository", in.Sources)
	}
	if spec.Source.Manifests != nil && (spec.Values != nil || len(spec.ValuesFrom) > 0) {
		made.Fault = condition.Stop(condition.ReasonInvalidSpec, "component %s: manifests take no values; remove values and valuesFrom", spec.Name)
	}
	if made.Fault == nil {
		given := source.Values{From: spec.ValuesFrom, Inline: spec.Values, Namespace: made.Namespace, Field: "component " + spec.Name}
		made.Values, made.Fault = given.Merge(in.Sources)
	}
	return made
}

func (c Component) hooks(given []platformv1alpha1.Hook) []Hook {
	var made []Hook
	for i := range given {
		made = append(made, Hook{Hook: &given[i], Release: platformv1alpha1.StackRelease{
			Component: c.Name, Name: fmt.Sprintf("%s-%s", c.Name, given[i].Name), Namespace: c.Namespace,
		}})
	}
	return made
}

func timeout(text string) time.Duration {
	if given, err := time.ParseDuration(text); err == nil && given > 0 {
		return given
	}
	return defaultTimeout // the CRD lets nothing through that isn't a time
}

// Removals gives the recorded releases that shall be gone, the last made first.
func Removals(recorded []platformv1alpha1.StackRelease, waves [][]Component) []platformv1alpha1.StackRelease {
	keep := map[object.Ref]bool{}
	for _, components := range waves {
		for _, each := range components {
			for _, release := range each.Releases() {
				keep[place(release)] = true
			}
		}
	}
	gone := slices.DeleteFunc(slices.Clone(recorded), func(r platformv1alpha1.StackRelease) bool { return keep[place(r)] })
	slices.Reverse(gone)
	return gone
}

// Needed reports whether a release that is still there needs another one: it is of
// the same component and was made later, or of one that depends on that one. Of a
// component that the spec no longer has everything later is taken to need it.
func Needed(stack *platformv1alpha1.PlatformStack, release, there platformv1alpha1.StackRelease) bool {
	needs := needs(stack)
	if release.Component == there.Component {
		return true
	}
	_, isKnown := needs[release.Component]
	_, is := needs[there.Component]
	if !isKnown || !is {
		return true
	}
	seen := map[string]bool{}
	var depends func(name string) bool
	depends = func(name string) bool {
		if seen[name] {
			return false
		}
		seen[name] = true
		return slices.ContainsFunc(needs[name], func(next string) bool { return next == release.Component || depends(next) })
	}
	return depends(there.Component)
}

// Record is what the status must name before releases are made: what it names
// already, and those.
func Record(recorded []platformv1alpha1.StackRelease, wanted ...platformv1alpha1.StackRelease) []platformv1alpha1.StackRelease {
	all := slices.Clone(recorded)
	for _, each := range wanted {
		if !slices.ContainsFunc(all, func(r platformv1alpha1.StackRelease) bool { return place(r) == place(each) }) {
			all = append(all, each)
		}
	}
	return all
}

// place is where a release is, whichever component it is for.
func place(r platformv1alpha1.StackRelease) object.Ref {
	return object.Ref{Namespace: r.Namespace, Name: r.Name}
}

// ApprovalsAnd joins the digests of one approval.
const ApprovalsAnd = "+"

// Approved reports whether someone has approved an upgrade of a component, by the
// annotation on the stack: COMPONENT=DIGEST, with commas between several, and a plus
// between several digests of one component.
func Approved(stack *platformv1alpha1.PlatformStack, component, digest string) bool {
	for each := range strings.SplitSeq(stack.Annotations[platformv1alpha1.AnnotationApprove], ",") {
		name, of, is := strings.Cut(strings.TrimSpace(each), "=")
		if is && name == component && slices.Contains(strings.Split(of, ApprovalsAnd), digest) {
			return true
		}
	}
	return false
}
