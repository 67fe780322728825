// Package release decides what is next for a Helm release. It is a pure function
// of what Helm's storage says, of what is wanted, and of whether the objects are
// ready: it knows no client, no clock and no Helm SDK, and it carries nothing
// out. Whoever carries a decision out asks again afterwards; what happened is
// then in the storage.
//
// Two marks on a stored revision make that enough. The config (a digest of chart,
// values and labels) says what was asked for, and settled says that it once was
// ready. The table is read from the top; the first line that fits counts.
//
//	newest revision                    and                              next
//	none                               removed                          Nothing
//	any                                removed, not one is ours         Nothing
//	uninstalled                        objects remain, not for long     Wait
//	uninstalled                        removed                          Forget
//	pending, by another                its time isn't over              Wait
//	any                                removed                          Uninstall
//	uninstalling                                                        Uninstall
//	pending                                                             Recover
//	none, uninstalled                                                   Install
//	deployed, and to stay              drifted, and nobody insists      Correct
//	deployed, of the wanted config     settled                          Test, Nothing, Wait or Stop
//	deployed, of the wanted config     ready, a test is due             Test
//	deployed, of the wanted config     a test failed                    Fail
//	deployed, of the wanted config     ready                            Settle
//	deployed, of the wanted config     not ready, its time isn't over   Wait
//	deployed, of the wanted config     not ready in time                Fail
//	failed, ours, of the wanted config late, and ready after all        Settle
//	failed, of the wanted config       interrupted                      Upgrade
//	failed, of the wanted config       attempts are left                Wait, then Upgrade
//	failed, of the wanted config       a good one before, and may       Rollback
//	failed, of the wanted config                                        Stop
//	rollback from the wanted config    by hand                          Stop
//	rollback from the wanted config    interrupted, or failed           Rollback again, then Stop
//	rollback from the wanted config    ready; not ready in time         Settle; Fail
//	rollback from the wanted config    settled                          Stop
//	anything else                                                       Upgrade
//
// Install and Upgrade are a Wait while the chart can't be had, or something holds them.
//
// A revision that is settled is never rolled back because it is unready later:
// that is the cluster's doing, and another revision wouldn't help.
package release

import (
	"time"

	"github.com/slipway-dev/slipway/internal/readiness"
)

// Status is a revision's status, as Helm stores and `helm list` prints it.
type Status string

// The statuses of Helm.
const (
	Deployed        Status = "deployed"
	Superseded      Status = "superseded"
	Failed          Status = "failed"
	PendingInstall  Status = "pending-install"
	PendingUpgrade  Status = "pending-upgrade"
	PendingRollback Status = "pending-rollback"
	Uninstalling    Status = "uninstalling"
	Uninstalled     Status = "uninstalled"
)

// IsPending reports whether a process is, or was, at work on a revision.
func (s Status) IsPending() bool {
	return s == PendingInstall || s == PendingUpgrade || s == PendingRollback
}

// Revision is one stored revision of a release.
type Revision struct {
	Number     int // from 1
	Status     Status
	Chart      string // the chart's name
	Version    string // the chart's version
	AppVersion string
	// Config is the digest of what was asked for; empty when somebody else made
	// the revision.
	Config      string
	Description string // Helm's own sentence, or ours
	// Ours is true for a revision that Slipway made, a rollback included.
	Ours bool
	// Settled is true when the revision was once ready, and its tests, if asked
	// for, had passed.
	Settled bool
	// Faulted is true when it failed once, whatever its status is now: Helm forgets
	// it when another revision follows.
	Faulted bool
	// Late is true for a faulted one that wasn't ready in its time: all that it
	// consists of was applied.
	Late bool
	// Interrupted is true for a faulted one whose process died over it.
	Interrupted bool
	// Changed is when its action began, or when it ended if that is known.
	Changed time.Time
	// RolledBackTo is the revision whose content this one repeats; 0 if none.
	RolledBackTo int
	Tests        []TestHook
}

// TestHook is a test hook of a revision.
type TestHook struct {
	Name string
	// Phase is Succeeded, Failed, Running or Unknown; empty when it hasn't run.
	Phase     string
	Completed time.Time
}

// The phases of a test that has an end.
const (
	TestSucceeded = "Succeeded"
	TestFailed    = "Failed"
)

// Strategy says what follows when a revision failed and no attempts are left.
type Strategy string

// The strategies. The empty one is Rollback.
const (
	// RollBack goes back to the last good revision; without one it is Stop.
	RollBack Strategy = "Rollback"
	// Retry makes attempts, DefaultRetries unless a number is given, then stops.
	Retry Strategy = "Retry"
	// Halt leaves everything as it is until the spec changes.
	Halt Strategy = "Stop"
)

// DefaultRetries are the attempts after the first with strategy Retry.
const DefaultRetries = 3

// MaxRetries bounds attempts, so that the history of ten revisions that is kept
// always holds the good one from before them.
const MaxRetries = 5

