package stack

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/release"
)

// report is the status after a pass, and the outcome that its conditions tell.
func (p *pass) report(fault error, now metav1.Time) (platformv1alpha1.PlatformStackStatus, condition.Outcome) {
	status := *p.current.Status.DeepCopy()
	status.ObservedGeneration = p.stack.Generation
	if p.waves != nil || p.stack.DeletionTimestamp != nil {
		status.Components = p.components()
	}
	for _, each := range p.removals {
		if each.gone() {
			status.Releases = slices.DeleteFunc(status.Releases, func(r platformv1alpha1.StackRelease) bool { return r == each.release })
		}
	}
	ready := 0
	for _, each := range p.stands {
		if each.ready() {
			ready++
		}
	}
	status.Ready = fmt.Sprintf("%d/%d", ready, len(p.stack.Spec.Components))
	outcome := p.outcome(fault, ready)
	condition.Report(&status.Conditions, outcome, p.stack.Generation, now)
	return status, outcome
}

// components are told in the order of the spec, and then those that go.
func (p *pass) components() []platformv1alpha1.ComponentStatus {
	var all []platformv1alpha1.ComponentStatus
	for _, spec := range p.stack.Spec.Components {
		if s := p.stands[spec.Name]; s != nil {
			all = append(all, p.tell(s))
		}
	}
	for _, each := range slices.Backward(p.removals) {
		known := slices.ContainsFunc(all, func(c platformv1alpha1.ComponentStatus) bool { return c.Name == each.release.Component })
		if known || each.gone() {
			continue
		}
		told := platformv1alpha1.ComponentStatus{Name: each.release.Component, Namespace: each.release.Namespace, Phase: platformv1alpha1.PhaseRemoving}
		outcome := each.outcome()
		told.Reason, told.Message = outcome.Reason, condition.BoundTo(outcome.Message, maxMessage)
		if newest := each.report.Newest; newest != nil {
			told.Version, told.Revision = version(newest.Version), int64(newest.Number)
		}
		all = append(all, told)
	}
	return all[:min(len(all), maxComponents)]
}

// maxComponents is how many the CRD lets the status tell.
const maxComponents = 64

// maxMessage bounds what the status says of one component, in bytes.
const maxMessage = 512

// tell is the status of one component.
func (p *pass) tell(s *stand) platformv1alpha1.ComponentStatus {
	told := s.status
	told.Hooks = slices.DeleteFunc(slices.Clone(told.Hooks), func(h platformv1alpha1.HookStatus) bool { return !s.hasHook(h.Name) })
	outcome := s.outcome()
	told.Reason = outcome.Reason
	told.Message = condition.BoundTo(p.advice(outcome.Message), maxMessage)
	told.Phase = s.phase(outcome)
	was := p.was(s.component.Name)
	if outcome.Silent && was != nil {
		was.Hooks = told.Hooks
		return *was
	}
	if newest := s.report.Newest; newest != nil {
		told.Revision = int64(newest.Number)
		told.Version = version(newest.Version)
		if s.made != nil && told.Version == "" {
			told.Version = s.made.version
		}
	}
	return told
}

// version is a chart's own; one that was made up for manifests isn't told.
func version(of string) string {
	if of == noVersion {
		return ""
	}
	return of
}

// phase says where a component is, from how it stands.
func (s *stand) phase(outcome condition.Outcome) platformv1alpha1.Phase {
	first := s.report.Newest == nil || s.report.Newest.Number == 1 && !s.report.Newest.Settled
	switch {
	case s.left != "" && s.err == nil:
		return platformv1alpha1.PhaseLeft
	case outcome.Verdict == condition.Done:
		return platformv1alpha1.PhaseReady
	case outcome.Reason == ReasonAwaitingApproval:
		return platformv1alpha1.PhaseAwaitingApproval
	case outcome.Reason == release.ReasonRolledBack || outcome.Reason == release.ReasonRolledBackByHand || outcome.Reason == release.ReasonRollingBack:
		return platformv1alpha1.PhaseRolledBack
	case outcome.Verdict == condition.Stopped || outcome.Reason == ReasonHookTimedOut:
		return platformv1alpha1.PhaseFailed
	case s.held != nil || s.err != nil:
		return platformv1alpha1.PhaseWaiting
	case first:
		return platformv1alpha1.PhaseInstalling
	case !s.report.Newest.Settled || s.report.Decision.Kind == release.Upgrade:
		return platformv1alpha1.PhaseUpgrading
	}
	return platformv1alpha1.PhaseWaiting
}

