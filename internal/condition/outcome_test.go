package condition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
)

var conflict = apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "chat", errors.New("changed"))

func TestErrorsCarryTheirSentenceThroughWrapping(t *testing.T) {
	err := fmt.Errorf("reconcile chat: %w", Stop("BadPort", "port %d is taken: %w", 80, io.ErrUnexpectedEOF))
	var found *Error
	if !errors.As(err, &found) {
		t.Fatal("errors.As finds no Error")
	}
	if found.Verdict != Stopped || found.Reason != "BadPort" || found.Message != "port 80 is taken: unexpected EOF" {
		t.Errorf("got %+v", found)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is lost")
	}
	if !IsStop(err) || IsWait(err) || IsStop(io.EOF) || !IsWait(errors.Join(io.EOF, Wait("W", "w"))) {
		t.Error("IsStop or IsWait is wrong")
	}
}

func TestSeveralCauses(t *testing.T) {
	err := Retry("Two", "%w and %w", io.EOF, io.ErrClosedPipe)
	if !errors.Is(err, io.EOF) || !errors.Is(err, io.ErrClosedPipe) {
		t.Error("a cause is lost")
	}
}

func TestClassify(t *testing.T) {
	wait, stop := Wait("NoModel", "model m doesn't exist"), Stop("BadSpec", "change it")
	for _, test := range []struct {
		name  string
		err   error
		want  Outcome
		retry bool
	}{
		{"nothing", nil, Outcome{Verdict: Done, Reason: "Ready"}, false},
		{"wait", fmt.Errorf("gather: %w", wait), Outcome{Verdict: Waiting, Reason: "NoModel", Message: "model m doesn't exist"}, false},
		{"stop", stop, Outcome{Verdict: Stopped, Reason: "BadSpec", Message: "change it"}, false},
		{"plain", fmt.Errorf("list pods:\n %w", io.EOF), Outcome{Verdict: Retrying, Reason: "Retrying", Message: "list pods: EOF"}, true},
		{"with a reason", Retry("ApplyFailed", "apply: %w", io.EOF), Outcome{Verdict: Retrying, Reason: "ApplyFailed", Message: "apply: EOF"}, true},
		{"stop beside a retry", errors.Join(io.EOF, wait, stop), Outcome{Verdict: Stopped, Reason: "BadSpec", Message: "change it"}, true},
		{"wait beside a retry", fmt.Errorf("x: %w", errors.Join(io.EOF, wait)), Outcome{Verdict: Waiting, Reason: "NoModel", Message: "model m doesn't exist"}, true},
		{"the first of its sort", errors.Join(wait, Wait("Other", "other")), Outcome{Verdict: Waiting, Reason: "NoModel", Message: "model m doesn't exist"}, false},
		{"conflict", fmt.Errorf("apply: %w", conflict), Outcome{Verdict: Retrying, Reason: "Retrying", Silent: true}, true},
		{"conflict with a reason", Retry("ApplyFailed", "apply: %w", conflict), Outcome{Verdict: Retrying, Reason: "Retrying", Silent: true}, true},
		{"shutdown", fmt.Errorf("apply: %w", context.Canceled), Outcome{Verdict: Retrying, Reason: "Retrying", Silent: true}, true},
		{"conflict beside a wait", errors.Join(conflict, wait), Outcome{Verdict: Waiting, Reason: "NoModel", Message: "model m doesn't exist"}, true},
		{"conflict beside an error", errors.Join(conflict, io.EOF), Outcome{Verdict: Retrying, Reason: "Retrying", Message: "EOF"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Classify(test.err)
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(Outcome{}, "Retry")); diff != "" {
				t.Error(diff)
			}
			if (got.Retry != nil) != test.retry {
				t.Errorf("retry %v, want one: %v", got.Retry, test.retry)
			}
		})
	}
}

func TestReportFollowsTheTable(t *testing.T) {
	for _, test := range []struct {
		verdict Verdict
		want    map[string]metav1.ConditionStatus
	}{
		{Done, map[string]metav1.ConditionStatus{Ready: "True"}},
		{Waiting, map[string]metav1.ConditionStatus{Ready: "False", Reconciling: "True"}},
		{Retrying, map[string]metav1.ConditionStatus{Ready: "False", Reconciling: "True"}},
		{Stopped, map[string]metav1.ConditionStatus{Ready: "False", Stalled: "True"}},
	} {
		t.Run(string(test.verdict), func(t *testing.T) {
			conditions := []metav1.Condition{{Type: Reconciling, Status: "True"}, {Type: Stalled, Status: "True"}}
			Report(&conditions, Outcome{Verdict: test.verdict, Reason: "R", Message: "m"}, 7, now)
			got := map[string]metav1.ConditionStatus{}
			for _, c := range conditions {
				got[c.Type] = c.Status
				if c.ObservedGeneration != 7 || c.Reason != "R" || c.Message != "m" {
					t.Errorf("got %+v", c)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLeft: what isn't gone yet is told beside Ready, and of no other outcome.
func TestLeft(t *testing.T) {
	const left = "waiting until it is gone"
	for _, verdict := range []Verdict{Done, Waiting, Retrying, Stopped} {
		var conditions []metav1.Condition
		Report(&conditions, Outcome{Verdict: verdict, Reason: "R", Message: "m", Left: left}, 7, then)
		told := Find(conditions, Reconciling)
		if is := told != nil && told.Message == left; is != (verdict == Done) {
			t.Errorf("%s: got %+v", verdict, conditions)
		}
		if IsTrue(conditions, Ready) != (verdict == Done) {
			t.Errorf("%s: got %+v", verdict, conditions)
		}
		if Report(&conditions, Outcome{Verdict: verdict, Reason: "R", Message: "m", Left: left}, 7, now) {
			t.Errorf("%s: telling it again is a change", verdict)
		}
		Report(&conditions, Outcome{Verdict: Done, Reason: "R", Message: "m"}, 7, now)
		if Find(conditions, Reconciling) != nil {
			t.Errorf("%s: it is gone and still waited for", verdict)
		}
	}
}

// TestReportTwiceIsNoChange: whatever came before, telling the same outcome
// again writes nothing, and a silent one never writes.
func TestReportTwiceIsNoChange(t *testing.T) {
	outcome := rapid.Custom(func(t *rapid.T) Outcome {
		return Outcome{
			Verdict: rapid.SampledFrom([]Verdict{Done, Waiting, Stopped, Retrying}).Draw(t, "verdict"),
			Reason:  rapid.SampledFrom([]string{"A", "B"}).Draw(t, "reason"),
			Message: rapid.String().Draw(t, "message"),
			Left:    rapid.SampledFrom([]string{"", "old"}).Draw(t, "left"),
			Silent:  rapid.Bool().Draw(t, "silent"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		var conditions []metav1.Condition
		for _, each := range rapid.SliceOf(outcome).Draw(t, "history") {
			before := append([]metav1.Condition(nil), conditions...)
			changed := Report(&conditions, each, 1, now)
			if changed != !cmp.Equal(before, conditions, cmpopts.EquateEmpty()) {
				t.Fatalf("changed is %v, but:\n%s", changed, cmp.Diff(before, conditions))
			}
			if each.Silent && changed {
				t.Fatal("a silent outcome changed a condition")
			}
			if Report(&conditions, each, 1, then) {
				t.Fatalf("telling %+v again is a change", each)
			}
			if IsTrue(conditions, Reconciling) && IsTrue(conditions, Stalled) {
				t.Fatal("both reconciling and stalled")
			}
		}
	})
}
