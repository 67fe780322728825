// Package policy puts what a spec says of failed releases and of changed objects
// into package release's words, for every kind that has such fields.
package policy

import (
	"cmp"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/release"
)

// Remediation takes retries: 0 at its word, which package release takes as unsaid.
func Remediation(spec *componentsv1alpha1.Remediation) release.Remediation {
	if spec == nil {
		return release.Remediation{}
	}
	made := release.Remediation{Strategy: release.Strategy(spec.Strategy)}
	switch {
	case spec.Retries != nil && *spec.Retries == 0 && made.Strategy == release.Retry:
		made.Strategy = release.Halt
	case spec.Retries != nil:
		made.Retries = int(*spec.Retries)
	}
	return made
}

// Drift is Correct unless the spec says otherwise.
func Drift(spec *componentsv1alpha1.Drift) release.DriftPolicy {
	if spec == nil {
		return release.DriftPolicy{Mode: release.DriftCorrect}
	}
	made := release.DriftPolicy{Mode: release.DriftMode(cmp.Or(string(spec.Mode), string(release.DriftCorrect)))}
	for _, each := range spec.Ignore {
		rule := release.Ignore{Paths: each.Paths}
		if t := each.Target; t != nil {
			rule.Target = release.Target{Group: t.Group, Kind: t.Kind, Name: t.Name}
		}
		made.Ignore = append(made.Ignore, rule)
	}
	return made
}
