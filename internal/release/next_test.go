package release

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/readiness"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const minute = time.Minute

// The revisions of the table, each changed the given time ago.
func ours(number int, status Status, config string, ago time.Duration) Revision {
	return Revision{Number: number, Status: status, Config: config, Ours: true, Changed: now.Add(-ago), Description: "because"}
}

func (r Revision) with(change func(*Revision)) Revision {
	change(&r)
	return r
}

func isSettled(r *Revision)     { r.Settled = true }
func isLate(r *Revision)        { r.Late, r.Faulted = true, true }
func isFaulted(r *Revision)     { r.Faulted = true }
func isInterrupted(r *Revision) { r.Interrupted, r.Faulted = true, true }
func isForeign(r *Revision)     { r.Ours, r.Config = false, "" }
func backTo(n int) func(*Revision) {
	return func(r *Revision) { r.RolledBackTo = n }
}

func tested(phase string) func(*Revision) {
	return func(r *Revision) { r.Tests = []TestHook{{Name: "smoke", Phase: phase}} }
}

var (
	ready    = readiness.Result{Status: readiness.Ready}
	notReady = readiness.Result{Status: readiness.InProgress, Reason: "Waiting", Message: "Deployment/a: 0 of 1 ready"}
	good1    = ours(1, Superseded, "old", 60*minute).with(isSettled)
)

func want(config string) *Wanted { return &Wanted{Config: config, Timeout: 5 * minute} }

func (w *Wanted) but(change func(*Wanted)) *Wanted {
	change(w)
	return w
}

type row struct {
	state  State
	kind   Kind
	to     int
	reason string
	says   string
	again  time.Duration
}

func of(history ...Revision) []Revision { return history }

func check(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			row.state.Now, row.state.Grace = now, 31*minute
			got := Next(row.state)
			if got.Kind != row.kind || got.To != row.to || got.Again != row.again ||
				row.reason != "" && got.Reason != row.reason || !strings.Contains(got.Message, row.says) {
				t.Errorf("got %+v\nwant %s to %d, %s, again %s: %q", got, row.kind, row.to, row.reason, row.again, row.says)
			}
			if got.Reason == "" || got.Message == "" {
				t.Errorf("a decision without a reason or a sentence: %+v", got)
			}
		})
	}
}

func TestRemoval(t *testing.T) {
	check(t, map[string]row{
		"nothing there": {state: State{}, kind: Nothing, reason: ReasonUninstalled},
		"another's":     {state: State{History: of(ours(1, Deployed, "", 0).with(isForeign))}, kind: Nothing, reason: ReasonNotOurs, says: "left to them"},
		"deployed":      {state: State{History: of(ours(1, Deployed, "a", 0))}, kind: Uninstall},
		"failed":        {state: State{History: of(ours(1, Failed, "a", 0))}, kind: Uninstall},
		"pending, ours": {state: State{History: of(ours(1, PendingInstall, "a", 0))}, kind: Uninstall},
		"interrupted":   {state: State{History: of(ours(1, Uninstalling, "a", 0))}, kind: Uninstall},
		"another at work": {
			state: State{History: of(good1, ours(2, PendingUpgrade, "", 11*minute).with(isForeign))}, kind: Wait, reason: ReasonBusy, again: 20 * minute,
		},
		"another died":   {state: State{History: of(good1, ours(2, PendingUpgrade, "", 31*minute).with(isForeign))}, kind: Uninstall},
		"uninstalled":    {state: State{History: of(ours(1, Uninstalled, "a", 0))}, kind: Forget},
		"objects remain": {state: State{History: of(ours(1, Uninstalled, "a", minute)), Remaining: []string{"Deployment/x"}}, kind: Wait, says: "Deployment/x is gone", again: 4 * minute},
		"objects remain for ever": {
			state: State{History: of(ours(1, Uninstalled, "a", 3*minute)), Remaining: []string{"Deployment/x"}, Patience: 3 * minute},
			kind:  Forget, says: "Deployment/x is still there",
		},
	})
}

