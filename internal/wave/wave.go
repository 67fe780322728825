// Package wave puts things that need one another into waves: all of a wave can
// go at once, and each after everything that it needs. It decides the order and
// never carries anything out.
package wave

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CycleError is a ring of names of which each needs the next, and the last the
// first.
type CycleError struct{ Names []string }

func (e *CycleError) Error() string {
	ring := append(slices.Clone(e.Names), e.Names[0])
	return fmt.Sprintf("%s: these need one another in a ring; remove one of the dependencies", strings.Join(ring, " -> "))
}

// MissingError is a name that something needs and that isn't there.
type MissingError struct{ Name, NeededBy string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s needs %s, which doesn't exist; add it or remove the dependency", e.NeededBy, e.Name)
}

// Order gives the waves in which names can go, from what each needs. Names in a
// wave are sorted, and each is in the first wave that it can be in, so the same
// graph always gives the same waves. The error is a *MissingError or a
// *CycleError.
func Order(needs map[string][]string) ([][]string, error) {
	if err := complete(needs); err != nil {
		return nil, err
	}
	open := maps.Clone(needs)
	var waves [][]string
	for len(open) > 0 {
		var wave []string
		for name, needed := range open {
			if !slices.ContainsFunc(needed, func(each string) bool { _, is := open[each]; return is }) {
				wave = append(wave, name)
			}
		}
		if len(wave) == 0 {
			return nil, &CycleError{ring(open)}
		}
		slices.Sort(wave)
		for _, name := range wave {
			delete(open, name)
		}
		waves = append(waves, wave)
	}
	return waves, nil
}

// Teardown gives the waves in which names can be taken down: each before
// everything that it needs.
func Teardown(needs map[string][]string) ([][]string, error) {
	waves, err := Order(needs)
	slices.Reverse(waves)
	return waves, err
}

// complete checks that every name that is needed is there.
func complete(needs map[string][]string) error {
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		for _, each := range slices.Sorted(slices.Values(needs[name])) {
			if _, is := needs[each]; !is {
				return &MissingError{Name: each, NeededBy: name}
			}
		}
	}
	return nil
}

// ring finds a cycle among names each of which needs another one of them: by
// following needs from the first name, one must come up twice.
func ring(open map[string][]string) []string {
	at := slices.Min(slices.Collect(maps.Keys(open)))
	var path []string
	for !slices.Contains(path, at) {
		path = append(path, at)
		var next []string
		for _, each := range open[at] {
			if _, is := open[each]; is {
				next = append(next, each)
			}
		}
		at = slices.Min(next)
	}
	path = path[slices.Index(path, at):]
	first := slices.Index(path, slices.Min(path))
	return append(slices.Clone(path[first:]), path[:first]...)
}
