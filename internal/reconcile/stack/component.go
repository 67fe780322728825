package stack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
	"github.com/slipway-dev/slipway/internal/render/policy"
)

// Reasons of components, beside those of releases and of conditions.
const (
	ReasonLeft             = "LeftAlone"
	ReasonAwaitingApproval = "AwaitingApproval"
	ReasonLosesData        = "LosesStoredVersion"
	ReasonHookNotDone      = "HookNotDone"
	ReasonHookTimedOut     = "HookTimedOut"
)

// stand is how a component stands in a pass.
type stand struct {
	component platformstack.Component
	made      *made
	report    helmrelease.Report
	// status as it will be told; its hooks are kept up to date while they are run.
	status platformv1alpha1.ComponentStatus
	// held is why a release that is due doesn't go; err is what went wrong.
	held, err error
	left      string                       // what is there from elsewhere
	fault     string                       // why pods of it don't get ready, if that is known
	live      []*unstructured.Unstructured // of all its releases
	acted     bool
	again     time.Duration
	// secrets are those of its webhooks' certificates that are there of ours; chosen says
	// that it is known who makes them, certifies that we do; certificates were seen to.
	secrets           []corev1.Secret
	chosen, certifies bool
	certificates      []string
	// rests: what runs is as the spec asks, and only its source can't be had.
	rests bool
}

// look is how soon to look again at what no watch tells of.
const look = time.Minute

func (s *stand) soon(after time.Duration) {
	if after > 0 && (s.again == 0 || after < s.again) {
		s.again = after
	}
}

// component brings one component a step nearer to what it shall be.
func (p *pass) component(ctx context.Context, c platformstack.Component) *stand {
	s := &stand{component: c, status: platformv1alpha1.ComponentStatus{Name: c.Name, Namespace: c.Namespace}}
	if was := p.was(c.Name); was != nil {
		s.status.Hooks, s.status.Digest = was.Hooks, was.Digest
	}
	fault := c.Fault
	if fault == nil {
		s.made, fault = p.fetch(ctx, c)
	}
	if fault == nil {
		fault = p.chooseCertificates(ctx, s)
	}
	if fault != nil {
		p.rest(ctx, s, fault)
		return s
	}
	s.status.Digest = s.made.digest
	want := p.want(s, s.made)
	want.Hold = "it waits for what comes first"
	if !p.look(ctx, s, want) {
		return s
	}
	due := s.report.Decision.Reason == release.ReasonHeld
	if due {
		if s.held = p.first(ctx, s); s.held != nil || s.left != "" {
			p.keepAsItIs(ctx, s, want)
			return s
		}
		want.Hold = ""
		p.look(ctx, s, want)
		return s
	}
	s.err = p.pullSecrets(ctx, c)
	if s.err == nil {
		s.err = p.attach(ctx, s)
	}
	if s.err == nil {
		s.err = p.hooks(ctx, s, stageBefore, true)
	}
	if s.err == nil {
		s.err = p.hooks(ctx, s, stageAfter, s.report.Outcome().Verdict != condition.Done)
	}
	return s
}

// look runs the component's release, and reports whether it could be.
func (p *pass) look(ctx context.Context, s *stand, want helmrelease.Want) bool {
	s.fault = ""
	s.report, s.err = p.hand.runner.Run(ctx, want)
	s.acted, s.live = s.acted || s.report.Acted, append(s.live, s.report.Live...)
	s.soon(s.report.Again)
	if other := p.stranger(s.report); s.err == nil && other != "" {
		s.err = condition.Stop(condition.ReasonOwnedByAnother,
			"release %s in namespace %s is of PlatformStack %s; give this component another name or namespace", want.Name, want.Namespace, other)
	}
	return s.err == nil
}

// stranger is another stack that a release belongs to.
func (p *pass) stranger(report helmrelease.Report) string {
	for _, each := range report.Live {
		if of := each.GetLabels()[platformstack.LabelStack]; of != "" && of != p.stack.Name {
			return of
		}
	}
	return ""
}

// keepAsItIs looks after what runs of a component that may not go on.
func (p *pass) keepAsItIs(ctx context.Context, s *stand, want helmrelease.Want) {
	if s.report.Newest == nil || s.left != "" {
		return
	}
	want.Hold, want.Chart = "", nil
	want.Unavailable = condition.Classify(s.held).Message
	p.look(ctx, s, want)
}

// rest looks after what runs of a component whose source can't be had. It is
// ready all the same if it was, and the spec hasn't changed since.
func (p *pass) rest(ctx context.Context, s *stand, fault error) {
	want := p.want(s, nil)
	want.Unavailable = condition.Classify(fault).Message
	s.soon(look)
	if !p.isRecorded(s.component.Release()) {
		s.err = fault
		return
	}
	if !p.look(ctx, s, want) {
		return
	}
	was, newest := p.was(s.component.Name), s.report.Newest
	s.rests = s.component.Fault == nil && newest != nil && newest.Status == release.Deployed && newest.Settled &&
		was != nil && was.Phase == platformv1alpha1.PhaseReady && p.before.Status.ObservedGeneration == p.stack.Generation
	if !s.rests {
		s.err = fault
	}
}