func TestFirstRevision(t *testing.T) {
	noChart := want("").but(func(w *Wanted) { w.Unavailable = "the repository is down" })
	held := want("a").but(func(w *Wanted) { w.Hold = "sooner or later" })
	check(t, map[string]row{
		"none":                                {state: State{Wanted: want("a")}, kind: Install},
		"none, no chart":                      {state: State{Wanted: noChart}, kind: Wait, reason: ReasonChartUnavailable, says: "repository is down"},
		"uninstalled":                         {state: State{Wanted: want("a"), History: of(ours(1, Uninstalled, "a", minute))}, kind: Install},
		"uninstalled, leftover":               {state: State{Wanted: want("a"), History: of(ours(1, Uninstalled, "a", minute)), Remaining: []string{"Pod/x"}}, kind: Wait, again: 4 * minute},
		"uninstalling":                        {state: State{Wanted: want("a"), History: of(ours(1, Uninstalling, "a", minute))}, kind: Uninstall},
		"pending after a crash":               {state: State{Wanted: want("a"), History: of(ours(1, PendingInstall, "a", 0))}, kind: Recover},
		"another at work":                     {state: State{Wanted: want("a"), History: of(ours(1, PendingInstall, "", minute).with(isForeign))}, kind: Wait, reason: ReasonBusy, again: 30 * minute},
		"another died":                        {state: State{Wanted: want("a"), History: of(ours(1, PendingInstall, "", 31*minute).with(isForeign))}, kind: Recover},
		"adopted":                             {state: State{Wanted: want("a"), History: of(ours(1, Deployed, "", minute).with(isForeign)), Readiness: ready}, kind: Upgrade, says: "made by someone else"},
		"adopted, no chart":                   {state: State{Wanted: noChart, History: of(ours(1, Deployed, "", minute).with(isForeign)), Readiness: ready}, kind: Wait},
		"another spec":                        {state: State{Wanted: want("a"), History: of(ours(1, Deployed, "b", minute).with(isSettled)), Readiness: ready}, kind: Upgrade},
		"another spec after a failure":        {state: State{Wanted: want("a"), History: of(ours(1, Failed, "b", minute))}, kind: Upgrade},
		"no chart, and newest becomes ready":  {state: State{Wanted: noChart, History: of(ours(1, Deployed, "b", minute)), Readiness: ready}, kind: Settle},
		"no chart, and newest is good":        {state: State{Wanted: noChart, History: of(ours(1, Deployed, "b", minute).with(isSettled)), Readiness: ready}, kind: Wait},
		"no chart, and newest drifted":        {state: State{Wanted: noChart, History: of(ours(1, Deployed, "b", minute).with(isSettled)), Readiness: ready, Drift: []string{"x"}}, kind: Correct},
		"another spec, and the old one drift": {state: State{Wanted: want("a"), History: of(ours(1, Deployed, "b", minute)), Drift: []string{"x"}}, kind: Upgrade},
		"none, held":                          {state: State{Wanted: held}, kind: Wait, reason: ReasonHeld, says: "sooner or later"},
		"another spec, held":                  {state: State{Wanted: held, History: of(ours(1, Deployed, "b", minute).with(isSettled)), Readiness: ready}, kind: Wait, reason: ReasonHeld},
		"held, and nothing is due":            {state: State{Wanted: held, History: of(ours(1, Deployed, "a", minute).with(isSettled)), Readiness: ready}, kind: Nothing},
		"held, and drifted":                   {state: State{Wanted: held, History: of(ours(1, Deployed, "a", minute).with(isSettled)), Readiness: ready, Drift: []string{"x"}}, kind: Correct},
		"held, and pending after a crash":     {state: State{Wanted: held, History: of(ours(1, PendingInstall, "a", 0))}, kind: Recover},
		"held, and interrupted":               {state: State{Wanted: held, History: of(ours(1, Failed, "a", 0).with(isInterrupted))}, kind: Wait, reason: ReasonHeld},
		"the newest record was deleted":       {state: State{Wanted: want("a"), History: of(ours(1, Superseded, "a", minute))}, kind: Upgrade},
	})
}

