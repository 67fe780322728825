package llmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// reasonChartUnavailable is the reason of a release whose chart can't be had.
const reasonChartUnavailable = release.ReasonChartUnavailable

// lookForCharts is how soon a chart that can't be had is looked for again.
const lookForCharts = time.Minute

// lookForVersions is how soon a constraint is looked up again.
const lookForVersions = 10 * time.Minute

// stand is how one release stands after it was run.
type stand struct {
	component llmd.Component
	wanted    *llmd.Release // nil: it shall be gone
	entry     componentsv1alpha1.ReleaseEntry
	report    helmrelease.Report
	digest    string // of the chart's archive
	chart     bool   // the chart could be had
	blocked   string // what it waits for before it is released
	stale     error  // why the chart is of an earlier resolution of its constraint
	loose     bool   // the version is a constraint, whose resolution may change
	finding   string // why its pods don't get ready, if that is known
	err       error
}

// result is how all releases stand, in the order in which they were run.
type result struct {
	removals, releases []stand
	made               apply.Result
	failure            error
}

// run runs what shall be gone, and then what shall be, each after what it needs.
func (r *Reconciler) run(ctx context.Context, facts *facts, wanted []llmd.Release) *result {
	done := &result{}
	leaving := map[llmd.Component]componentsv1alpha1.ReleaseEntry{}
	for _, entry := range llmd.Removals(facts.llmd.Status.Releases, wanted) {
		each := stand{component: llmd.Component(entry.Component), entry: entry}
		if len(leaving) > 0 {
			each.blocked = "waits until what needs it is uninstalled"
		} else {
			each.report, each.err = r.Runner.Run(ctx, helmrelease.Want{
				Name: entry.Name, Namespace: entry.Namespace, Removed: true,
				Timeout: timeoutOf(facts.llmd, each.component), ServiceAccount: facts.llmd.Spec.ServiceAccountName,
			})
		}
		if !each.gone() {
			leaving[each.component] = entry
		}
		done.removals = append(done.removals, each)
	}
	blocked := ""
	for i := range wanted {
		each := stand{component: wanted[i].Component, wanted: &wanted[i], entry: wanted[i].Entry(), blocked: blocked}
		if old, is := leaving[each.component]; is && each.blocked == "" {
			each.blocked = fmt.Sprintf("waits until release %s in namespace %s is uninstalled", old.Name, old.Namespace)
		}
		r.one(ctx, facts, &each)
		if outcome := each.outcome(); blocked == "" && outcome.Verdict != condition.Done {
			blocked = fmt.Sprintf("waits for %s to be ready", llmd.Title(each.component))
		}
		done.releases = append(done.releases, each)
	}
	return done
}

// one runs one release that shall be.
func (r *Reconciler) one(ctx context.Context, facts *facts, each *stand) {
	want := wantOf(*each.wanted)
	want.Unavailable = each.blocked
	fault := each.wanted.Fault
	if fault == nil {
		want.Chart, fault = r.chart(ctx, each)
		want.Digest = each.digest
	}
	if fault != nil {
		want.Unavailable = condition.Classify(fault).Message
	}
	each.report, each.err = r.Runner.Run(ctx, want)
	if each.err == nil && fault != nil && !r.rests(facts, each) {
		each.err = fault
	}
	if err := r.live.follow(ctx, each.report.Live); err != nil && each.err == nil {
		each.err = err
	}
	if err := r.diagnose(ctx, each); err != nil {
		each.err = err
	}
}

// rests tells whether a release whose chart can't be had at the moment is as the
// spec asks all the same: it was told to be so when the spec was as it is, ready
// or no longer ready. A repository that is down doesn't disturb what runs.
func (r *Reconciler) rests(facts *facts, each *stand) bool {
	newest := each.report.Newest
	was := condition.Find(facts.llmd.Status.Conditions, conditionOf(each.component))
	return each.wanted.Fault == nil && newest != nil && newest.Status == release.Deployed && newest.Settled && was != nil &&
		was.ObservedGeneration == facts.llmd.Generation && (was.Status == metav1.ConditionTrue || was.Reason == release.ReasonNotReady)
}

// chart fetches a release's chart. Its error says what happens next.
func (r *Reconciler) chart(ctx context.Context, each *stand) (*helm.Chart, error) {
	asked, login := each.wanted.Chart, each.wanted.Credentials
	archive, err := r.Charts.Chart(ctx,
		registry.Chart{Repository: asked.Repository, Name: asked.Name, Version: asked.Version, Digest: asked.Digest},
		registry.Credentials{Username: login.Username, Password: login.Password, Token: login.Token, CA: login.CA})
	var unavailable *registry.UnavailableError
	switch {
	case errors.As(err, &unavailable):
		return nil, condition.Wait(reasonChartUnavailable, "%w", err)
	case err != nil:
		return nil, condition.Stop(reasonChartUnavailable, "%w", err)
	}
	each.chart, each.digest, each.stale = true, archive.Digest, archive.Stale
	each.loose = strings.TrimPrefix(asked.Version, "v") != strings.TrimPrefix(archive.Version, "v")
	if known, is := r.charts.Get(archive.Digest); is {
		return known.(*helm.Chart), nil //nolint:forcetypeassert // nothing else is kept
	}
	chart, err := helm.LoadArchive(archive.Data)
	if err != nil {
		return nil, condition.Stop(condition.ReasonInvalidObject, "%w", err)
	}
	r.charts.Add(archive.Digest, chart)
	return chart, nil
}