// first does what comes before an installation or upgrade that is due. It gives
// nil when that may go.
func (p *pass) first(ctx context.Context, s *stand) error {
	c := s.component
	if waits := p.unready(c); len(waits) > 0 {
		s.status.WaitsFor = waits
		return condition.Wait(condition.ReasonDependencyNotReady, "waits for %s to be ready", listed(waits))
	}
	if old := p.moving(c); old != "" {
		return condition.Wait(condition.ReasonDependencyNotReady, "waits until %s is uninstalled", old)
	}
	if !p.isRecorded(c.Release()) {
		left, err := p.existing(ctx, s)
		if err != nil || left != "" {
			s.left = left
			s.soon(5 * look)
			return err
		}
	}
	parts, err := p.parts(s)
	if err == nil {
		err = p.approved(ctx, s, parts)
	}
	if err != nil {
		return err
	}
	if err := p.record(ctx, c.Releases()); err != nil {
		return err
	}
	if err := p.places(ctx, s); err != nil {
		return err
	}
	if err := p.pullSecrets(ctx, c); err != nil {
		return err
	}
	if err := errors.Join(p.certifyAll(ctx, s), p.unbind(ctx, s), p.handOver(ctx, s)); err != nil {
		return err
	}
	return p.hooks(ctx, s, stageBefore, false)
}

// unready are the components that one depends on and that aren't ready.
func (p *pass) unready(c platformstack.Component) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var waits []string
	for _, name := range c.Spec.DependsOn {
		if on := p.stands[name]; on == nil || !on.ready() {
			waits = append(waits, name)
		}
	}
	slices.Sort(waits)
	return waits
}

// moving is a release of the component that is on its way out elsewhere.
func (p *pass) moving(c platformstack.Component) string {
	for _, each := range p.removals {
		if each.release.Component == c.Name && !each.gone() {
			return fmt.Sprintf("release %s in namespace %s", each.release.Name, each.release.Namespace)
		}
	}
	return ""
}

func (p *pass) isRecorded(r platformv1alpha1.StackRelease) bool {
	return slices.Contains(p.recorded(), r)
}

// was is what the status said of a component when the pass began.
func (p *pass) was(name string) *platformv1alpha1.ComponentStatus {
	at := slices.IndexFunc(p.before.Status.Components, func(c platformv1alpha1.ComponentStatus) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return p.before.Status.Components[at].DeepCopy()
}

// ready tells whether what depends on the component may go.
func (s *stand) ready() bool { return s.outcome().Verdict == condition.Done }

// outcome is how the component stands, as a condition tells it.
func (s *stand) outcome() condition.Outcome {
	switch {
	case s.err != nil:
		return condition.Classify(s.err)
	case s.left != "":
		return condition.Outcome{Verdict: condition.Done, Reason: ReasonLeft, Message: s.left}
	case s.held != nil:
		return condition.Classify(s.held)
	case s.rests:
		if now := s.report.Readiness; now.Status != readiness.Ready {
			return condition.Outcome{Verdict: condition.Waiting, Reason: release.ReasonNotReady, Message: now.Message}
		}
		return condition.Outcome{Verdict: condition.Done, Reason: condition.ReasonReady,
			Message: fmt.Sprintf("revision %d is ready", s.report.Newest.Number)}
	}
	outcome := s.report.Outcome()
	if outcome.Verdict != condition.Done && s.fault != "" && !strings.Contains(outcome.Message, s.fault) {
		outcome.Message += "; " + s.fault // a revision that failed was told before this was known
	}
	return outcome
}

// want puts a component into the release engine's words.
func (p *pass) want(s *stand, m *made) helmrelease.Want {
	c := s.component
	want := p.wanted(c.Release(), m)
	want.Explain = p.explain(s, ofComponent(c))
	want.Values, want.Timeout = c.Values, c.Timeout
	want.Remediation, want.Drift = policy.Remediation(c.Spec.Remediation), policy.Drift(c.Spec.Drift)
	want.TakeOwnership = c.Spec.Existing == platformv1alpha1.ExistingAdopt
	want.ForceConflicts, want.ToAdopt = want.TakeOwnership, toAdopt
	if names := p.pullNames(); len(names) > 0 && m != nil {
		want.Values = m.withPullSecrets(c.Values, names)
	}
	return want
}

// toAdopt is what a user sets to have a component take over what is there.
const toAdopt = "existing: Adopt"

// wanted is what every release of a stack has in common.
func (p *pass) wanted(of platformv1alpha1.StackRelease, m *made) helmrelease.Want {
	want := helmrelease.Want{
		Name: of.Name, Namespace: of.Namespace, CreateNamespace: true,
		Labels: p.marks(), DefinitionLabels: p.marks(),
		Again: p.stack.Annotations[platformstack.AnnotationRetry],
	}
	if m != nil {
		want.Chart = m.chart
	}
	return want
}

// listed names a few.
func listed(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}

// clone keeps what is shared from being changed.
func clone(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return maps.Clone(values)
}
