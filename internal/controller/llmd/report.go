package llmd

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	metav1alpha1 "github.com/slipway-dev/slipway/api/meta/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// The phases.
const (
	phaseReady       = "Ready"
	phaseNotReady    = "NotReady"
	phaseTerminating = "Terminating"
)

// reasonNothingEnabled is the reason of an Llmd that asks for no release.
const reasonNothingEnabled = "NothingEnabled"

// maxObjects bounds how many objects of a release a status names.
const maxObjects = 256

// conditionOf is the condition of a component.
func conditionOf(c llmd.Component) string {
	switch c {
	case llmd.Infra:
		return componentsv1alpha1.ConditionInfraReady
	case llmd.GatewayAPI:
		return componentsv1alpha1.ConditionGatewayAPIReady
	default:
		return componentsv1alpha1.ConditionModelServiceReady
	}
}

// report says how each release stands, and how the whole does. It is a pure
// function; the same world gives the same status.
func report(facts *facts, done *result, now metav1.Time) componentsv1alpha1.LlmdStatus {
	resource := facts.llmd
	status := *resource.Status.DeepCopy()
	status.ObservedGeneration = resource.Generation
	status.Releases = slices.DeleteFunc(status.Releases, done.isGone)
	told := map[llmd.Component]bool{}
	for i := range done.releases {
		each := &done.releases[i]
		told[each.component] = true
		part := partOf(&status, each.component)
		*part = chartStatus(*part, each)
		setCondition(&status, each.component, each.outcome(), resource.Generation, now)
	}
	for i := range done.removals {
		each := &done.removals[i]
		if told[each.component] {
			continue // what it becomes is told already
		}
		if each.gone() {
			continue
		}
		told[each.component] = true
		part := partOf(&status, each.component)
		*part = chartStatus(*part, each)
		setCondition(&status, each.component, each.outcome(), resource.Generation, now)
	}
	for _, c := range llmd.Order() {
		if !told[c] {
			*partOf(&status, c) = nil
			condition.Remove(&status.Conditions, conditionOf(c))
		}
	}
	condition.Report(&status.Conditions, summary(facts, done), resource.Generation, now)
	status.Phase = phaseOf(facts, status.Conditions)
	return status
}

// starting is the status of a new resource, before anything was made for it.
func starting(facts *facts, now metav1.Time) componentsv1alpha1.LlmdStatus {
	status := *facts.llmd.Status.DeepCopy()
	status.ObservedGeneration = facts.llmd.Generation
	condition.Report(&status.Conditions, condition.Outcome{
		Verdict: condition.Waiting, Reason: condition.ReasonProgressing, Message: "the releases are about to be installed",
	}, facts.llmd.Generation, now)
	status.Phase = phaseOf(facts, status.Conditions)
	return status
}

// isGone tells of a recorded release whether it is known to be uninstalled.
func (d *result) isGone(entry componentsv1alpha1.ReleaseEntry) bool {
	return slices.ContainsFunc(d.removals, func(s stand) bool { return s.entry == entry && s.gone() })
}

func partOf(status *componentsv1alpha1.LlmdStatus, c llmd.Component) **componentsv1alpha1.ChartStatus {
	switch c {
	case llmd.Infra:
		return &status.Infra
	case llmd.GatewayAPI:
		return &status.GatewayAPI
	default:
		return &status.ModelService
	}
}

// chartStatus tells of a release. What couldn't be read stays as it was told.
func chartStatus(before *componentsv1alpha1.ChartStatus, s *stand) *componentsv1alpha1.ChartStatus {
	told := &componentsv1alpha1.ChartStatus{ReleaseName: s.entry.Name, Namespace: s.entry.Namespace}
	same := before != nil && before.ReleaseName == told.ReleaseName && before.Namespace == told.Namespace
	newest := s.report.Newest
	if newest == nil {
		if same && (s.err != nil || s.blocked != "") {
			return before
		}
		return told
	}
	told.Revision, told.Status = int64(newest.Number), string(newest.Status)
	told.Chart, told.Version, told.AppVersion = newest.Chart, newest.Version, newest.AppVersion
	switch {
	case s.digest != "" && newest.Config != "" && newest.Config == s.report.Config:
		told.Digest = s.digest
	case same && before.Version == told.Version:
		told.Digest = before.Digest
	}
	if last := s.report.Last; last.Kind != "" {
		told.LastAction, told.LastActionResult = string(last.Kind), last.Result
		if !last.Time.IsZero() {
			// As it is read back: in whole seconds.
			at := metav1.NewTime(last.Time).Rfc3339Copy()
			told.LastActionTime = &at
		}
	}
	told.Objects = objectsOf(s)
	return told
}