// wantOf puts a rendered release into the engine's words.
func wantOf(r llmd.Release) helmrelease.Want {
	return helmrelease.Want{
		Name: r.Name, Namespace: r.Namespace, Values: r.Values, Timeout: r.Timeout, Remediation: r.Remediation,
		Test: r.Test, Drift: r.Drift, CRDs: helmrelease.CRDPolicy(r.CRDs),
		ForceConflicts: r.ForceConflicts, TakeOwnership: r.TakeOwnership,
		Labels: r.Labels, ServiceAccount: r.ServiceAccount, Again: r.Again,
		// An account is in a namespace that is there, and may make none.
		CreateNamespace: r.ServiceAccount == "",
	}
}

// timeoutOf is the time that a component's release gets to go.
func timeoutOf(resource *componentsv1alpha1.Llmd, c llmd.Component) time.Duration {
	if spec := llmd.SpecOf(resource.Spec.Charts, c); spec != nil {
		if given, err := time.ParseDuration(spec.Timeout); err == nil && given > 0 {
			return given
		}
	}
	return release.DefaultTimeout
}

// gone tells whether nothing of a removed release is left that is ours.
func (s *stand) gone() bool {
	return s.err == nil && s.blocked == "" &&
		(s.report.Gone() || s.report.Decision.Kind == release.Nothing && s.report.Decision.Reason == release.ReasonNotOurs)
}

// outcome is how a release stands, as a condition tells it. A repository that is
// down makes nothing unready, but who waits for a version shall know.
func (s *stand) outcome() condition.Outcome {
	outcome := s.standing()
	if outcome.Verdict == condition.Done {
		outcome.Message += s.stands()
	}
	return outcome
}

// stands tells that the chart is of an earlier resolution; empty if it isn't.
func (s *stand) stands() string {
	if s.stale == nil {
		return ""
	}
	return fmt.Sprintf("; a newer version that %q allows may be out: %v", s.wanted.Chart.Version, s.stale)
}

func (s *stand) standing() condition.Outcome {
	if s.err != nil {
		return condition.Classify(s.err)
	}
	outcome := s.report.Outcome()
	idle := s.report.Decision.Reason == reasonChartUnavailable || s.report.Decision.Kind == ""
	switch {
	case s.blocked != "" && idle:
		return condition.Outcome{Verdict: condition.Waiting, Reason: condition.ReasonDependencyNotReady, Message: s.blocked}
	case s.wanted != nil && !s.chart && idle:
		// It rests: what runs is as the spec asks, and only its chart can't be had.
		if now := s.report.Readiness; now.Status != readiness.Ready {
			return condition.Outcome{Verdict: condition.Waiting, Reason: release.ReasonNotReady, Message: cmp.Or(s.finding, now.Message)}
		}
		return condition.Outcome{Verdict: condition.Done, Reason: condition.ReasonReady,
			Message: fmt.Sprintf("revision %d is ready", s.report.Newest.Number)}
	case s.unready():
		return condition.Outcome{Verdict: condition.Waiting, Reason: release.ReasonNotReady, Message: cmp.Or(s.finding, outcome.Message)}
	}
	return outcome
}

// underWay tells work in good order from a fault, which makes an event.
func (s *stand) underWay() bool {
	if s.err != nil || s.finding != "" {
		return false
	}
	decision, newest := s.report.Decision, s.report.Newest
	switch decision.Kind {
	case release.Install, release.Upgrade, release.Settle, release.Test, release.Uninstall, release.Forget:
		return true
	case release.Wait:
		return decision.Reason == condition.ReasonTerminating || decision.Reason == release.ReasonNotReady && (newest == nil || !newest.Settled)
	case release.Nothing, release.Rollback, release.Recover, release.Fail, release.Correct, release.Stop:
		return false
	}
	return s.blocked != ""
}

func (d *result) fail(err error)          { d.failure = errors.Join(d.failure, err) }
func (d *result) besides(of apply.Result) { d.made = of }
func (d *result) all() []stand            { return append(append([]stand{}, d.removals...), d.releases...) }

// acted tells whether anything was done that the next pass must look at.
func (d *result) acted() bool {
	for _, each := range d.all() {
		if each.report.Acted {
			return true
		}
	}
	return d.made.Wrote()
}

// lives tells whether a release of ours is in a namespace, which is then there.
func (d *result) lives(namespace string) bool {
	for _, each := range d.releases {
		if each.entry.Namespace == namespace && each.report.Newest != nil {
			return true
		}
	}
	return false
}

// outcome says what to tell the work queue.
func (d *result) outcome() condition.Outcome {
	errs := []error{d.failure}
	for _, each := range d.all() {
		errs = append(errs, each.err)
	}
	return condition.Classify(errors.Join(errs...))
}

// again is when to look again at the latest.
func (d *result) again() time.Duration {
	soonest := d.made.Again
	sooner := func(after time.Duration) {
		if after > 0 && (soonest == 0 || after < soonest) {
			soonest = after
		}
	}
	for _, each := range d.all() {
		sooner(each.report.Again)
		if each.wanted != nil && each.wanted.Fault == nil && !each.chart {
			sooner(lookForCharts)
		}
		switch {
		case each.stale != nil:
			sooner(lookForCharts)
		case each.loose:
			sooner(lookForVersions)
		}
		if each.unready() {
			sooner(reconcile.LookAtPods)
		}
		if each.err != nil || each.wanted == nil {
			sooner(lookForCharts) // a deletion has an end even when nothing happens
		}
	}
	return soonest
}
