// Package condition holds the vocabulary in which every Slipway resource tells
// its state, and the one way in which conditions are set. It never reads a
// clock, a cluster or an object's spec: the caller passes the time, the
// generation and what happened.
//
// A reconcile ends in one of four outcomes (outcome.go), and an outcome becomes
// conditions by this table, which follows kstatus: Reconciling and Stalled are
// present only while they are true.
//
//	outcome   Ready    Reconciling  Stalled   who acts next
//	Done      True     absent*      absent    nobody
//	Waiting   False    True         absent    someone else; we watch for it
//	Retrying  False    True         absent    we do, with backoff
//	Stopped   False    absent       True      the user, by changing the spec
//
// * True as long as something of a former spec isn't gone yet.
package condition

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The condition types that every kind shares.
const (
	// Ready is the summary: true when the resource does what its spec asks.
	Ready = "Ready"
	// Reconciling is true while work towards the spec goes on, and else absent.
	Reconciling = "Reconciling"
	// Stalled is true when nothing goes on until the user acts, and else absent.
	Stalled = "Stalled"
)

// The reasons that kinds share. A kind adds its own beside its renderer; the
// reasons of faulty pods are diagnosis'.
const (
	ReasonReady              = "Ready"
	ReasonProgressing        = "Progressing"
	ReasonSuspended          = "Suspended"
	ReasonTerminating        = "Terminating"
	ReasonDeletionBlocked    = "DeletionBlocked"
	ReasonDependencyNotFound = "DependencyNotFound"
	ReasonDependencyNotReady = "DependencyNotReady"
	ReasonAPINotServed       = "APINotServed"
	ReasonInvalidSpec        = "InvalidSpec"
	ReasonInvalidObject      = "InvalidObject"
	ReasonForbidden          = "Forbidden"
	ReasonQuotaExceeded      = "QuotaExceeded"
	ReasonOwnedByAnother     = "OwnedByAnother"
	ReasonImmutableField     = "ImmutableField"
	ReasonApplyFailed        = "ApplyFailed"
	ReasonPruneFailed        = "PruneFailed"
	ReasonRetrying           = "Retrying"
)

// MaxMessage bounds a condition's message in bytes. The API allows 32 KiB
// (metav1.Condition's maxLength); a sentence that someone reads in a terminal
// needs far less, and every status write carries it.
const MaxMessage = 1024

const ellipsis = "…"

// Set adds a condition or replaces the one of the same type. Its
// lastTransitionTime becomes now only when the status changed; a message longer
// than MaxMessage is cut; the list stays in the order of this package (Ready,
// Reconciling, Stalled, then the others by name). It reports whether anything
// changed, so that an unchanged world writes no status.
func Set(conditions *[]metav1.Condition, wanted metav1.Condition, now metav1.Time) bool {
	wanted.Message = Bound(wanted.Message)
	if wanted.Reason == "" {
		wanted.Reason = wanted.Type // the API server refuses an empty reason
	}
	wanted.LastTransitionTime = now
	at := index(*conditions, wanted.Type)
	if at < 0 {
		*conditions = append(*conditions, wanted)
		order(*conditions)
		return true
	}
	current := (*conditions)[at]
	if current.Status == wanted.Status {
		wanted.LastTransitionTime = current.LastTransitionTime
	}
	if current == wanted && slices.IsSortedFunc(*conditions, compare) {
		return false
	}
	(*conditions)[at] = wanted
	order(*conditions)
	return true
}

// Remove drops the condition of a type and reports whether there was one.
func Remove(conditions *[]metav1.Condition, kind string) bool {
	before := len(*conditions)
	*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool { return c.Type == kind })
	return len(*conditions) != before
}

// Find returns the condition of a type, or nil.
func Find(conditions []metav1.Condition, kind string) *metav1.Condition {
	if at := index(conditions, kind); at >= 0 {
		return &conditions[at]
	}
	return nil
}

// IsTrue reports whether the condition of a type is there and true.
func IsTrue(conditions []metav1.Condition, kind string) bool {
	found := Find(conditions, kind)
	return found != nil && found.Status == metav1.ConditionTrue
}

// IsCurrent reports whether the condition of a type is true and was set for
// this generation of the spec.
func IsCurrent(conditions []metav1.Condition, kind string, generation int64) bool {
	found := Find(conditions, kind)
	return found != nil && found.Status == metav1.ConditionTrue && found.ObservedGeneration == generation
}

// Bound cuts a message to MaxMessage bytes, on the boundary of a rune, with an
// ellipsis where something was left out. Bytes that aren't UTF-8, which the API
// server would refuse, become the replacement character.
func Bound(message string) string { return BoundTo(message, MaxMessage) }

// BoundTo is Bound with another limit in bytes. A limit too small for the
// ellipsis gives an empty string.
func BoundTo(message string, limit int) string {
	message = strings.ToValidUTF8(strings.TrimSpace(message), "\uFFFD")
	if len(message) <= limit {
		return message
	}
	end := limit - len(ellipsis)
	if end < 0 {
		return ""
	}
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return strings.TrimRight(message[:end], " \n\t") + ellipsis
}

func index(conditions []metav1.Condition, kind string) int {
	return slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == kind })
}

func order(conditions []metav1.Condition) { slices.SortStableFunc(conditions, compare) }

func compare(a, b metav1.Condition) int {
	return cmp.Or(cmp.Compare(rank(a.Type), rank(b.Type)), cmp.Compare(a.Type, b.Type))
}

func rank(kind string) int {
	switch kind {
	case Ready:
		return 0
	case Reconciling:
		return 1
	case Stalled:
		return 2
	default:
		return 3
	}
}
