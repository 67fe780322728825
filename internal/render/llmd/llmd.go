// Package llmd renders an Llmd: from its spec and from the values that it refers
// to, to the releases that shall be and those that shall be gone, in order. It
// reads and writes nothing, fetches no chart and knows no Helm SDK.
package llmd

import (
	"fmt"
	"slices"
	"time"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/internal/render/policy"
	"github.com/slipway-dev/slipway/internal/render/source"
)

// AnnotationRetry on an Llmd has failed releases tried again when its value
// changes.
const AnnotationRetry = "slipway.dev/retry"

// defaultNamespace is where releases go when nothing was said, which the CRD's
// own default covers for whatever an API server has seen.
const defaultNamespace = "llm-d"

// defaultTimeout is the CRD's own.
const defaultTimeout = 5 * time.Minute

// Input is what is rendered.
type Input struct {
	Llmd *componentsv1alpha1.Llmd
	// Sources are the ConfigMaps and Secrets that Sources names, as far as they are
	// there.
	Sources map[Source]Data
}

// Release is a release that shall be.
type Release struct {
	Component      Component
	Name           string
	Namespace      string
	Chart          Chart
	Credentials    Credentials
	Values         map[string]any
	Timeout        time.Duration
	Remediation    release.Remediation
	Test           bool
	Drift          release.DriftPolicy
	CRDs           string // Create, CreateReplace or Skip
	ForceConflicts bool
	TakeOwnership  bool
	Labels         map[string]string
	ServiceAccount string
	Again          string
	// Fault is what keeps the release from being rendered: condition's Wait for a
	// source that isn't there, or Stop for values that can't be. What runs is left
	// as it is.
	Fault error
}

// Entry is where the release is, as the status records it.
func (r Release) Entry() componentsv1alpha1.ReleaseEntry {
	return componentsv1alpha1.ReleaseEntry{Component: string(r.Component), Name: r.Name, Namespace: r.Namespace}
}

// Releases gives the releases that shall be, in order. A resource on its way out
// has none.
func Releases(in Input) []Release {
	if in.Llmd.DeletionTimestamp != nil {
		return nil
	}
	var all []Release
	for _, c := range Order() {
		spec := SpecOf(in.Llmd.Spec.Charts, c)
		if !enabled(spec) {
			continue
		}
		all = append(all, one(in, c, spec))
	}
	return all
}

// Removals gives the recorded releases that shall be gone, in the order of
// teardown.
func Removals(recorded []componentsv1alpha1.ReleaseEntry, wanted []Release) []componentsv1alpha1.ReleaseEntry {
	keep := map[object.Ref]bool{}
	for _, each := range wanted {
		keep[place(each.Entry())] = true
	}
	var gone []componentsv1alpha1.ReleaseEntry
	for _, c := range Teardown() {
		for _, entry := range recorded {
			if entry.Component == string(c) && !keep[place(entry)] {
				gone = append(gone, entry)
			}
		}
	}
	return gone
}

// Record is what the status must name before anything is done: what it names
// already, and what shall be.
func Record(recorded []componentsv1alpha1.ReleaseEntry, wanted []Release) []componentsv1alpha1.ReleaseEntry {
	all := slices.Clone(recorded)
	for _, each := range wanted {
		at := slices.IndexFunc(all, func(e componentsv1alpha1.ReleaseEntry) bool { return place(e) == place(each.Entry()) })
		if at < 0 {
			all = append(all, each.Entry())
		} else {
			all[at].Component = string(each.Component)
		}
	}
	return all
}

// place is where a release is, whichever component it is for.
func place(entry componentsv1alpha1.ReleaseEntry) object.Ref {
	return object.Ref{Namespace: entry.Namespace, Name: entry.Name}
}

// SpecOf is what the spec says of a component; nil where it says nothing.
func SpecOf(spec componentsv1alpha1.Charts, c Component) *componentsv1alpha1.ChartSpec {
	switch c {
	case Infra:
		return spec.Infra
	case GatewayAPI:
		return spec.GatewayAPI
	default:
		return spec.ModelService
	}
}

func enabled(spec *componentsv1alpha1.ChartSpec) bool {
	return spec == nil || spec.Enabled == nil || *spec.Enabled
}

func one(in Input, c Component, spec *componentsv1alpha1.ChartSpec) Release {
	if spec == nil {
		spec = &componentsv1alpha1.ChartSpec{}
	}
	usual := usual(c)
	made := Release{
		Component: c,
		Name:      or(spec.ReleaseName, usual.Release),
		Namespace: NamespaceOf(in.Llmd.Spec.Charts, c),
		Chart:     chartOf(spec, &usual),
		Timeout:   timeout(spec.Timeout),
		Test:      spec.Test,
		CRDs:      or(string(spec.CRDs), string(componentsv1alpha1.CRDsCreateReplace)),

		ForceConflicts: spec.ForceConflicts,
		TakeOwnership:  spec.TakeOwnership,
		Remediation:    policy.Remediation(spec.Remediation),
		Drift:          policy.Drift(spec.Drift),
		Labels:         map[string]string{object.LabelPartOf: PartOf, object.LabelComponent: string(c)},
		ServiceAccount: in.Llmd.Spec.ServiceAccountName,
		Again:          in.Llmd.Annotations[AnnotationRetry],
	}
	if made.Credentials, made.Fault = source.Open(spec.Repository, made.Namespace, within(c, "repository"), in.Sources); made.Fault == nil {
		made.Values, made.Fault = values(in, c, spec, usual.Values)
	}
	return made
}

// NamespaceOf is where a component's release goes.
func NamespaceOf(spec componentsv1alpha1.Charts, c Component) string {
	if of := SpecOf(spec, c); of != nil && of.Namespace != "" {
		return of.Namespace
	}
	return or(spec.Namespace, defaultNamespace)
}

func usual(c Component) Default {
	all := Defaults()
	return all[slices.IndexFunc(all, func(d Default) bool { return d.Component == c })]
}

// chartOf is the chart that a spec asks for. Another chart than the default one
// has neither its version nor its values; the same chart in another repository
// has.
func chartOf(spec *componentsv1alpha1.ChartSpec, usual *Default) Chart {
	chart := usual.Chart
	if spec.Chart != "" && spec.Chart != chart.Name {
		chart.Name, chart.Version, usual.Values = spec.Chart, "", nil
	}
	chart.Version = or(spec.Version, chart.Version)
	chart.Digest = spec.Digest
	if spec.Repository != nil {
		chart.Repository = or(spec.Repository.URL, chart.Repository)
	}
	return chart
}

func timeout(text string) time.Duration {
	if given, err := time.ParseDuration(text); err == nil && given > 0 {
		return given
	}
	return defaultTimeout // the CRD lets nothing through that isn't a time
}

func or(value, otherwise string) string {
	if value != "" {
		return value
	}
	return otherwise
}

// field is how a user calls a component's part of the spec.
func field(c Component) string {
	switch c {
	case Infra:
		return "spec.infra"
	case GatewayAPI:
		return "spec.gatewayAPI"
	default:
		return "spec.modelService"
	}
}

// Title is what a sentence calls a component.
func Title(c Component) string {
	switch c {
	case Infra:
		return "infra"
	case GatewayAPI:
		return "gatewayAPI"
	default:
		return "modelService"
	}
}

func within(c Component, format string, args ...any) string {
	return field(c) + "." + fmt.Sprintf(format, args...)
}