// Remediation says what follows on a failure.
type Remediation struct {
	Strategy Strategy
	// Retries are made after the first attempt, before anything else follows.
	Retries int
}

// DriftMode says what happens when someone changed a released object.
type DriftMode string

// The modes. The empty one is Correct.
const (
	DriftCorrect DriftMode = "Correct"
	DriftReport  DriftMode = "Report"
	DriftIgnore  DriftMode = "Ignore"
)

// DriftPolicy is the mode, with what is left to others whatever it is.
type DriftPolicy struct {
	Mode   DriftMode
	Ignore []Ignore
}

// Ignore leaves fields to others.
type Ignore struct {
	// Paths are JSON pointers (RFC 6901), such as /spec/replicas. Whatever is below
	// one belongs to it. None stands for the whole object.
	Paths []string
	// Target limits the rule to objects; an empty field of it fits any object.
	Target Target
}

// Target selects objects of a release.
type Target struct{ Group, Version, Kind, Name, Namespace string }

// Wanted is what a release shall be.
type Wanted struct {
	Config      string
	Timeout     time.Duration // from an action's end until everything is ready
	Remediation Remediation
	Test        bool // run test hooks
	Drift       DriftMode
	// Unavailable is the sentence that says why the chart can't be had at the
	// moment; Config is then unknown. Nothing that runs is disturbed by it.
	Unavailable string
	// Hold is the sentence that says what must come before the next install or
	// upgrade of a Config that is known. Everything else goes on.
	Hold string
}

// State is all that a decision is made from.
type State struct {
	// History has the stored revisions, in any order.
	History []Revision
	// Wanted is nil when the release shall be gone.
	Wanted *Wanted
	// Readiness sums up the live objects of the newest revision.
	Readiness readiness.Result
	// Drift names what differs from the newest revision, a sentence each.
	Drift []string
	// Contested is true when the same drift came back after it was corrected, again
	// and again.
	Contested bool
	// Remaining names objects of an uninstalled release that are still there.
	Remaining []string
	// Patience is how long to wait for Remaining.
	Patience time.Duration
	// Grace is how long a pending revision of somebody else's may be.
	Grace time.Duration
	Now   time.Time
}

// DefaultTimeout stands in where no timeout is wanted.
const DefaultTimeout = 5 * time.Minute

// Kind is what to do.
type Kind string

// The kinds of decisions.
const (
	Nothing   Kind = "Nothing"   // everything is as wanted
	Install   Kind = "Install"   // make the first revision
	Upgrade   Kind = "Upgrade"   // make another revision
	Rollback  Kind = "Rollback"  // repeat revision To
	Uninstall Kind = "Uninstall" // delete the objects, keep the record
	Forget    Kind = "Forget"    // delete the record of an uninstalled release
	Recover   Kind = "Recover"   // mark an abandoned revision as failed
	Fail      Kind = "Fail"      // mark the newest revision as failed
	Settle    Kind = "Settle"    // mark the newest revision as good
	Test      Kind = "Test"      // run the test hooks
	Correct   Kind = "Correct"   // put drifted objects back
	Wait      Kind = "Wait"      // someone else must act, or time must pass
	Stop      Kind = "Stop"      // the user must act
)

// Acts reports whether a decision is one to carry out.
func (k Kind) Acts() bool { return k != Nothing && k != Wait && k != Stop }

// Decision is what to do next, and why.
type Decision struct {
	Kind Kind
	// To is the revision to go back to.
	To int
	// Reason is CamelCase, for a condition.
	Reason string
	// Message is a deterministic sentence for the user.
	Message string
	// Again is when to ask again at the latest; zero when a watch tells.
	Again time.Duration
}

// The reasons of decisions, beside package condition's.
const (
	ReasonInstalling       = "Installing"
	ReasonUpgrading        = "Upgrading"
	ReasonRollingBack      = "RollingBack"
	ReasonUninstalling     = "Uninstalling"
	ReasonUninstalled      = "Uninstalled"
	ReasonRecovering       = "Recovering"
	ReasonNotReady         = "NotReady"
	ReasonNotReadyInTime   = "NotReadyInTime"
	ReasonTesting          = "Testing"
	ReasonTestsFailed      = "TestsFailed"
	ReasonInstallFailed    = "InstallFailed"
	ReasonUpgradeFailed    = "UpgradeFailed"
	ReasonRollbackFailed   = "RollbackFailed"
	ReasonRolledBack       = "RolledBack"
	ReasonRolledBackByHand = "RolledBackByHand"
	ReasonDrifted          = "Drifted"
	ReasonBusy             = "AnotherProcessAtWork"
	ReasonNotOurs          = "NotOurs"
	ReasonAttemptFailed    = "AttemptFailed"
	ReasonChartUnavailable = "ChartUnavailable"
	ReasonHeld             = "Held"
)
