package release

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/readiness"
)

// Bounds of what is tried again.
const (
	// firstDelay is the time before the second attempt; it doubles with each.
	firstDelay = 10 * time.Second
	maxDelay   = 10 * time.Minute
	// maxRollbacks bounds how often a rollback that fails is begun.
	maxRollbacks = 3
	// maxInterruptions are taken up at once; later ones after a growing delay, in
	// case it is the release that ends the process.
	maxInterruptions = 3
	// crowded is how many attempts in a row put the good revision before them in
	// danger of being dropped from the ten that are kept.
	crowded = 7
	// contestedDelay is before what someone else insists on is corrected again.
	contestedDelay = time.Minute
)

// Next decides what to do about a release.
func Next(s State) Decision {
	h := sorted(s.History)
	if s.Wanted == nil {
		return s.remove(h)
	}
	newest := h.newest()
	switch {
	case newest == nil:
		return s.provided(Decision{Kind: Install, Reason: ReasonInstalling, Message: "the release is being installed"})
	case newest.Status == Uninstalled:
		if wait, yes := s.awaitRemaining(newest); yes {
			return wait
		}
		return s.provided(Decision{Kind: Install, Reason: ReasonInstalling, Message: "the release was uninstalled and is being installed again"})
	case newest.Status == Uninstalling:
		return Decision{Kind: Uninstall, Reason: ReasonUninstalling, Message: "an uninstallation that was interrupted is being finished"}
	case newest.Status.IsPending():
		return s.takeUp(newest)
	case s.stays(h, newest) && len(s.Drift) > 0 && !s.Contested && s.mode() == DriftCorrect:
		return Decision{Kind: Correct, Reason: ReasonDrifted, Message: s.drifted("is being put back")}
	case s.isWanted(newest) && newest.Status == Deployed:
		return s.settle(newest)
	case s.isWanted(newest) && newest.Status == Failed && newest.Ours:
		return s.remedy(h, newest)
	case newest.RolledBackTo != 0 && !s.isWanted(newest) && s.isWanted(h.from(newest)):
		return s.afterRollback(h, newest)
	case s.Wanted.Unavailable != "" && newest.Status == Deployed && newest.Ours && !newest.Settled && s.ready():
		return settled(newest)
	}
	return s.provided(Decision{Kind: Upgrade, Reason: ReasonUpgrading, Message: s.whyUpgrade(newest)})
}

// remove is what to do about a release that shall be gone.
func (s State) remove(h history) Decision {
	newest := h.newest()
	switch {
	case newest == nil:
		return Decision{Kind: Nothing, Reason: ReasonUninstalled, Message: "the release isn't there"}
	case !slices.ContainsFunc(h, func(r Revision) bool { return r.Ours }):
		return Decision{Kind: Nothing, Reason: ReasonNotOurs, Message: "the release was made by someone else and is left to them"}
	case newest.Status == Uninstalled:
		if wait, yes := s.awaitRemaining(newest); yes {
			return wait
		}
		return Decision{Kind: Forget, Reason: ReasonUninstalling, Message: s.forgetting()}
	case newest.Status.IsPending() && !newest.Ours:
		if wait := s.takeUp(newest); wait.Kind == Wait {
			return wait
		}
	}
	return Decision{Kind: Uninstall, Reason: ReasonUninstalling, Message: "the release is being uninstalled"}
}

// awaitRemaining waits for objects of an uninstalled release, but not for ever.
func (s State) awaitRemaining(newest *Revision) (Decision, bool) {
	left := cmp.Or(s.Patience, DefaultTimeout) - s.Now.Sub(newest.Changed)
	if len(s.Remaining) == 0 || left <= 0 {
		return Decision{}, false
	}
	return Decision{Kind: Wait, Reason: condition.ReasonTerminating, Again: left,
		Message: fmt.Sprintf("waiting until %s is gone", list(s.Remaining))}, true
}

func (s State) forgetting() string {
	if len(s.Remaining) == 0 {
		return "the release is uninstalled; its record is being deleted"
	}
	return fmt.Sprintf("%s is still there and is left to whatever holds it; the release's record is being deleted", list(s.Remaining))
}

// takeUp decides about a pending revision. Ours is abandoned: there is no other
// process of ours. Somebody else's gets its time.
func (s State) takeUp(newest *Revision) Decision {
	if left := s.Grace - s.Now.Sub(newest.Changed); !newest.Ours && left > 0 {
		return Decision{Kind: Wait, Reason: ReasonBusy, Again: left,
			Message: fmt.Sprintf("revision %d is %s: another process is at work on it; if it has died, it is taken over in a while", newest.Number, newest.Status)}
	}
	return Decision{Kind: Recover, Reason: ReasonRecovering,
		Message: fmt.Sprintf("revision %d is %s and the process at work on it has ended; it is being taken up", newest.Number, newest.Status)}
}

