package release

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slipway-dev/slipway/internal/readiness"
)

// kept is how many revisions the model's storage keeps, as the real one.
const kept = 10

// nature is how a config behaves.
type nature struct{ refused, ready, passes bool }

// world is a model of Helm's storage, of a cluster and of its users.
type world struct {
	revisions []Revision
	wanted    *Wanted
	natures   map[string]nature
	trouble   bool // nothing is ready, for a reason of the cluster's own
	drift     []string
	remaining []string
	now       time.Time
}

func (w *world) state() State {
	s := State{History: w.revisions, Wanted: w.wanted, Drift: w.drift, Remaining: w.remaining, Grace: 31 * minute, Now: w.now}
	s.Readiness = readiness.Result{Status: readiness.Ready}
	if newest := w.newest(); newest != nil && (w.trouble || !w.natures[newest.Config].ready) {
		s.Readiness = readiness.Result{Status: readiness.InProgress, Reason: "Waiting", Message: "it isn't ready"}
	}
	return s
}

func (w *world) newest() *Revision {
	if len(w.revisions) == 0 {
		return nil
	}
	return &w.revisions[len(w.revisions)-1]
}

// create stores a pending revision, and drops the oldest that aren't deployed.
func (w *world) create(r Revision) *Revision {
	r.Number = 1
	if newest := w.newest(); newest != nil {
		r.Number = newest.Number + 1
	}
	deployed := -1
	for i := range w.revisions {
		if w.revisions[i].Status == Deployed {
			deployed = w.revisions[i].Number
		}
	}
	for len(w.revisions) >= kept {
		at := slices.IndexFunc(w.revisions, func(r Revision) bool { return r.Number != deployed })
		w.revisions = slices.Delete(w.revisions, at, at+1)
	}
	r.Changed, r.Description = w.now, "it failed"
	w.revisions = append(w.revisions, r)
	return w.newest()
}

// supersede is what Helm does with the revisions before one that succeeded.
func (w *world) supersede(all bool) {
	deployed := slices.ContainsFunc(w.revisions, func(r Revision) bool { return r.Status == Deployed })
	for i := range w.revisions[:len(w.revisions)-1] {
		r := &w.revisions[i]
		last := i == len(w.revisions)-2
		if r.Status == Deployed || !all && !deployed && last && r.Status == Failed {
			r.Status = Superseded
		}
	}
}

// upgrade makes a revision; dies tells that the process ends in the middle.
func (w *world) upgrade(config string, ours, dies bool) {
	status := PendingUpgrade
	if w.newest() == nil {
		status = PendingInstall
	}
	r := w.create(Revision{Status: status, Config: config, Ours: ours, Tests: []TestHook{{Name: "smoke"}}})
	switch {
	case dies:
	case w.natures[config].refused:
		r.Status, r.Faulted = Failed, ours
	default:
		w.supersede(false)
		r.Status = Deployed
	}
}

func (w *world) rollback(to int, ours, dies, refused bool) {
	at := slices.IndexFunc(w.revisions, func(r Revision) bool { return r.Number == to })
	target := w.revisions[at]
	if from := sorted(w.revisions).from(&Revision{Number: w.newest().Number + 1}); from != nil && ours {
		w.revisions[slices.IndexFunc(w.revisions, func(r Revision) bool { return r.Number == from.Number })].Faulted = true
	}
	r := w.create(Revision{Status: PendingRollback, Config: target.Config, Ours: ours, RolledBackTo: to})
	switch {
	case dies:
	case refused:
		r.Status, r.Faulted = Failed, ours
		if len(w.revisions) > 1 {
			w.revisions[len(w.revisions)-2].Status = Superseded
		}
	default:
		w.supersede(true)
		r.Status = Deployed
	}
}

// carryOut does what was decided; a process that dies leaves it half done.
func (w *world) carryOut(d Decision, dies, refused bool) {
	newest := w.newest()
	switch d.Kind {
	case Install, Upgrade:
		w.upgrade(w.wanted.Config, true, dies)
	case Rollback:
		w.rollback(d.To, true, dies, refused)
	case Uninstall:
		newest.Status, newest.Changed = Uninstalling, w.now
		if !dies {
			newest.Status, w.remaining, w.drift = Uninstalled, []string{"Pod/x"}, nil
		}
	case Forget:
		w.revisions, w.remaining = nil, nil
	case Recover:
		newest.Status, newest.Changed = Failed, w.now
		newest.Faulted, newest.Interrupted = newest.Ours, newest.Ours
	case Fail:
		newest.Status, newest.Faulted, newest.Late, newest.Changed = Failed, true, d.Reason == ReasonNotReadyInTime, w.now
	case Settle:
		newest.Status, newest.Settled, newest.Faulted, newest.Late, newest.Interrupted = Deployed, true, false, false, false
	case Test:
		newest.Tests[0].Phase = TestFailed
		if w.natures[newest.Config].passes {
			newest.Tests[0].Phase = TestSucceeded
		}
	case Correct:
		w.drift = nil
	case Nothing, Wait, Stop:
	}
}

// invariants hold for each decision in each state.
func (w *world) invariants(t *rapid.T, d Decision) {
	newest := w.newest()
	if d.Reason == "" || d.Message == "" {
		t.Fatalf("no reason or sentence: %+v", d)
	}
	if w.wanted != nil && newest != nil && newest.Settled && newest.Status == Deployed && newest.Config == w.wanted.Config {
		switch d.Kind { //nolint:exhaustive // the others are allowed
		case Install, Upgrade, Rollback, Uninstall, Fail, Recover:
			t.Fatalf("a settled revision of the wanted config is disturbed: %+v", d)
		}
	}
	if d.Kind == Rollback {
		at := slices.IndexFunc(w.revisions, func(r Revision) bool { return r.Number == d.To })
		if at < 0 || w.revisions[at].Config == w.wanted.Config {
			t.Fatalf("a rollback to nowhere or to the same: %+v", d)
		}
	}
}

