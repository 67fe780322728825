package condition

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

var (
	then = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	now  = metav1.NewTime(then.Add(time.Hour))
)

func TestSetKeepsTheTransitionTimeWhileTheStatusStays(t *testing.T) {
	var conditions []metav1.Condition
	first := metav1.Condition{Type: Ready, Status: metav1.ConditionFalse, Reason: "A", Message: "a", ObservedGeneration: 1}
	if !Set(&conditions, first, then) {
		t.Fatal("a new condition is no change")
	}
	if Set(&conditions, first, now) {
		t.Error("the same condition is a change")
	}
	other := first
	other.Message, other.ObservedGeneration = "b", 2
	if !Set(&conditions, other, now) {
		t.Error("another message is no change")
	}
	if got := conditions[0]; got.LastTransitionTime != then || got.Message != "b" || got.ObservedGeneration != 2 {
		t.Errorf("got %+v, want the new message at the old time", got)
	}
	other.Status = metav1.ConditionTrue
	Set(&conditions, other, now)
	if got := conditions[0].LastTransitionTime; got != now {
		t.Errorf("transition at %v, want %v", got, now)
	}
}

func TestSetFillsAnEmptyReason(t *testing.T) {
	var conditions []metav1.Condition
	Set(&conditions, metav1.Condition{Type: "Placed", Status: metav1.ConditionTrue}, now)
	if got := conditions[0].Reason; got != "Placed" {
		t.Errorf("reason %q, want Placed", got)
	}
}

func TestFindIsTrueIsCurrentRemove(t *testing.T) {
	conditions := []metav1.Condition{{Type: Ready, Status: metav1.ConditionTrue, ObservedGeneration: 3}}
	if Find(conditions, Stalled) != nil || Find(conditions, Ready) != &conditions[0] {
		t.Error("Find doesn't find what is there, or finds what isn't")
	}
	if !IsTrue(conditions, Ready) || IsTrue(conditions, Stalled) {
		t.Error("IsTrue is wrong")
	}
	if !IsCurrent(conditions, Ready, 3) || IsCurrent(conditions, Ready, 4) {
		t.Error("IsCurrent ignores the generation")
	}
	if Remove(&conditions, Stalled) || !Remove(&conditions, Ready) || len(conditions) != 0 {
		t.Error("Remove reports or removes the wrong thing")
	}
}

func TestBound(t *testing.T) {
	for _, test := range []struct {
		name, message string
		limit         int
		want          string
	}{
		{"short", "all is well", 20, "all is well"},
		{"exact", "12345", 5, "12345"},
		{"cut", "1234567", 6, "123…"},
		{"cut at a space", "12 34567", 6, "12…"},
		{"never inside a rune", "äöüß", 6, "ä…"},
		{"not UTF-8", "a\xffb", 20, "a\uFFFDb"},
		{"no room for anything", "1234567", 2, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := BoundTo(test.message, test.limit); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestBoundHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		message := rapid.String().Draw(t, "message") + string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		limit := rapid.IntRange(0, 64).Draw(t, "limit")
		got := BoundTo(message, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Fatalf("%q is longer than %d bytes or not UTF-8", got, limit)
		}
		if BoundTo(got, limit) != got {
			t.Fatalf("bounding %q again changes it", got)
		}
	})
}

// TestOrderOfSettingDoesNotMatter: however conditions are set, the list is the
// same, each type is there once, and setting the same again changes nothing.
func TestOrderOfSettingDoesNotMatter(t *testing.T) {
	types := []string{Ready, Reconciling, Stalled, "ModelFound", "Available", "Zoned"}
	rapid.Check(t, func(t *rapid.T) {
		chosen := rapid.SliceOfDistinct(rapid.SampledFrom(types), rapid.ID).Draw(t, "types")
		set := func(kinds []string) (conditions []metav1.Condition) {
			for _, kind := range kinds {
				Set(&conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "R"}, now)
			}
			return conditions
		}
		first := set(chosen)
		second := set(rapid.Permutation(chosen).Draw(t, "shuffled"))
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("order matters:\n%s", diff)
		}
		for _, c := range slices.Clone(first) {
			if Set(&first, c, then) {
				t.Fatalf("setting %s again is a change", c.Type)
			}
		}
	})
}

func TestSetBoundsTheMessage(t *testing.T) {
	var conditions []metav1.Condition
	Set(&conditions, metav1.Condition{Type: Ready, Message: strings.Repeat("long ", 1000)}, now)
	if got := len(conditions[0].Message); got > MaxMessage {
		t.Errorf("message of %d bytes", got)
	}
}
