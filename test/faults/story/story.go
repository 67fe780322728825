package story

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/test/bed"
)

// mostWrites bounds the search for the last write of a step.
const mostWrites = 60

// Story is what a user does with a resource, from its creation to its deletion.
type Story struct {
	// Controllers that run; all if none is named.
	Controllers []string
	// Kinds of the world beside those that Kubernetes brings.
	Kinds []schema.GroupVersionKind
	// Second: the story has a second namespace, Place.Second.
	Second bool
	// Beside shows what else the world holds, by other names than a picture's.
	Beside func(*Place) bed.World
	// Resource is the one that the story is about, as it is created.
	Resource func(namespace string) client.Object
	Steps    []Step
}

// Step is one thing that a user does.
type Step struct {
	Name string
	Do   func(*Place)
	// Missing tells why the step isn't through in a world.
	Missing func(*Place, bed.World) string
	// Writes is how many writes the operator makes in the step at least.
	Writes int
	// From is the write that the first of the rounds breaks, and By is how many
	// further each round is; 1 where nothing is said. Steps alike can share writes.
	From, By int
}

// Place makes a place for the story. A resource of the cluster's scope that a run
// leaves there, because it failed, is taken away, so that it doesn't make the
// next run fail.
func (s Story) Place(t *testing.T, api *rest.Config) *Place {
	t.Helper()
	p := laidOut(t, api, s.Controllers)
	if s.Second {
		p.beyond = []string{p.Second()}
	}
	if left := s.Resource(p.Namespace); left.GetNamespace() == "" {
		t.Cleanup(func() { takeAway(p, left) })
	}
	p.open()
	return p
}

// takeAway deletes a resource without its operator, which has ended.
func takeAway(p *Place, left client.Object) {
	p.Helper()
	ctx := context.WithoutCancel(p.Context())
	if err := client.IgnoreNotFound(p.User.Delete(ctx, left)); err != nil {
		p.Error(err)
	}
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := client.IgnoreNotFound(p.User.Patch(ctx, left, free)); err != nil {
		p.Error(err)
	}
}

func (s Story) picture(p *Place) bed.World {
	p.Helper()
	owner := s.Resource(p.Namespace)
	p.Must(client.IgnoreNotFound(p.User.Get(p.Context(), client.ObjectKeyFromObject(owner), owner)))
	world := bed.Picture(p.T, p.User, p.Namespace, owner, s.Kinds...)
	if s.Second {
		for name, each := range bed.Picture(p.T, p.User, p.Second(), owner, s.Kinds...) {
			world["second "+name] = each
		}
	}
	if s.Beside != nil {
		maps.Copy(world, s.Beside(p))
	}
	return world
}

// Worlds lives the story without a fault, and gives the world after each step.
func (s Story) Worlds(t *testing.T, api *rest.Config) []bed.World {
	t.Helper()
	p := s.Place(t, api)
	worlds := make([]bed.World, len(s.Steps))
	for i, step := range s.Steps {
		step.Do(p)
		p.Await(func() string { return step.Missing(p, s.picture(p)) })
		worlds[i] = s.picture(p) // the one before may be older than what was told
	}
	p.stop()
	return worlds
}

// Single breaks each of the first steps at each of the operator's writes, one at a
// time and in a place of its own: the world must end as it does without the fault.
// How many writes there are depends on how fast pods get ready, so the search ends
// with the first run in which the fault has no write left.
func (s Story) Single(t *testing.T, api *rest.Config, worlds []bed.World, steps int, faults ...bed.Fault) {
	for at, step := range s.Steps[:steps] {
		for _, fault := range faults {
			t.Run(step.Name+"/"+fault.String(), func(t *testing.T) {
				t.Parallel()
				n, hit := 1, true
				for ; hit && n <= mostWrites; n++ {
					t.Run(fmt.Sprint(n), func(t *testing.T) { hit = s.breakOne(t, api, worlds, at, n, fault) })
				}
				if n-2 < step.Writes || n > mostWrites {
					t.Errorf("%d writes were broken; this test no longer sees them", n-2)
				}
			})
		}
	}
}

// breakOne lives the story up to a step and breaks it there. After a death it
// also ends the story: what the death left unrecorded would stay. It reports
// whether there was a write to break.
func (s Story) breakOne(t *testing.T, api *rest.Config, worlds []bed.World, at, n int, fault bed.Fault) bool {
	p := s.Place(t, api)
	s.liveUpTo(p, at, worlds)
	hit := s.strike(p, at, n, worlds[at], fault)
	if last := len(s.Steps) - 1; at != last && fault.Lethal() {
		s.Steps[last].Do(p)
		s.await(p, worlds[last])
	}
	return hit
}

