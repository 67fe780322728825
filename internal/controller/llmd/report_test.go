package llmd

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func someFacts() *facts {
	return &facts{llmd: &componentsv1alpha1.Llmd{ObjectMeta: metav1.ObjectMeta{Name: componentsv1alpha1.LlmdName, Generation: 3}}}
}

// standing is a release with a decision.
func standing(c llmd.Component, decision release.Decision) stand {
	r := llmd.Release{Component: c, Name: "llmd-" + string(c), Namespace: "llm-d"}
	return stand{
		component: c, wanted: &r, entry: r.Entry(), chart: true, digest: "sha256:1",
		report: helmrelease.Report{
			Newest:   &release.Revision{Number: 2, Status: release.Deployed, Settled: true, Chart: "chart", Version: "1.0.0", Config: "c"},
			Config:   "c",
			Decision: decision, Readiness: readiness.Result{Status: readiness.Ready},
			Last: helmrelease.Action{Kind: release.Upgrade, Time: now.Time, Result: "deployed"},
		},
	}
}

var (
	good    = release.Decision{Kind: release.Nothing, Reason: condition.ReasonReady, Message: "revision 2 is ready"}
	waits   = release.Decision{Kind: release.Wait, Reason: release.ReasonNotReady, Message: "waiting until revision 2 is ready: Deployment/x: 0 of 1"}
	settles = release.Decision{Kind: release.Settle, Reason: condition.ReasonReady, Message: "revision 2 is ready"}
	stopped = release.Decision{Kind: release.Stop, Reason: release.ReasonRolledBack, Message: "went back"}
	goes    = release.Decision{Kind: release.Uninstall, Reason: release.ReasonUninstalling, Message: "the release is being uninstalled"}
	gone    = release.Decision{Kind: release.Nothing, Reason: release.ReasonUninstalled, Message: "the release isn't there"}
	idle    = release.Decision{Kind: release.Wait, Reason: release.ReasonChartUnavailable, Message: "waits"}
)

func removal(c llmd.Component, decision release.Decision) stand {
	made := standing(c, decision)
	made.wanted, made.chart = nil, false
	return made
}

func with(s stand, change func(*stand)) stand {
	change(&s)
	return s
}