// outcome sums up: what someone must mend before what is only on its way, in the
// order of the spec.
func (p *pass) outcome(fault error, ready int) condition.Outcome {
	if fault != nil {
		return condition.Classify(fault)
	}
	var retry []error
	var worst *condition.Outcome
	silent, heaviest := false, 0
	take := func(name string, phase platformv1alpha1.Phase, fault string, each condition.Outcome) {
		retry = append(retry, each.Retry)
		silent = silent || each.Silent
		if each.Verdict == condition.Done || each.Silent {
			return
		}
		heavy := weight(each)
		if fault != "" {
			heavy = max(heavy, weightFault)
		}
		if worst == nil || heavy > heaviest {
			heaviest = heavy
			if fault == "" && isUnderWay(phase, each) {
				each.Reason = condition.ReasonProgressing
			}
			each.Message = fmt.Sprintf("%s: %s", name, p.advice(each.Message))
			worst = &each
		}
	}
	for _, spec := range p.stack.Spec.Components {
		if s := p.stands[spec.Name]; s != nil {
			outcome := s.outcome()
			take(spec.Name, s.phase(outcome), s.fault, outcome)
		}
	}
	for _, each := range p.removals {
		if !each.gone() {
			take(each.release.Component, platformv1alpha1.PhaseRemoving, "", each.outcome())
		}
	}
	total := len(p.stack.Spec.Components)
	switch {
	case p.stack.DeletionTimestamp != nil && worst != nil:
		worst.Reason = condition.ReasonTerminating
		worst.Message += "; definitions, with all objects of their kinds, and namespaces stay when the stack is gone"
	case worst != nil:
		worst.Message += fmt.Sprintf("; %d of %d components are ready", ready, total)
	case silent:
		worst = &condition.Outcome{Verdict: condition.Retrying, Silent: true}
	case p.stack.DeletionTimestamp != nil:
		worst = &condition.Outcome{Verdict: condition.Waiting, Reason: condition.ReasonTerminating, Message: "the releases are uninstalled"}
	default:
		worst = &condition.Outcome{Verdict: condition.Done, Reason: condition.ReasonReady, Message: p.allReady()}
	}
	worst.Retry = errors.Join(retry...)
	return *worst
}

func (p *pass) allReady() string {
	var left []string
	for _, spec := range p.stack.Spec.Components {
		if s := p.stands[spec.Name]; s != nil && s.left != "" {
			left = append(left, spec.Name)
		}
	}
	text := fmt.Sprintf("%d components are ready", len(p.stack.Spec.Components))
	if len(p.stack.Spec.Components) == 1 {
		text = "the component is ready"
	}
	if len(left) > 0 {
		text += "; " + strings.Join(left, ", ") + " from elsewhere and left alone"
	}
	return text
}

// isUnderWay tells work in good order from a fault, which makes an event.
func isUnderWay(phase platformv1alpha1.Phase, o condition.Outcome) bool {
	switch phase { //nolint:exhaustive // the others wait for someone, or are faults
	case platformv1alpha1.PhaseInstalling, platformv1alpha1.PhaseUpgrading, platformv1alpha1.PhaseRemoving:
		return o.Verdict == condition.Waiting && o.Reason != release.ReasonAttemptFailed && o.Reason != release.ReasonBusy
	}
	return o.Reason == condition.ReasonDependencyNotReady
}

// weightFault is that of a component whose pods have a fault: work is under way, and
// most likely in vain.
const weightFault = 2

func weight(o condition.Outcome) int {
	switch {
	case o.Verdict == condition.Stopped:
		return 4
	case o.Reason == ReasonAwaitingApproval || o.Reason == ReasonHookTimedOut || o.Reason == condition.ReasonForbidden:
		return 3
	case o.Verdict == condition.Retrying:
		return 2
	case o.Reason == condition.ReasonDependencyNotReady:
		return 0
	}
	return 1
}

// acted tells whether anything was done that the next pass must look at.
func (p *pass) acted() bool {
	for _, each := range p.stands {
		if each.acted {
			return true
		}
	}
	return p.pruned || slices.ContainsFunc(p.removals, func(r *removal) bool { return r.report.Acted })
}

// rechecked is how often a stack is looked at when nothing tells of a change.
const rechecked = 5 * time.Minute

// leaving is how soon to look again at what is on its way out: nothing watches the
// objects of an uninstalled release.
const leaving = time.Second

// soonest is when to look again at a stack that was just acted on.
const soonest = 10 * time.Millisecond

// again is when to run again at the latest.
func (p *pass) again(outcome condition.Outcome) time.Duration {
	if p.acted() {
		return soonest
	}
	next := rechecked
	sooner := func(after time.Duration) {
		if after > 0 {
			next = min(next, after)
		}
	}
	for _, each := range p.stands {
		sooner(each.again)
	}
	for _, each := range p.removals {
		if !each.gone() && !each.blocked {
			sooner(leaving)
		}
	}
	if outcome.Verdict != condition.Done {
		sooner(look)
	}
	return next
}
