package llmd

import (
	"slices"
	"strings"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/source"
)

// What the sources of values and credentials are.
type (
	// Source is a ConfigMap or Secret that a spec names.
	Source = source.Source
	// Data is what a source holds.
	Data = source.Data
	// Credentials open a chart's repository. They never print.
	Credentials = source.Credentials
)

// Kinds of sources.
const (
	KindConfigMap = source.KindConfigMap
	KindSecret    = source.KindSecret
)

// Sources lists what must be read before an Llmd is rendered, sorted, each once.
func Sources(llmd *componentsv1alpha1.Llmd) []Source {
	var all []Source
	for _, c := range Order() {
		spec := SpecOf(llmd.Spec.Charts, c)
		if spec == nil || !enabled(spec) || llmd.DeletionTimestamp != nil {
			continue
		}
		namespace := NamespaceOf(llmd.Spec.Charts, c)
		for _, reference := range spec.ValuesFrom {
			all = append(all, source.OfValues(reference, namespace))
		}
		all = append(all, source.OfRepository(spec.Repository, namespace)...)
	}
	slices.SortFunc(all, func(a, b Source) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// values are what a spec says, and below it what the chart has by default here.
func values(in Input, c Component, spec *componentsv1alpha1.ChartSpec, usual []PathValue) (map[string]any, error) {
	given := source.Values{From: spec.ValuesFrom, Inline: spec.Values, Namespace: NamespaceOf(in.Llmd.Spec.Charts, c), Field: field(c)}
	merged, err := given.Merge(in.Sources)
	if err != nil {
		return nil, err
	}
	for _, each := range usual {
		source.Provide(merged, each.Path, each.Value)
	}
	return merged, nil
}
