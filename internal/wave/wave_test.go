package wave

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	needs := map[string][]string{"gateway": {"istio", "crds"}, "istio": {"certs"}, "certs": nil, "crds": {}, "llm": {"gateway"}}
	up, err := Order(needs)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"certs", "crds"}, {"istio"}, {"gateway"}, {"llm"}}
	if diff := cmp.Diff(want, up); diff != "" {
		t.Error(diff)
	}
	down, _ := Teardown(needs)
	slices.Reverse(want)
	if diff := cmp.Diff(want, down); diff != "" {
		t.Error(diff)
	}
	if waves, err := Order(nil); len(waves) != 0 || err != nil {
		t.Errorf("nothing gives %v, %v", waves, err)
	}
}

func TestFaultsAreNamed(t *testing.T) {
	for _, test := range []struct {
		name  string
		needs map[string][]string
		want  string
	}{
		{"missing", map[string][]string{"b": {"z", "y"}, "a": nil}, "b needs y, which doesn't exist; add it or remove the dependency"},
		{"itself", map[string][]string{"a": {"a"}}, "a -> a: these need one another in a ring; remove one of the dependencies"},
		{"ring with a tail", map[string][]string{"a": {"d"}, "d": {"c"}, "c": {"b"}, "b": {"d"}, "free": nil}, "b -> d -> c -> b: these need one another in a ring; remove one of the dependencies"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Order(test.needs); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if _, err := Teardown(test.needs); err == nil {
				t.Error("teardown sees no fault")
			}
		})
	}
}

// graph draws any graph of up to eight names, rings included.
func graph(t *rapid.T) map[string][]string {
	count := rapid.IntRange(0, 8).Draw(t, "count")
	needs := map[string][]string{}
	for i := range count {
		needs[fmt.Sprint("n", i)] = nil
	}
	for name := range needs {
		for _, to := range rapid.SliceOfN(rapid.IntRange(0, count-1), 0, 3).Draw(t, name) {
			needs[name] = append(needs[name], fmt.Sprint("n", to))
		}
	}
	return needs
}

// TestOrderHolds: either every name is in exactly one wave, the one after the
// last wave of what it needs, or there is a ring and the error walks it.
func TestOrderHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		needs := graph(t)
		waves, err := Order(needs)
		var cycle *CycleError
		if errors.As(err, &cycle) {
			for i, name := range cycle.Names {
				if next := cycle.Names[(i+1)%len(cycle.Names)]; !slices.Contains(needs[name], next) {
					t.Fatalf("%s doesn't need %s", name, next)
				}
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]int{}
		for i, wave := range waves {
			for _, name := range wave {
				if _, twice := at[name]; twice {
					t.Fatalf("%s is in two waves", name)
				}
				at[name] = i
			}
		}
		for name, needed := range needs {
			first := 0
			for _, each := range needed {
				first = max(first, at[each]+1)
			}
			if got, is := at[name]; !is || got != first {
				t.Fatalf("%s is in wave %d, not %d", name, got, first)
			}
		}
		again, _ := Order(needs)
		if diff := cmp.Diff(waves, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