func TestReport(t *testing.T) {
	for name, test := range map[string]struct {
		done            result
		ready           metav1.ConditionStatus
		reason, message string
		stalled         bool
	}{
		"all ready": {done: result{releases: []stand{standing(llmd.Infra, good), standing(llmd.ModelService, good)}},
			ready: metav1.ConditionTrue, reason: "Ready", message: "infra 1.0.0 and modelService 1.0.0 are ready"},
		"not yet ready": {done: result{releases: []stand{with(standing(llmd.Infra, waits), func(s *stand) { s.report.Newest.Settled = false })}},
			ready: metav1.ConditionFalse, reason: condition.ReasonProgressing, message: "infra: " + waits.Message},
		"about to be marked": {done: result{releases: []stand{standing(llmd.Infra, settles)}},
			ready: metav1.ConditionFalse, reason: condition.ReasonProgressing, message: "infra: revision 2 is ready"},
		"one ready": {done: result{releases: []stand{standing(llmd.Infra, good)}}, ready: metav1.ConditionTrue, reason: "Ready", message: "infra 1.0.0 is ready"},
		"nothing":   {ready: metav1.ConditionTrue, reason: reasonNothingEnabled, message: "nothing is enabled, and nothing is released"},
		"the first that waits": {done: result{releases: []stand{standing(llmd.Infra, waits), standing(llmd.GatewayAPI, waits)}},
			ready: metav1.ConditionFalse, reason: "NotReady", message: "infra: " + waits.Message},
		"who must act comes first": {done: result{releases: []stand{standing(llmd.Infra, waits), standing(llmd.GatewayAPI, stopped)}},
			ready: metav1.ConditionFalse, reason: "RolledBack", message: "gatewayAPI: went back", stalled: true},
		"blocked": {done: result{releases: []stand{standing(llmd.Infra, good), with(standing(llmd.GatewayAPI, idle), func(s *stand) { s.blocked = "waits for infra to be ready" })}},
			ready: metav1.ConditionFalse, reason: condition.ReasonDependencyNotReady, message: "gatewayAPI: waits for infra to be ready"},
		"blocked, and as it shall be": {done: result{releases: []stand{with(standing(llmd.GatewayAPI, good), func(s *stand) { s.blocked = "waits" })}},
			ready: metav1.ConditionTrue, reason: "Ready", message: "gatewayAPI 1.0.0 is ready"},
		"a repository that is down": {done: result{releases: []stand{with(standing(llmd.Infra, idle), func(s *stand) { s.chart, s.digest = false, "" })}},
			ready: metav1.ConditionTrue, reason: "Ready", message: "infra 1.0.0 is ready"},
		"an old resolution": {done: result{releases: []stand{with(standing(llmd.Infra, good), func(s *stand) {
			s.wanted.Chart.Version, s.stale = "~1.0", errors.New("the repository is not available")
		})}}, ready: metav1.ConditionTrue, reason: "Ready",
			message: "infra 1.0.0 is ready; a newer version that \"~1.0\" allows may be out: the repository is not available"},
		"a fault": {done: result{releases: []stand{with(standing(llmd.Infra, idle), func(s *stand) { s.err = condition.Stop(reasonChartUnavailable, "no such chart") })}},
			ready: metav1.ConditionFalse, reason: "ChartUnavailable", message: "infra: no such chart", stalled: true},
		"leaving": {done: result{removals: []stand{removal(llmd.ModelService, goes)}},
			ready: metav1.ConditionFalse, reason: "Progressing", message: "modelService: the release is being uninstalled"},
		"one has left": {done: result{removals: []stand{removal(llmd.ModelService, gone)}, releases: []stand{standing(llmd.Infra, good)}},
			ready: metav1.ConditionTrue, reason: "Ready", message: "infra 1.0.0 is ready"},
		"the alerts failed": {done: result{releases: []stand{standing(llmd.Infra, good)}, failure: condition.Wait("Forbidden", "allow it")},
			ready: metav1.ConditionFalse, reason: "Forbidden", message: "allow it"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := someFacts()
			status := report(facts, &test.done, now)
			ready := condition.Find(status.Conditions, condition.Ready)
			if ready.Status != test.ready || ready.Reason != test.reason || ready.Message != test.message {
				t.Errorf("got %s %s: %s\nwant %s %s: %s", ready.Status, ready.Reason, ready.Message, test.ready, test.reason, test.message)
			}
			if condition.IsTrue(status.Conditions, condition.Stalled) != test.stalled {
				t.Errorf("stalled is %v", !test.stalled)
			}
			facts.llmd.Status = status
			if diff := cmp.Diff(status, report(facts, &test.done, metav1.NewTime(now.Add(time.Hour)))); diff != "" {
				t.Errorf("the same world gives another status later:\n%s", diff)
			}
		})
	}
}

// TestForgetsOnlyWhatIsGone: where a release is stays recorded until it is known
// to be uninstalled.
func TestForgetsOnlyWhatIsGone(t *testing.T) {
	facts := someFacts()
	left, stays, wanted := removal(llmd.ModelService, gone), removal(llmd.GatewayAPI, goes), standing(llmd.Infra, good)
	facts.llmd.Status.Releases = []componentsv1alpha1.ReleaseEntry{left.entry, stays.entry, wanted.entry}
	status := report(facts, &result{removals: []stand{left, stays}, releases: []stand{wanted}}, now)
	if diff := cmp.Diff([]componentsv1alpha1.ReleaseEntry{stays.entry, wanted.entry}, status.Releases); diff != "" {
		t.Error(diff)
	}
	if status.ModelService != nil || status.GatewayAPI == nil || status.Infra == nil {
		t.Errorf("told of: %v, %v, %v", status.ModelService, status.GatewayAPI, status.Infra)
	}
	broken := with(left, func(s *stand) { s.err = errors.New("broken") })
	if got := report(facts, &result{removals: []stand{broken}}, now).Releases; len(got) != 3 {
		t.Errorf("forgot what couldn't be read: %v", got)
	}
}

func TestChartStatus(t *testing.T) {
	s := standing(llmd.Infra, good)
	told := chartStatus(nil, &s)
	if told.Digest != "sha256:1" || told.Revision != 2 || told.LastAction != "Upgrade" || !told.LastActionTime.Equal(&now) {
		t.Errorf("told %+v", told)
	}
	// The digest is that of the newest revision, not of what was fetched for the next.
	other := with(s, func(s *stand) { s.report.Config, s.digest = "another", "sha256:2" })
	if got := chartStatus(told, &other).Digest; got != "sha256:1" {
		t.Errorf("digest %s", got)
	}
	unread := with(s, func(s *stand) { s.report, s.err = helmrelease.Report{}, errors.New("broken") })
	if got := chartStatus(told, &unread); got != told {
		t.Errorf("what couldn't be read is told as %+v", got)
	}
}