// settle decides about a deployed revision that is the wanted one.
func (s State) settle(newest *Revision) Decision {
	if newest.Settled {
		return s.rest(newest)
	}
	failed, due := tests(newest)
	switch {
	case s.Wanted.Test && len(failed) > 0:
		return Decision{Kind: Fail, Reason: ReasonTestsFailed, Message: "tests failed: " + list(failed)}
	case s.ready() && s.Wanted.Test && len(due) > 0:
		return runTests(newest, due)
	case s.ready():
		return settled(newest)
	}
	return s.awaitReadiness(newest)
}

func settled(newest *Revision) Decision {
	return Decision{Kind: Settle, Reason: condition.ReasonReady, Message: fmt.Sprintf("revision %d is ready", newest.Number)}
}

func runTests(newest *Revision, due []string) Decision {
	return Decision{Kind: Test, Reason: ReasonTesting, Message: fmt.Sprintf("revision %d is being tested: %s", newest.Number, list(due))}
}

// awaitReadiness gives a revision its time.
func (s State) awaitReadiness(newest *Revision) Decision {
	why := cmp.Or(s.Readiness.Message, "its objects aren't ready")
	if left := cmp.Or(s.Wanted.Timeout, DefaultTimeout) - s.Now.Sub(newest.Changed); left > 0 {
		return Decision{Kind: Wait, Reason: ReasonNotReady, Again: left,
			Message: fmt.Sprintf("waiting until revision %d is ready: %s", newest.Number, why)}
	}
	return Decision{Kind: Fail, Reason: ReasonNotReadyInTime,
		Message: fmt.Sprintf("not ready in %s: %s", cmp.Or(s.Wanted.Timeout, DefaultTimeout), why)}
}

// rest is what is left to say of a settled revision. It never goes back.
func (s State) rest(newest *Revision) Decision {
	failed, due := tests(newest)
	switch {
	case len(s.Drift) > 0 && s.mode() == DriftCorrect:
		return Decision{Kind: Wait, Reason: ReasonDrifted, Again: contestedDelay,
			Message: s.drifted("was put back and changed again; stop whoever changes it, or name the field under drift.ignore")}
	case !s.ready():
		return Decision{Kind: Wait, Reason: cmp.Or(s.Readiness.Reason, ReasonNotReady), Message: cmp.Or(s.Readiness.Message, "its objects aren't ready")}
	case s.Wanted.Test && len(failed) > 0:
		return Decision{Kind: Stop, Reason: ReasonTestsFailed, Message: fmt.Sprintf("tests of revision %d failed: %s; it was ready before and is kept", newest.Number, list(failed))}
	case s.Wanted.Test && len(due) > 0:
		return runTests(newest, due)
	case len(s.Drift) > 0 && s.mode() == DriftReport:
		return Decision{Kind: Nothing, Reason: condition.ReasonReady, Message: s.drifted("differs from the release and is left so")}
	}
	return Decision{Kind: Nothing, Reason: condition.ReasonReady, Message: fmt.Sprintf("revision %d is ready", newest.Number)}
}

// remedy decides about a failed revision that is the wanted one.
func (s State) remedy(h history, newest *Revision) Decision {
	retries := s.retries()
	attempts, interruptions := h.attempts(s.Wanted.Config)
	good := h.good(s.Wanted.Config)
	mayGoBack := good != nil && cmp.Or(s.Wanted.Remediation.Strategy, RollBack) == RollBack
	again := Decision{Kind: Upgrade, Reason: ReasonUpgrading}
	switch {
	case newest.Late && s.ready():
		return settled(newest)
	case mayGoBack && attempts+interruptions >= crowded:
		return goBack(good.Number, newest)
	case newest.Interrupted:
		again.Message = fmt.Sprintf("revision %d was interrupted and is being made again", newest.Number)
		if interruptions > maxInterruptions {
			return s.after(newest, delay(interruptions-maxInterruptions), again)
		}
		return s.provided(again)
	case attempts <= retries:
		again.Message = fmt.Sprintf("attempt %d of %d after: %s", attempts+1, retries+1, newest.Description)
		return s.after(newest, delay(attempts), again)
	case mayGoBack:
		return goBack(good.Number, newest)
	}
	return s.halted(good, newest)
}

// halted says why nothing goes on.
func (s State) halted(good, newest *Revision) Decision {
	reason, way := ReasonUpgradeFailed, "change the spec, version or values"
	if good == nil {
		reason = ReasonInstallFailed
		way += "; there is no good revision to go back to"
	}
	return Decision{Kind: Stop, Reason: reason, Message: fmt.Sprintf("revision %d failed: %s; %s", newest.Number, newest.Description, way)}
}

func goBack(to int, newest *Revision) Decision {
	return Decision{Kind: Rollback, To: to, Reason: ReasonRollingBack,
		Message: fmt.Sprintf("revision %d failed: %s; going back to revision %d", newest.Number, newest.Description, to)}
}