func TestADeployedRevision(t *testing.T) {
	tests := want("a").but(func(w *Wanted) { w.Test = true })
	fresh, settled := ours(2, Deployed, "a", minute), ours(2, Deployed, "a", 60*minute).with(isSettled)
	mode := func(m DriftMode) *Wanted { return want("a").but(func(w *Wanted) { w.Drift = m }) }
	check(t, map[string]row{
		"on its way":         {state: State{Wanted: want("a"), History: of(good1, fresh), Readiness: notReady}, kind: Wait, reason: ReasonNotReady, says: "0 of 1 ready", again: 4 * minute},
		"ready":              {state: State{Wanted: want("a"), History: of(good1, fresh), Readiness: ready}, kind: Settle},
		"late":               {state: State{Wanted: want("a"), History: of(good1, ours(2, Deployed, "a", 5*minute)), Readiness: notReady}, kind: Fail, reason: ReasonNotReadyInTime, says: "in 5m0s: Deployment/a"},
		"settled":            {state: State{Wanted: want("a"), History: of(good1, settled), Readiness: ready}, kind: Nothing, reason: condition.ReasonReady},
		"settled, unready":   {state: State{Wanted: want("a"), History: of(good1, settled), Readiness: notReady}, kind: Wait, reason: "Waiting", says: "0 of 1"},
		"a test is due":      {state: State{Wanted: tests, History: of(fresh.with(tested(""))), Readiness: ready}, kind: Test, says: "smoke"},
		"a test has no end":  {state: State{Wanted: tests, History: of(fresh.with(tested("Running"))), Readiness: ready}, kind: Test},
		"a test, not asked":  {state: State{Wanted: want("a"), History: of(fresh.with(tested(""))), Readiness: ready}, kind: Settle},
		"a test isn't yet":   {state: State{Wanted: tests, History: of(fresh.with(tested(""))), Readiness: notReady}, kind: Wait, again: 4 * minute},
		"a test passed":      {state: State{Wanted: tests, History: of(fresh.with(tested(TestSucceeded))), Readiness: ready}, kind: Settle},
		"a test failed":      {state: State{Wanted: tests, History: of(fresh.with(tested(TestFailed))), Readiness: ready}, kind: Fail, reason: ReasonTestsFailed, says: "smoke"},
		"a test later":       {state: State{Wanted: tests, History: of(settled.with(tested(""))), Readiness: ready}, kind: Test},
		"a test fails later": {state: State{Wanted: tests, History: of(settled.with(tested(TestFailed))), Readiness: ready}, kind: Stop, reason: ReasonTestsFailed, says: "kept"},
		"drift":              {state: State{Wanted: want("a"), History: of(settled), Readiness: ready, Drift: []string{"Service/x: spec.ports"}}, kind: Correct, says: "Service/x: spec.ports is being put back"},
		"drift on its way":   {state: State{Wanted: want("a"), History: of(fresh), Readiness: notReady, Drift: []string{"x"}}, kind: Correct},
		"drift, reported":    {state: State{Wanted: mode(DriftReport), History: of(settled), Readiness: ready, Drift: []string{"x"}}, kind: Nothing, says: "x differs"},
		"drift, ignored":     {state: State{Wanted: mode(DriftIgnore), History: of(settled), Readiness: ready, Drift: []string{"x"}}, kind: Nothing, says: "is ready"},
		"drift, insisted on": {state: State{Wanted: want("a"), History: of(settled), Readiness: ready, Drift: []string{"a", "b", "c", "d"}, Contested: true}, kind: Wait, reason: ReasonDrifted, says: "a, b, c and 1 more", again: minute},
	})
}

