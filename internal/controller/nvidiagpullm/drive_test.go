package nvidiagpullm

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/ollama"
)

var demo = types.NamespacedName{Namespace: "team", Name: "demo"}

// TestDoubt: a server lists a model that it still loads; it counts when the server
// has told us that it is loaded, or told an operator before us.
func TestDoubt(t *testing.T) {
	both := server{answers: true, stored: []string{"phi:latest", "old:latest"}, loaded: []string{"phi:latest", "old:latest"}}
	for name, test := range map[string]struct {
		told      string // in the status
		confirmed string
		want      []string
	}{
		"nobody heard it":           {"", "", []string{"old:latest"}},
		"it was heard":              {"", modelIn("pod-1", "phi:latest"), both.loaded},
		"it was heard of a pod ago": {"", modelIn("pod-0", "phi:latest"), []string{"old:latest"}},
		"a former operator told it": {"phi:latest", "", both.loaded},
		"the former model was told": {"old:latest", "", []string{"old:latest"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := someFacts(infrav1.ActionInstall, func(f *facts) { f.pod, f.server = running(), both })
			f.pod.UID, f.resource.Status.ModelLoaded = "pod-1", test.told
			f.server.loaded = slices.Clone(both.loaded)
			r := &Reconciler{}
			r.confirmed.set(demo, test.confirmed)
			if r.doubt(f); !slices.Equal(f.server.loaded, test.want) {
				t.Errorf("in memory are %v, want %v", f.server.loaded, test.want)
			}
		})
	}
}

// TestSwapEnds: another model is loaded beside the first, which is then dropped,
// once; until it is gone the status tells it, and so what there is to drop.
func TestSwapEnds(t *testing.T) {
	r := &Reconciler{}
	f := someFacts(infrav1.ActionInstall, func(f *facts) { f.pod = running() })
	f.pod.UID, f.resource.Status.ModelLoaded = "pod-1", "old:latest"
	f.server = server{answers: true, stored: []string{"phi:latest", "old:latest"}, loaded: []string{"phi:latest", "old:latest"}}
	r.confirmed.set(demo, modelIn("pod-1", "phi:latest"))
	r.doubt(f)
	f.resource.Status = report(f, condition.Outcome{Verdict: condition.Done}, now)
	if got := next(f.resource, f.server, 0, r.former(f)); got.kind != stepUnload || got.model != "old:latest" {
		t.Fatalf("when both are loaded, next is %+v", got)
	}
	// Its last user isn't answered yet: it is told once.
	r.dropped.set(demo, modelIn("pod-1", "old:latest"))
	if got := next(f.resource, f.server, 0, r.former(f)); got.kind != stepNone {
		t.Errorf("when it was told to drop the former one, next is %+v", got)
	}
	f.server.loaded = []string{"phi:latest"}
	if f.resource.Status = report(f, condition.Outcome{Verdict: condition.Done}, now); f.resource.Status.ModelLoaded != "phi:latest" {
		t.Errorf("at the end %s is told to be loaded", f.resource.Status.ModelLoaded)
	}
}

// TestNotReadyBetweenSteps: a step that has ended isn't the end where another one
// follows.
func TestNotReadyBetweenSteps(t *testing.T) {
	r := &Reconciler{}
	f := someFacts(infrav1.ActionInstall, func(f *facts) { f.pod = running() })
	f.pod.UID, f.resource.Spec.Prompts = "pod-1", []string{"Hello"}
	f.server = server{answers: true, stored: []string{"phi:latest"}, loaded: []string{"phi:latest"}}
	r.jobs.running = map[types.NamespacedName]*job{demo: {step: step{kind: stepLoad, model: "phi:latest"}, pod: "pod-1", done: true}}
	r.collect(f)
	r.doubt(f)
	if err := r.drive(f); err != nil {
		t.Fatal(err)
	}
	if got := report(f, condition.Outcome{Verdict: condition.Done}, now); got.Phase != infrav1.PhaseInProgress || got.Message != "prompt 1 of 1 is being answered" {
		t.Errorf("between two steps: %s, %s", got.Phase, got.Message)
	}
}

// TestRoom: without room it is tried again later and later; at once with another
// pod or more room; and other faults don't wait as long.
func TestRoom(t *testing.T) {
	r := &Reconciler{Now: func() time.Time { return now.Time }}
	f := someFacts(infrav1.ActionInstall, func(f *facts) { f.pod = running() })
	f.pod.UID, f.now = "pod-1", now.Time
	fail := func(err error) {
		ended := &job{step: step{kind: stepPull, model: "phi:latest"}, generation: f.resource.Generation, pod: "pod-1", place: "pod-1 1Mi", done: true, err: err}
		r.jobs.running = map[types.NamespacedName]*job{demo: ended}
		f.room = "" // as a pass begins, before it looks at the claim
		r.collect(f)
		f.room = "1Mi"
	}
	full := fmt.Errorf("x: %w", ollama.ErrNoSpace)
	for range 20 {
		fail(full)
	}
	if err := r.drive(f); !condition.IsWait(err) || f.retryAt.Sub(now.Time) != longestWithoutRoom {
		t.Errorf("without room: %v, again in %s", err, f.retryAt.Sub(now.Time))
	}
	f.room = "2Mi"
	if err := r.drive(f); err != nil {
		t.Errorf("with more room: %v", err)
	}
	f.room, f.pod.UID = "1Mi", "pod-2"
	if err := r.drive(f); err != nil {
		t.Errorf("with another pod: %v", err)
	}
	f.pod.UID = "pod-1"
	fail(errors.New("x"))
	if err := r.drive(f); err == nil || f.retryAt.Sub(now.Time) != longestPause {
		t.Errorf("another fault: %v, again in %s", err, f.retryAt.Sub(now.Time))
	}
}

// TestFormerSpecFailed: what a former spec's step came to, in the moment in which
// the spec was changed, holds nothing up: for good it would, where the step is final.
func TestFormerSpecFailed(t *testing.T) {
	for name, err := range map[string]error{"a wait": ollama.ErrRegistry, "a stop": ollama.ErrModelNotFound} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Now: func() time.Time { return now.Time }}
			f := someFacts(infrav1.ActionInstall, func(f *facts) { f.pod = running() })
			f.pod.UID, f.now = "pod-1", now.Time
			r.jobs.running = map[types.NamespacedName]*job{demo: {
				step: step{kind: stepPull, model: "phy:latest"}, generation: f.resource.Generation - 1, pod: "pod-1", place: f.place(), done: true, err: err,
			}}
			r.collect(f)
			if err := r.drive(f); err != nil {
				t.Errorf("the present spec is told: %v", err)
			}
		})
	}
}
