package condition

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verdict says what happens next.
type Verdict string

// The four verdicts; the package comment has their table.
const (
	Done     Verdict = "Done"
	Waiting  Verdict = "Waiting"
	Stopped  Verdict = "Stopped"
	Retrying Verdict = "Retrying"
)

// Error is an error that knows what happens next and the sentence that the user
// reads. Make one with Wait, Stop or Retry, wrap it freely with %w, find it
// with errors.As. Text wrapped around it is for logs only: the user sees
// Message.
type Error struct {
	Verdict Verdict
	Reason  string // a CamelCase constant
	Message string // a deterministic sentence: the fault and the way out
	Cause   error  // what was behind it, or nil; errors.Is and errors.As look into it
}

// Error is the sentence that the user reads.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Wait says that someone else must act and that we watch for it: nothing is
// retried. An error among the arguments that is formatted with %w is its cause.
func Wait(reason, format string, args ...any) error {
	return newError(Waiting, reason, format, args...)
}

// Stop says that the user must change the spec: nothing is retried until then.
// An error among the arguments that is formatted with %w is its cause.
func Stop(reason, format string, args ...any) error {
	return newError(Stopped, reason, format, args...)
}

// Retry is an error that will be tried again with backoff, with a reason. An
// error that is none of these is retried too, as ReasonRetrying.
func Retry(reason, format string, args ...any) error {
	return newError(Retrying, reason, format, args...)
}

func newError(verdict Verdict, reason, format string, args ...any) *Error {
	text := fmt.Errorf(format, args...)
	made := &Error{Verdict: verdict, Reason: reason, Message: text.Error()}
	switch text := text.(type) { //nolint:errorlint // asks what %w made of the format, not for an error in a chain
	case interface{ Unwrap() []error }:
		made.Cause = errors.Join(text.Unwrap()...)
	case interface{ Unwrap() error }:
		made.Cause = text.Unwrap()
	}
	return made
}

// IsWait reports whether the error, or one that it wraps, is a Wait.
func IsWait(err error) bool { return has(err, Waiting) }

// IsStop reports whether the error, or one that it wraps, is a Stop.
func IsStop(err error) bool { return has(err, Stopped) }

func has(err error, verdict Verdict) bool {
	for _, leaf := range flatten(err) {
		if leaf.Verdict == verdict {
			return true
		}
	}
	return false
}

// Outcome is how a reconcile ended, ready to be told.
type Outcome struct {
	Verdict Verdict
	Reason  string
	Message string
	// Retry is to be returned to the work queue, which backs off; nil when
	// nothing is retried. It may be set beside a Stop or a Wait, when several
	// things failed at once.
	Retry error
	// Left says what a Done outcome still waits for to be gone, in a sentence;
	// Ready is then true, since what the spec asks for is there, and Reconciling
	// too.
	Left string
	// Silent is true when all that happened was a conflict or our own shutdown:
	// nothing that a condition or an event should mention.
	Silent bool
}

// Classify turns a reconcile's error into its outcome. Of several errors
// (errors.Join) the one that the user can do something about is told: a Stop
// before a Wait before a retry, the first of its sort; what can be retried is
// retried all the same. Conflicts and cancellations are retried in silence.
func Classify(err error) Outcome {
	if err == nil {
		return Outcome{Verdict: Done, Reason: ReasonReady}
	}
	var told *Error
	var retry []error
	for _, leaf := range flatten(err) {
		if leaf.Verdict == Retrying {
			retry = append(retry, leaf)
		}
		if !silent(leaf) && (told == nil || weight(leaf.Verdict) < weight(told.Verdict)) {
			told = leaf
		}
	}
	outcome := Outcome{Verdict: Retrying, Reason: ReasonRetrying, Retry: errors.Join(retry...), Silent: told == nil}
	if told != nil {
		outcome.Verdict, outcome.Reason, outcome.Message = told.Verdict, told.Reason, Bound(told.Message)
	}
	return outcome
}

// Report sets Ready, Reconciling and Stalled from an outcome by the table in
// the package comment, and reports whether anything changed. A silent outcome
// changes nothing. The message of a Done outcome may be empty.
func Report(conditions *[]metav1.Condition, outcome Outcome, generation int64, now metav1.Time) bool {
	if outcome.Silent {
		return false
	}
	set := func(kind string, status metav1.ConditionStatus) bool {
		return Set(conditions, metav1.Condition{
			Type: kind, Status: status, ObservedGeneration: generation,
			Reason: outcome.Reason, Message: outcome.Message,
		}, now)
	}
	while := func(kind string, present bool) bool {
		if present {
			return set(kind, metav1.ConditionTrue)
		}
		return Remove(conditions, kind)
	}
	ready := metav1.ConditionFalse
	if outcome.Verdict == Done {
		ready = metav1.ConditionTrue
	}
	changed := set(Ready, ready)
	if outcome.Verdict == Done && outcome.Left != "" {
		changed = Set(conditions, metav1.Condition{
			Type: Reconciling, Status: metav1.ConditionTrue, ObservedGeneration: generation,
			Reason: ReasonTerminating, Message: outcome.Left,
		}, now) || changed
	} else {
		changed = while(Reconciling, outcome.Verdict == Waiting || outcome.Verdict == Retrying) || changed
	}
	return while(Stalled, outcome.Verdict == Stopped) || changed
}

// flatten lists the errors that a tree of wrapped and joined errors ends in,
// each as an Error; what isn't one becomes a retry.
func flatten(err error) []*Error {
	if err == nil {
		return nil
	}
	if known, ok := err.(*Error); ok { //nolint:errorlint // walks the chain itself
		return []*Error{known}
	}
	switch wrapped := err.(type) { //nolint:errorlint // walks the chain itself
	case interface{ Unwrap() []error }:
		var leaves []*Error
		for _, each := range wrapped.Unwrap() {
			leaves = append(leaves, flatten(each)...)
		}
		return leaves
	case interface{ Unwrap() error }:
		// Only the text around a known error is dropped: the text around any
		// other says what was being done.
		if leaves := flatten(wrapped.Unwrap()); !plain(leaves) {
			return leaves
		}
	}
	return []*Error{{Verdict: Retrying, Reason: ReasonRetrying, Message: oneLine(err), Cause: err}}
}

// plain reports whether an error wrapped exactly one error that we didn't make,
// or none at all.
func plain(leaves []*Error) bool {
	return len(leaves) == 0 || len(leaves) == 1 && leaves[0].Verdict == Retrying && leaves[0].Reason == ReasonRetrying
}

// silent reports whether an error is nobody's news: someone wrote between our
// read and our write, or we are shutting down.
func silent(err *Error) bool {
	if err.Verdict != Retrying || err.Cause == nil {
		return false
	}
	return apierrors.IsConflict(err.Cause) || errors.Is(err.Cause, context.Canceled)
}

func weight(verdict Verdict) int {
	switch verdict {
	case Stopped:
		return 0
	case Waiting:
		return 1
	default:
		return 2
	}
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
