package stack

import (
	"strings"
	"testing"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/release"
)

// TestTell: a line for each component that stands otherwise than before, and none that
// says of one that it is ready and being installed.
func TestTell(t *testing.T) {
	var lines []string
	run := &Run{Report: func(line string) { lines = append(lines, line) }}
	told := map[string]string{}
	a := platformv1alpha1.ComponentStatus{Name: "a", Phase: platformv1alpha1.PhaseInstalling, Reason: release.ReasonNotReady, Message: "0 of 1 replicas"}
	b := platformv1alpha1.ComponentStatus{Name: "b", Phase: platformv1alpha1.PhaseWaiting, WaitsFor: []string{"a"}, Message: "waits"}
	see := func() {
		stack := &platformv1alpha1.PlatformStack{}
		stack.Status.Components = []platformv1alpha1.ComponentStatus{a, b}
		run.tell(stack, told)
	}
	see()
	see()
	a.Reason, a.Message = condition.ReasonReady, "revision 1 is ready"
	see()
	a.Phase, a.Version = platformv1alpha1.PhaseReady, "1.0"
	see()
	want := "a: Installing: 0 of 1 replicas\nb: Waiting for a\na: Ready (1.0)"
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