// afterRollback decides about a revision that went back from the wanted config.
// It never makes that config again: only a change of what is wanted does.
func (s State) afterRollback(h history, newest *Revision) Decision {
	from := h.from(newest)
	switch {
	case !from.failed() && newest.Status == Deployed:
		return Decision{Kind: Stop, Reason: ReasonRolledBackByHand,
			Message: fmt.Sprintf("someone rolled back to revision %d with helm; it stays until the spec, version or values change", newest.RolledBackTo)}
	case newest.Status == Failed:
		return s.afterFailedRollback(h, from, newest)
	case newest.Status != Deployed:
		return s.provided(Decision{Kind: Upgrade, Reason: ReasonUpgrading, Message: s.whyUpgrade(newest)})
	case newest.Settled:
		return Decision{Kind: Stop, Reason: ReasonRolledBack, Message: s.rolledBack(from, newest)}
	case s.ready():
		return settled(newest)
	}
	return s.awaitReadiness(newest)
}

func (s State) afterFailedRollback(h history, from, newest *Revision) Decision {
	if !from.failed() {
		return s.provided(Decision{Kind: Upgrade, Reason: ReasonUpgrading,
			Message: fmt.Sprintf("a rollback to revision %d by hand failed; the wanted revision is being made again", newest.RolledBackTo)})
	}
	failures, interruptions := h.rollbacks()
	again := Decision{Kind: Rollback, To: newest.RolledBackTo, Reason: ReasonRollingBack,
		Message: fmt.Sprintf("going back to revision %d again: %s", newest.RolledBackTo, newest.Description)}
	switch {
	case newest.Late && s.ready():
		return settled(newest)
	case newest.Late || failures >= maxRollbacks || !h.has(newest.RolledBackTo):
		return Decision{Kind: Stop, Reason: ReasonRollbackFailed,
			Message: fmt.Sprintf("revision %d failed, and so did the way back to revision %d: %s; change the spec, version or values", from.Number, newest.RolledBackTo, newest.Description)}
	case newest.Interrupted && interruptions <= maxInterruptions:
		return again
	}
	return s.after(newest, delay(failures+max(0, interruptions-maxInterruptions)), again)
}

func (s State) rolledBack(from, newest *Revision) string {
	text := fmt.Sprintf("revision %d failed: %s; rolled back to revision %d, which stays until the spec, version or values change",
		from.Number, from.Description, newest.RolledBackTo)
	if !s.ready() {
		text += "; it isn't ready either: " + s.Readiness.Message
	}
	return text
}

// after puts off a decision until some time after the newest revision's end.
func (s State) after(newest *Revision, delay time.Duration, next Decision) Decision {
	if left := delay - s.Now.Sub(newest.Changed); left > 0 {
		return Decision{Kind: Wait, Reason: ReasonAttemptFailed, Again: left,
			Message: fmt.Sprintf("revision %d failed: %s; it is tried again soon", newest.Number, newest.Description)}
	}
	return s.provided(next)
}

// provided is a decision that needs the chart and must not be held, or the wait.
func (s State) provided(next Decision) Decision {
	switch {
	case next.Kind != Install && next.Kind != Upgrade:
		return next
	case s.Wanted.Unavailable != "":
		return Decision{Kind: Wait, Reason: ReasonChartUnavailable, Message: s.Wanted.Unavailable}
	case s.Wanted.Hold != "":
		return Decision{Kind: Wait, Reason: ReasonHeld, Message: s.Wanted.Hold}
	}
	return next
}

func (s State) whyUpgrade(newest *Revision) string {
	switch {
	case newest.Config == "" && newest.RolledBackTo == 0:
		return fmt.Sprintf("revision %d was made by someone else; the release is being upgraded to what the spec says", newest.Number)
	default:
		return fmt.Sprintf("revision %d isn't what the spec says; the release is being upgraded", newest.Number)
	}
}

func (s State) isWanted(r *Revision) bool {
	return r != nil && r.Config != "" && s.Wanted.Unavailable == "" && r.Config == s.Wanted.Config
}

// stays reports whether the newest revision is deployed and isn't to be replaced.
func (s State) stays(h history, newest *Revision) bool {
	return newest.Status == Deployed && (s.isWanted(newest) || s.Wanted.Unavailable != "" && newest.Ours ||
		newest.RolledBackTo != 0 && s.isWanted(h.from(newest)))
}

func (s State) ready() bool { return s.Readiness.Status == readiness.Ready }

func (s State) mode() DriftMode { return cmp.Or(s.Wanted.Drift, DriftCorrect) }

func (s State) drifted(what string) string { return list(s.Drift) + " " + what }

func (s State) retries() int {
	retries := s.Wanted.Remediation.Retries
	if retries == 0 && s.Wanted.Remediation.Strategy == Retry {
		retries = DefaultRetries
	}
	return min(max(retries, 0), MaxRetries)
}

// tests are the names of a revision's test hooks that failed, and of those that
// are still to be run.
func tests(r *Revision) (failed, due []string) {
	for _, test := range r.Tests {
		switch test.Phase {
		case TestFailed:
			failed = append(failed, test.Name)
		case TestSucceeded:
		default:
			due = append(due, test.Name)
		}
	}
	return failed, due
}

// delay doubles from firstDelay with each attempt from 1, up to maxDelay.
func delay(attempts int) time.Duration {
	return min(firstDelay<<min(max(attempts-1, 0), 10), maxDelay)
}

// listed is how many names a sentence holds.
const listed = 3

func list(names []string) string {
	if len(names) <= listed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}