// event lets a user, another helm or the cluster do something.
func (w *world) event(t *rapid.T, at int) {
	configs := []string{"a", "b", "c"}
	switch rapid.IntRange(0, 11).Draw(t, fmt.Sprint("event", at)) {
	case 0, 1:
		w.wanted = w.draw(t, rapid.SampledFrom(configs).Draw(t, "config"))
	case 2:
		w.wanted = nil
	case 3: // helm upgrade
		if n := w.newest(); n == nil || !n.Status.IsPending() && n.Status != Uninstalled && n.Status != Uninstalling {
			w.upgrade("", false, rapid.Bool().Draw(t, "dies"))
		}
	case 4: // helm rollback
		if n := w.newest(); n != nil && n.Status != Uninstalled && n.Status != Uninstalling {
			to := rapid.SampledFrom(w.revisions).Draw(t, "to")
			w.rollback(to.Number, false, rapid.IntRange(0, 3).Draw(t, "dies") == 0, rapid.IntRange(0, 3).Draw(t, "refused") == 0)
		}
	case 5: // helm uninstall, with or without --keep-history
		if n := w.newest(); n != nil {
			n.Status, n.Changed = Uninstalled, w.now
			if rapid.Bool().Draw(t, "purged") {
				w.revisions = nil
			}
		}
	case 6: // the newest record is deleted
		if len(w.revisions) > 0 {
			w.revisions = w.revisions[:len(w.revisions)-1]
		}
	case 7:
		w.trouble = !w.trouble
	case 8:
		w.drift = []string{"Service/x: spec"}
	case 9:
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 3600).Draw(t, "seconds")) * time.Second)
	default: // the operator works on, and may die
		d := Next(w.state())
		w.invariants(t, d)
		w.carryOut(d, rapid.IntRange(0, 2).Draw(t, "dies") == 0, rapid.IntRange(0, 2).Draw(t, "refused") == 0)
	}
}

func (w *world) draw(t *rapid.T, config string) *Wanted {
	return &Wanted{
		Config: config, Timeout: 5 * minute, Test: rapid.Bool().Draw(t, "test"),
		Remediation: Remediation{
			Strategy: rapid.SampledFrom([]Strategy{"", RollBack, Retry, Halt}).Draw(t, "strategy"),
			Retries:  rapid.IntRange(0, MaxRetries).Draw(t, "retries"),
		},
		Drift: rapid.SampledFrom([]DriftMode{"", DriftCorrect, DriftReport, DriftIgnore}).Draw(t, "drift"),
	}
}

// TestItAlwaysEnds: whatever users, another helm, the cluster and the death of
// our process did, once they leave the release alone it ends: as wanted, or with
// a sentence about who must act; and it stays so.
func TestItAlwaysEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{now: now, natures: map[string]nature{"": {ready: true, passes: true}}}
		for _, config := range []string{"a", "b", "c"} {
			w.natures[config] = nature{rapid.Bool().Draw(t, "refused"), rapid.Bool().Draw(t, "ready"), rapid.Bool().Draw(t, "passes")}
		}
		w.wanted = w.draw(t, "a")
		for at := range rapid.IntRange(0, 40).Draw(t, "events") {
			w.event(t, at)
		}
		end := w.quiesce(t)
		w.verify(t, end)
		w.now = w.now.Add(24 * time.Hour)
		if later := Next(w.state()); later.Kind != end.Kind {
			t.Fatalf("it ended with %+v, and a day later goes on with %+v", end, later)
		}
	})
}

// quiesce lets the operator work undisturbed until nothing more is to be done.
func (w *world) quiesce(t *rapid.T) Decision {
	const steps = 100
	for range steps {
		d := Next(w.state())
		w.invariants(t, d)
		switch {
		case d.Kind.Acts():
			w.carryOut(d, false, false)
		case d.Kind == Wait && d.Again > 0:
			w.now = w.now.Add(d.Again)
			w.remaining = nil
		default:
			return d
		}
	}
	t.Fatalf("no end after %d steps: %+v, then %+v", steps, w.revisions, Next(w.state()))
	return Decision{}
}

func (w *world) verify(t *rapid.T, end Decision) {
	newest := w.newest()
	switch {
	case w.wanted == nil:
		if end.Kind != Nothing || slices.ContainsFunc(w.revisions, func(r Revision) bool { return r.Ours }) {
			t.Fatalf("it shall be gone, and ended with %+v: %+v", end, w.revisions)
		}
	case end.Kind == Nothing:
		if newest == nil || newest.Status != Deployed || !newest.Settled || newest.Config != w.wanted.Config {
			t.Fatalf("it isn't as wanted, and ended with %+v: %+v", end, newest)
		}
	case end.Kind == Wait:
		if !newest.Settled || newest.Config != w.wanted.Config {
			t.Fatalf("it waits for nothing: %+v: %+v", end, newest)
		}
	}
	if w.wanted != nil && w.wanted.Config == "a" && w.natures["a"] == faultless && !w.trouble && end.Kind == Stop && end.Reason != ReasonRolledBackByHand {
		for _, r := range w.revisions {
			if r.Config == "a" && r.Faulted {
				return // it was in trouble, or a process died over it, while it was tried
			}
		}
		t.Fatalf("a config with no fault ended with %+v: %+v", end, w.revisions)
	}
}

// faultless is the nature of a config without a fault.
var faultless = nature{refused: false, ready: true, passes: true}