func objectsOf(s *stand) []metav1alpha1.InventoryEntry {
	refs := make([]object.Ref, 0, len(s.report.Live))
	for _, live := range s.report.Live {
		refs = append(refs, object.Of(live))
	}
	object.Sort(refs)
	var entries []metav1alpha1.InventoryEntry
	for _, ref := range refs[:min(len(refs), maxObjects)] {
		entries = append(entries, metav1alpha1.InventoryEntry(ref))
	}
	return entries
}

// setCondition tells of one component. Conflicts and our own end are no news.
func setCondition(status *componentsv1alpha1.LlmdStatus, c llmd.Component, outcome condition.Outcome, generation int64, now metav1.Time) {
	if outcome.Silent {
		return
	}
	is := metav1.ConditionFalse
	if outcome.Verdict == condition.Done {
		is = metav1.ConditionTrue
	} else if outcome.Reason == condition.ReasonReady {
		outcome.Reason = condition.ReasonProgressing // it is about to be marked so
	}
	condition.Set(&status.Conditions, metav1.Condition{
		Type: conditionOf(c), Status: is, Reason: outcome.Reason, Message: outcome.Message, ObservedGeneration: generation,
	}, now)
}

// summary is the outcome of the whole: the first fault that the user can mend, or
// else the first release that isn't ready, in the order in which they are run.
func summary(facts *facts, done *result) condition.Outcome {
	if facts.llmd.DeletionTimestamp != nil || len(done.releases) == 0 && len(done.removals) > 0 {
		if outcome, is := first(done.removals); is {
			return outcome
		}
	}
	if outcome, is := first(done.releases); is {
		return outcome
	}
	if outcome, is := first(done.removals); is {
		return outcome
	}
	if done.failure != nil {
		return condition.Classify(done.failure)
	}
	if len(done.releases) == 0 {
		return condition.Outcome{Verdict: condition.Done, Reason: reasonNothingEnabled, Message: "nothing is enabled, and nothing is released"}
	}
	return condition.Outcome{Verdict: condition.Done, Reason: condition.ReasonReady, Message: versions(done.releases)}
}

// first is the first of the releases that isn't as it shall be, and one that the
// user must act on before all others.
func first(stands []stand) (condition.Outcome, bool) {
	var found *condition.Outcome
	for i := range stands {
		if stands[i].wanted == nil && stands[i].gone() {
			continue
		}
		outcome := stands[i].outcome()
		if stands[i].wanted != nil && outcome.Verdict == condition.Done || outcome.Silent && found != nil {
			continue
		}
		if stands[i].wanted == nil && outcome.Verdict == condition.Done {
			outcome.Verdict = condition.Waiting
		}
		if stands[i].underWay() {
			outcome.Reason = condition.ReasonProgressing
		}
		outcome.Message = llmd.Title(stands[i].component) + ": " + outcome.Message
		if found == nil || outcome.Verdict == condition.Stopped && found.Verdict != condition.Stopped {
			found = &outcome
		}
	}
	if found == nil {
		return condition.Outcome{}, false
	}
	return *found, true
}

// versions is "infra 1.3.3, gatewayAPI 1.0.1 and modelService 0.2.11 are ready".
func versions(stands []stand) string {
	var texts []string
	for i := range stands {
		text := llmd.Title(stands[i].component)
		if newest := stands[i].report.Newest; newest != nil {
			text += " " + newest.Version
		}
		texts = append(texts, text)
	}
	told := texts[0] + " is ready"
	if last := len(texts) - 1; last > 0 {
		told = fmt.Sprintf("%s and %s are ready", strings.Join(texts[:last], ", "), texts[last])
	}
	for i := range stands {
		if stale := stands[i].stands(); stale != "" {
			return told + stale // one of a repository speaks for all
		}
	}
	return told
}

func phaseOf(facts *facts, conditions []metav1.Condition) string {
	switch {
	case facts.llmd.DeletionTimestamp != nil:
		return phaseTerminating
	case condition.IsTrue(conditions, condition.Ready):
		return phaseReady
	default:
		return phaseNotReady
	}
}