func TestAFailedRevision(t *testing.T) {
	with := func(strategy Strategy, retries int) *Wanted {
		return want("a").but(func(w *Wanted) { w.Remediation = Remediation{strategy, retries} })
	}
	failed := ours(2, Failed, "a", minute).with(isFaulted)
	check(t, map[string]row{
		"rollback":                 {state: State{Wanted: want("a"), History: of(good1, failed)}, kind: Rollback, to: 1, says: "because"},
		"rollback to another's":    {state: State{Wanted: want("a"), History: of(ours(1, Deployed, "", 0).with(isForeign), failed)}, kind: Rollback, to: 1},
		"never ready before":       {state: State{Wanted: want("a"), History: of(ours(1, Superseded, "b", 0), failed)}, kind: Stop, reason: ReasonInstallFailed, says: "no good revision"},
		"nothing before":           {state: State{Wanted: want("a"), History: of(failed)}, kind: Stop, reason: ReasonInstallFailed},
		"strategy stop":            {state: State{Wanted: with(Halt, 0), History: of(good1, failed)}, kind: Stop, reason: ReasonUpgradeFailed, says: "because"},
		"attempts left":            {state: State{Wanted: with(RollBack, 1), History: of(good1, failed)}, kind: Upgrade, says: "attempt 2 of 2"},
		"attempts left, too early": {state: State{Wanted: with(Halt, 1), History: of(good1, ours(2, Failed, "a", 3*time.Second))}, kind: Wait, reason: ReasonAttemptFailed, again: 7 * time.Second},
		"attempts left, default":   {state: State{Wanted: with(Retry, 0), History: of(good1, failed)}, kind: Upgrade, says: "attempt 2 of 4"},
		"attempts over":            {state: State{Wanted: with(Retry, 1), History: of(good1, failed, ours(3, Failed, "a", minute))}, kind: Stop, reason: ReasonUpgradeFailed},
		"an attempt that Helm forgot": {
			state: State{Wanted: with(Retry, 1), History: of(ours(1, Superseded, "a", 9*minute).with(isLate), ours(2, Failed, "a", minute))}, kind: Stop,
		},
		"ready after all":     {state: State{Wanted: want("a"), History: of(good1, failed.with(isLate)), Readiness: ready}, kind: Settle},
		"ready, but not late": {state: State{Wanted: want("a"), History: of(good1, failed), Readiness: ready}, kind: Rollback, to: 1},
		"interrupted":         {state: State{Wanted: want("a"), History: of(good1, failed.with(isInterrupted))}, kind: Upgrade, says: "interrupted"},
		"interrupted often": {
			state: State{Wanted: want("a"), History: of(ours(1, Failed, "a", 0).with(isInterrupted), ours(2, Failed, "a", 0).with(isInterrupted),
				ours(3, Failed, "a", 0).with(isInterrupted), ours(4, Failed, "a", 4*time.Second).with(isInterrupted))}, kind: Wait, again: 6 * time.Second,
		},
		"interrupted, and the good one in danger": {
			state: State{Wanted: want("a"), History: append(of(good1), many(2, 7, isInterrupted)...)}, kind: Rollback, to: 1,
		},
	})
}

func many(from, count int, change func(*Revision)) []Revision {
	var list []Revision
	for i := range count {
		list = append(list, ours(from+i, Failed, "a", 60*minute).with(change))
	}
	return list
}

