package stack

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/release"
)

func TestBlocked(t *testing.T) {
	is := func(name string, phase platformv1alpha1.Phase, waits ...string) platformv1alpha1.ComponentStatus {
		return platformv1alpha1.ComponentStatus{Name: name, Phase: phase, Message: "of " + name, WaitsFor: waits}
	}
	const (
		ready, waiting, failed = platformv1alpha1.PhaseReady, platformv1alpha1.PhaseWaiting, platformv1alpha1.PhaseFailed
	)
	forbidden := is("a", waiting)
	forbidden.Reason = condition.ReasonForbidden
	for name, test := range map[string]struct {
		components []platformv1alpha1.ComponentStatus
		want       string
	}{
		"on its way":               {[]platformv1alpha1.ComponentStatus{is("a", platformv1alpha1.PhaseInstalling), is("b", waiting, "a")}, ""},
		"all ready":                {[]platformv1alpha1.ComponentStatus{is("a", ready), is("b", platformv1alpha1.PhaseLeft)}, ""},
		"another goes on":          {[]platformv1alpha1.ComponentStatus{is("a", failed), is("b", platformv1alpha1.PhaseInstalling)}, ""},
		"failed":                   {[]platformv1alpha1.ComponentStatus{is("a", failed), is("b", ready)}, "a: of a"},
		"others wait for it":       {[]platformv1alpha1.ComponentStatus{is("d", waiting, "c"), is("c", waiting, "b", "a"), is("a", failed), is("b", ready)}, "a: of a"},
		"one waits for who can go": {[]platformv1alpha1.ComponentStatus{is("a", failed), is("b", waiting, "c"), is("c", waiting)}, ""},
		"two":                      {[]platformv1alpha1.ComponentStatus{is("a", failed), is("b", platformv1alpha1.PhaseAwaitingApproval)}, "a: of a; b: of b"},
		"forbidden":                {[]platformv1alpha1.ComponentStatus{forbidden, is("b", waiting, "a")}, "a: of a"},
		"rolled back":              {[]platformv1alpha1.ComponentStatus{is("a", platformv1alpha1.PhaseRolledBack), is("b", ready)}, "a: of a"},
	} {
		stack := &platformv1alpha1.PlatformStack{ObjectMeta: metav1.ObjectMeta{Name: "it"}}
		stack.Status.Components = test.components
		got := ""
		if blocked := blockedBy(stack); blocked != nil {
			got = strings.TrimPrefix(blocked.Error(), "PlatformStack it isn't ready: ")
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	stack := &platformv1alpha1.PlatformStack{ObjectMeta: metav1.ObjectMeta{Name: "it"}}
	stack.Spec.Components = make([]platformv1alpha1.Component, 1)
	if blocked := blockedBy(stack); blocked != nil {
		t.Errorf("a stack that nobody has looked at is blocked: %v", blocked)
	}
	stack.Status.Conditions = []metav1.Condition{
		{Type: condition.Ready, Status: metav1.ConditionFalse, Message: "components: there is a ring"},
		{Type: condition.Stalled, Status: metav1.ConditionTrue},
	}
	if blocked := blockedBy(stack); blocked == nil || !strings.Contains(blocked.Error(), "there is a ring") {
		t.Errorf("%v", blocked)
	}
}

func TestRunsStacks(t *testing.T) {
	for args, want := range map[string]bool{
		"operator": true,
		"operator --controllers=llmd,platformstack":   true,
		"operator --controllers=llmd":                 false,
		"operator --controllers llmd --leader-elect":  false,
		"operator --controllers platformstack":        true,
		"operator --controllers= --metrics-address=0": true,
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: strings.Fields(args)}}}}
		if got := runsStacks(pod); got != want {
			t.Errorf("%s: %v", args, got)
		}
	}
	if !runsStacks(&corev1.Pod{}) {
		t.Error("an operator outside of the cluster isn't seen")
	}
}

func TestChosen(t *testing.T) {
	good := func(number int, config string) release.Revision {
		return release.Revision{Number: number, Status: release.Superseded, Config: config, Ours: true, Settled: true}
	}
	faulted := good(3, "c")
	faulted.Faulted = true
	newest := good(4, "d")
	for name, test := range map[string]struct {
		revisions []release.Revision
		revision  int
		want      string
	}{
		"the last good":  {[]release.Revision{good(1, "a"), good(2, "b"), faulted, newest}, 0, "2"},
		"not the same":   {[]release.Revision{good(1, "a"), good(2, "d"), newest}, 0, "1"},
		"the one asked":  {[]release.Revision{good(1, "a"), good(2, "b"), faulted, newest}, 3, "3"},
		"not there":      {[]release.Revision{good(1, "a"), newest}, 9, "has no earlier revision 9; earlier ones are: 1"},
		"the newest":     {[]release.Revision{good(1, "a"), newest}, 4, "has no earlier revision 4; earlier ones are: 1"},
		"the only one":   {[]release.Revision{newest}, 0, "has no good revision before revision 4"},
		"none any more":  {nil, 0, "has no revisions any more"},
		"only bad ones":  {[]release.Revision{faulted, newest}, 0, "has no good revision before revision 4"},
		"gone back once": {[]release.Revision{good(1, "a"), good(2, "b"), {Number: 3, Status: release.Deployed, RolledBackTo: 2, Config: "b"}}, 0, "1"},
	} {
		found, err := chosen(test.revisions, Rollback{Component: "it", Revision: test.revision})
		got := fmt.Sprint(found.Number)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestHint(t *testing.T) {
	stack := &platformv1alpha1.PlatformStack{}
	stack.Spec.PullSecrets = []platformv1alpha1.PullSecret{{Name: "pull", Namespace: "here"}}
	missing := func(of string) error {
		return &BlockedError{Name: "it", Lines: []string{"a: Secret " + of + " doesn't exist; create it"}}
	}
	if err := Hint(missing("pull in namespace here"), stack); !strings.HasSuffix(err.Error(), "; --login REGISTRY makes it of what podman login keeps") {
		t.Error(err)
	}
	for _, err := range []error{missing("other in namespace here"), errors.New("Secret pull in namespace here doesn't exist")} {
		if told := Hint(err, stack); told != err {
			t.Error(told)
		}
	}
}