// strike breaks the n-th write of a step, which must end in a world all the same.
// It reports whether there was such a write.
func (s Story) strike(p *Place, at, n int, want bed.World, fault bed.Fault) bool {
	p.Helper()
	happened := p.BreakAt(n, fault)
	s.Steps[at].Do(p)
	hit := true
	if fault.Lethal() {
		hit = p.AwaitDeath(happened, func() bool { return s.Differs(p, want) == "" })
		p.Restart()
	}
	s.await(p, want)
	if !fault.Lethal() {
		hit = IsSo(happened)
	}
	p.Mend()
	return hit
}

// Rounds lives a story that ends where it began, round after round in one place:
// the first round breaks the first write of each step, the next one the second,
// until no step has that many. It costs less than Single, and a later round also
// shows what a former one has left. Steps without Writes aren't broken.
func (s Story) Rounds(t *testing.T, api *rest.Config, worlds []bed.World, fault bed.Fault) {
	t.Run("rounds/"+fault.String(), func(t *testing.T) {
		t.Parallel()
		p := s.Place(t, api)
		ended := make([]bool, len(s.Steps))
		for round, more := 0, true; more; round++ {
			more = false
			for at, step := range s.Steps {
				n := max(step.From, 1) + round*max(step.By, 1)
				if step.Writes == 0 || ended[at] {
					step.Do(p)
					s.await(p, worlds[at])
					continue
				}
				if ended[at] = !s.strike(p, at, n, worlds[at], fault); !ended[at] {
					more = true
				} else if t.Logf("%s has no write %d", step.Name, n); n <= step.Writes {
					t.Errorf("%s has no write %d; this test no longer sees them", step.Name, n)
				}
				if n > mostWrites {
					t.Fatalf("%s makes more than %d writes", step.Name, mostWrites)
				}
			}
		}
	})
}

// EveryOther breaks every other write of a whole story, the odd ones in one place
// and the even ones in another.
func (s Story) EveryOther(t *testing.T, api *rest.Config, worlds []bed.World, faults ...bed.Fault) {
	for _, fault := range faults {
		for name, first := range map[string]bool{"odd": true, "even": false} {
			t.Run("every other/"+fault.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := s.Place(t, api)
				p.BreakEvery(first, fault)
				s.liveUpTo(p, len(s.Steps), worlds)
			})
		}
	}
}

// AgainAndAgain kills the operator in each step again and again: the first one
// after its first write, the next one after its second, and so on.
func (s Story) AgainAndAgain(t *testing.T, api *rest.Config, worlds []bed.World, fault bed.Fault) {
	t.Run("again and again/"+fault.String(), func(t *testing.T) {
		t.Parallel()
		p := s.Place(t, api)
		for at, step := range s.Steps {
			ended := func() bool { return cmp.Equal(worlds[at], s.picture(p)) }
			happened := p.BreakAt(1, fault)
			step.Do(p)
			n := 1
			for ; n <= mostWrites && p.AwaitDeath(happened, ended); n++ {
				p.stop()
				happened = p.BreakAt(n+1, fault)
				p.start()
			}
			p.Mend()
			s.await(p, worlds[at])
			if n <= step.Writes {
				t.Errorf("%s: %d deaths; this test no longer sees the writes", step.Name, n-1)
			}
		}
	})
}

// Abandoned deletes the resource while the operator is dead, after each write of
// the first step: nothing may stay.
func (s Story) Abandoned(t *testing.T, api *rest.Config) {
	t.Run("abandoned", func(t *testing.T) {
		t.Parallel()
		for n := 1; n <= s.Steps[0].Writes; n++ {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				p := s.Place(t, api)
				happened := p.BreakAt(n, bed.DieAfter)
				s.Steps[0].Do(p)
				p.Await(func() string {
					if IsSo(happened) {
						return ""
					}
					return "the operator is alive"
				})
				p.stop()
				p.Must(p.User.Delete(p.Context(), s.Resource(p.Namespace)))
				p.Restart()
				s.await(p, bed.World{})
			})
		}
	})
}

func (s Story) liveUpTo(p *Place, at int, worlds []bed.World) {
	p.Helper()
	for i := range at {
		s.Steps[i].Do(p)
		s.await(p, worlds[i])
	}
}

func (s Story) await(p *Place, want bed.World) {
	p.Helper()
	p.Await(func() string { return s.Differs(p, want) })
}

// Differs tells how the world differs from the one that is wanted, if it does. What is beside
// it costs the server less to tell, and differs as long as most of it does.
func (s Story) Differs(p *Place, want bed.World) string {
	p.Helper()
	if s.Beside != nil {
		for name, each := range s.Beside(p) {
			if !cmp.Equal(want[name], each) {
				return fmt.Sprintf("%s is %v, not %v", name, each, want[name])
			}
		}
	}
	return differs(want, s.picture(p))
}

// Left tells what is left of a world; it is what a deletion misses.
func Left(_ *Place, world bed.World) string {
	if len(world) == 0 {
		return ""
	}
	return fmt.Sprintf("left: %v", slices.Sorted(maps.Keys(world)))
}
