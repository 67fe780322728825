package helmrelease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/release"
)

// act carries a decision out. What came of it is in the storage; only what isn't
// is an error.
func (r *Runner) act(ctx context.Context, want Want, s *sight, n *note) error {
	releases := helm.NewReleases(r.options.Config, want.Namespace, want.ServiceAccount, r.options.Log)
	last := s.last()
	switch s.decision.Kind { //nolint:exhaustive // the others don't act
	case release.Install, release.Upgrade:
		return r.make(ctx, releases, want, s, n)
	case release.Rollback:
		err := releases.Rollback(ctx, want.Name, s.decision.To, s.failing(), want.ForceConflicts, want.Timeout)
		return r.stored(ctx, releases, want, s, n, err)
	case release.Recover:
		fault := helm.Fault("")
		if last.Ours {
			fault = helm.FaultInterrupted
		}
		return retried(releases.Fail(ctx, want.Name, last.Number, fault, "The process that worked on it has ended"))
	case release.Fail:
		fault := helm.FaultFailed
		if s.decision.Reason == release.ReasonNotReadyInTime {
			fault = helm.FaultLate
		}
		return retried(releases.Fail(ctx, want.Name, last.Number, fault, s.decision.Message))
	case release.Settle:
		if err := r.sweep(ctx, want, s); err != nil {
			return retried(err)
		}
		return retried(releases.Settle(ctx, want.Name, last.Revision))
	case release.Test:
		err := releases.Test(ctx, want.Name, want.Timeout)
		return r.tested(ctx, want, s, err)
	case release.Correct:
		return r.correct(ctx, want, s, n)
	case release.Uninstall:
		return r.uninstall(ctx, releases, want, s, n)
	case release.Forget:
		return retried(releases.Forget(ctx, want.Name))
	}
	return fmt.Errorf("nobody carries out %s", s.decision.Kind)
}

// failing is the revision that a rollback goes back from: rollbacks that failed
// themselves come after it.
func (s *sight) failing() int {
	for i := len(s.stored) - 1; i >= 0; i-- {
		if s.stored[i].RolledBackTo == 0 {
			return s.stored[i].Number
		}
	}
	return s.last().Number
}

// make installs or upgrades.
func (r *Runner) make(ctx context.Context, releases *helm.Releases, want Want, s *sight, n *note) error {
	if err := r.definitions(ctx, want); err != nil {
		return err
	}
	request := helm.Make{
		Request: helm.Request{
			Name: want.Name, Chart: want.Chart, Values: want.Values, Timeout: want.Timeout,
			ForceConflicts: want.ForceConflicts, TakeOwnership: want.TakeOwnership,
		},
		Config: s.config, Number: 1, Labels: want.Labels, CreateNamespace: want.CreateNamespace,
	}
	if last := s.last(); last != nil {
		request.Number = last.Number + 1
	}
	run := releases.Upgrade
	if s.decision.Kind == release.Install {
		run = releases.Install
	}
	return r.stored(ctx, releases, want, s, n, run(ctx, request))
}

// stored looks for what an action that failed has stored. A revision that failed
// is marked, since Helm forgets it when another follows, and is no error: the
// next decision is about it. Where nothing was stored the error says why.
func (r *Runner) stored(ctx context.Context, releases *helm.Releases, want Want, s *sight, n *note, failure error) error {
	n.fault, n.config, n.at = nil, "", time.Time{}
	if failure == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now, err := r.history(ctx, want, true)
	if err != nil {
		return errors.Join(failure, err)
	}
	was := 0
	if last := s.last(); last != nil {
		was = last.Number
	}
	if len(now) > 0 && now[len(now)-1].Number > was {
		made := now[len(now)-1]
		if made.Status != release.Failed {
			return nil // pending: the record couldn't be written; it is taken up
		}
		return retried(releases.Mark(ctx, want.Name, made.Number, helm.FaultFailed))
	}
	n.fault, n.config, n.at = r.explain(want, failure), s.config, r.clock.Now()
	return n.fault
}