func TestAfterARollback(t *testing.T) {
	failed, fine := ours(2, Superseded, "a", 9*minute).with(isLate), ours(2, Superseded, "a", 9*minute).with(isSettled)
	back := func(status Status, ago time.Duration) Revision { return ours(3, status, "old", ago).with(backTo(1)) }
	check(t, map[string]row{
		"ours, ready":               {state: State{Wanted: want("a"), History: of(good1, failed, back(Deployed, 0)), Readiness: ready}, kind: Settle},
		"ours, on its way":          {state: State{Wanted: want("a"), History: of(good1, failed, back(Deployed, 0)), Readiness: notReady}, kind: Wait, again: 5 * minute},
		"ours, late":                {state: State{Wanted: want("a"), History: of(good1, failed, back(Deployed, 5*minute)), Readiness: notReady}, kind: Fail},
		"ours, settled":             {state: State{Wanted: want("a"), History: of(good1, failed, back(Deployed, 0).with(isSettled)), Readiness: ready}, kind: Stop, reason: ReasonRolledBack, says: "rolled back to revision 1"},
		"ours, settled, unready":    {state: State{Wanted: want("a"), History: of(good1, failed, back(Deployed, 0).with(isSettled)), Readiness: notReady}, kind: Stop, says: "0 of 1"},
		"ours, drifted":             {state: State{Wanted: want("a"), History: of(good1, failed, back(Deployed, 0).with(isSettled)), Drift: []string{"x"}}, kind: Correct},
		"ours, pending":             {state: State{Wanted: want("a"), History: of(good1, failed, back(PendingRollback, 0))}, kind: Recover},
		"ours, interrupted":         {state: State{Wanted: want("a"), History: of(good1, failed, back(Failed, 0).with(isInterrupted))}, kind: Rollback, to: 1},
		"ours, failed":              {state: State{Wanted: want("a"), History: of(good1, failed, back(Failed, minute))}, kind: Rollback, to: 1},
		"ours, failed just now":     {state: State{Wanted: want("a"), History: of(good1, failed, back(Failed, 0))}, kind: Wait, again: 10 * time.Second},
		"ours, failed and gone":     {state: State{Wanted: want("a"), History: of(failed, back(Failed, minute))}, kind: Stop, reason: ReasonRollbackFailed},
		"ours, failed for good":     {state: State{Wanted: want("a"), History: of(good1, failed, back(Superseded, 9*minute).with(isFaulted), ours(4, Superseded, "old", 9*minute).with(isFaulted).with(backTo(1)), ours(5, Failed, "old", 9*minute).with(backTo(1)))}, kind: Stop, reason: ReasonRollbackFailed},
		"ours, late and stopped":    {state: State{Wanted: want("a"), History: of(good1, failed, back(Failed, minute).with(isLate)), Readiness: notReady}, kind: Stop, reason: ReasonRollbackFailed},
		"ours, late, then ready":    {state: State{Wanted: want("a"), History: of(good1, failed, back(Failed, minute).with(isLate)), Readiness: ready}, kind: Settle},
		"the spec changed":          {state: State{Wanted: want("b"), History: of(good1, failed, back(Deployed, 0).with(isSettled)), Readiness: ready}, kind: Upgrade},
		"the spec changed back":     {state: State{Wanted: want("old"), History: of(good1, failed, back(Deployed, 0).with(isSettled)), Readiness: ready}, kind: Nothing},
		"by hand":                   {state: State{Wanted: want("a"), History: of(good1, fine, back(Deployed, 0)), Readiness: ready}, kind: Stop, reason: ReasonRolledBackByHand, says: "stays until the spec"},
		"by hand, unready, late":    {state: State{Wanted: want("a"), History: of(good1, fine, back(Deployed, 90*minute)), Readiness: notReady}, kind: Stop, reason: ReasonRolledBackByHand},
		"by hand, drifted":          {state: State{Wanted: want("a"), History: of(good1, fine, back(Deployed, 0)), Drift: []string{"x"}}, kind: Correct},
		"by hand, to another's":     {state: State{Wanted: want("a"), History: of(fine, ours(3, Deployed, "", 0).with(backTo(1)).with(isForeign)), Readiness: ready}, kind: Stop, reason: ReasonRolledBackByHand},
		"by hand, then failed":      {state: State{Wanted: want("a"), History: of(good1, fine, back(Failed, 0))}, kind: Upgrade, says: "by hand failed"},
		"by hand, then superseded":  {state: State{Wanted: want("a"), History: of(good1, fine, back(Superseded, 0))}, kind: Upgrade},
		"by hand, the spec changed": {state: State{Wanted: want("b"), History: of(good1, fine, back(Deployed, 0)), Readiness: ready}, kind: Upgrade},
	})
}

func TestDelaysGrowAndAreBounded(t *testing.T) {
	for attempts, want := range map[int]time.Duration{0: firstDelay, 1: firstDelay, 2: 2 * firstDelay, 3: 4 * firstDelay, 99: maxDelay} {
		if got := delay(attempts); got != want {
			t.Errorf("delay(%d) = %s, want %s", attempts, got, want)
		}
	}
}