// explain turns an error of the SDK, after which nothing was stored, into what
// happens next and the sentence that the user reads.
func (r *Runner) explain(want Want, err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	var status apierrors.APIStatus
	var network net.Error
	var address *url.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case strings.Contains(text, "cannot be imported into the current release"):
		return condition.Stop(condition.ReasonOwnedByAnother, "%s; delete it, or set %s to make it part of this release",
			text, cmp.Or(want.ToAdopt, "takeOwnership"))
	case meta.IsNoMatchError(err), strings.Contains(text, "no matches for kind"):
		return condition.Wait(condition.ReasonAPINotServed, "the chart needs a kind that this cluster doesn't serve: %s; install what provides it", text)
	case apierrors.IsForbidden(err):
		return condition.Wait(condition.ReasonForbidden, "%s; allow it%s", text, as(want))
	case apierrors.IsNotFound(err) && strings.Contains(text, "namespaces"):
		return condition.Wait(condition.ReasonDependencyNotFound, "namespace %s doesn't exist; create it", want.Namespace)
	case errors.As(err, &status), errors.As(err, &network), errors.As(err, &address), errors.Is(err, context.DeadlineExceeded),
		strings.Contains(text, "cluster reachability check failed"), strings.Contains(text, "i/o timeout"):
		return condition.Retry(condition.ReasonApplyFailed, "%w", err)
	}
	return condition.Stop(condition.ReasonInvalidSpec, "the chart can't be rendered with these values: %s", text)
}

func as(want Want) string {
	if want.ServiceAccount == "" {
		return ""
	}
	return " to service account " + want.ServiceAccount
}

func retried(err error) error {
	if err == nil || apierrors.IsConflict(err) {
		return err
	}
	var known *condition.Error
	if errors.As(err, &known) {
		return err
	}
	return condition.Retry(condition.ReasonApplyFailed, "%w", err)
}

// definitions brings the chart's CRDs, by policy, and waits until they are served.
func (r *Runner) definitions(ctx context.Context, want Want) error {
	if want.CRDs == CRDsSkip {
		return nil
	}
	var wanted []*unstructured.Unstructured
	for _, file := range want.Chart.CRDs() {
		objects, err := parse(string(file))
		if err != nil {
			return condition.Stop(condition.ReasonInvalidObject, "the chart's crds/: %w", err)
		}
		wanted = append(wanted, objects...)
	}
	if len(wanted) == 0 {
		return nil
	}
	for _, each := range wanted {
		mark(each, want.DefinitionLabels)
	}
	engine, err := r.engine(want)
	if err != nil {
		return err
	}
	if want.CRDs == CRDsCreate {
		missing := wanted[:0:0]
		for _, each := range wanted {
			look, err := engine.Look(ctx, object.Of(each), true)
			if err != nil {
				return retried(err)
			}
			if look.Object == nil {
				missing = append(missing, each)
			}
		}
		wanted = missing
	}
	_, err = engine.Keep(ctx, wanted)
	return err
}

// mark adds labels to an object.
func mark(o *unstructured.Unstructured, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	all := map[string]string{}
	maps.Copy(all, o.GetLabels())
	maps.Copy(all, labels)
	o.SetLabels(all)
}

// tested reads what became of tests that didn't all pass. That is stored with the
// revision; an error is only what kept them from running.
func (r *Runner) tested(ctx context.Context, want Want, s *sight, failure error) error {
	if failure == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	now, err := r.history(ctx, want, true)
	if err != nil || len(now) == 0 {
		return errors.Join(failure, err)
	}
	last := now[len(now)-1]
	for _, test := range last.Tests {
		if last.Number == s.last().Number && test.Phase == release.TestFailed {
			return nil
		}
	}
	return condition.Retry(release.ReasonTesting, "the tests of revision %d couldn't be run: %w", last.Number, failure)
}

// correct puts drifted objects back.
func (r *Runner) correct(ctx context.Context, want Want, s *sight, n *note) error {
	engine, err := r.engine(want)
	if err != nil {
		return err
	}
	var wanted []*unstructured.Unstructured
	var sentences []string
	for _, each := range s.drift {
		sentences = append(sentences, each.sentence)
		if !each.foreign {
			wanted = append(wanted, each.mended)
		}
	}
	digest := object.Hash(asAny(sentences))
	if now := r.clock.Now(); n.drift != digest || now.Sub(n.at) > contestedFor {
		n.corrections = 0
	}
	n.corrections++
	n.drift, n.at = digest, r.clock.Now()
	_, err = engine.Keep(ctx, wanted)
	return err
}

// uninstallsWithHooks is how often an uninstallation is tried with the chart's
// deletion hooks. A hook that fails must not keep a release for ever.
const uninstallsWithHooks = 3

func (r *Runner) uninstall(ctx context.Context, releases *helm.Releases, want Want, s *sight, n *note) error {
	if err := r.sweep(ctx, want, s); err != nil {
		return retried(err)
	}
	n.uninstalls++
	err := releases.Uninstall(ctx, want.Name, n.uninstalls <= uninstallsWithHooks, want.Timeout)
	if err != nil {
		return condition.Retry(release.ReasonUninstalling, "the release can't be uninstalled: %w", err)
	}
	n.uninstalls = 0
	return nil
}
