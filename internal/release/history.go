package release

import (
	"cmp"
	"slices"
)

// history is a release's revisions, the newest first.
type history []Revision

func sorted(revisions []Revision) history {
	h := slices.Clone(revisions)
	slices.SortFunc(h, func(a, b Revision) int { return cmp.Compare(b.Number, a.Number) })
	return h
}

// failed reports whether a revision failed, and didn't become good later.
func (r *Revision) failed() bool { return r.Status == Failed || r.Faulted }

func (h history) newest() *Revision {
	if len(h) == 0 {
		return nil
	}
	return &h[0]
}

// from is the revision that a rollback, and rollbacks right before it, went back
// from; nil if it is no longer known.
func (h history) from(rollback *Revision) *Revision {
	for i := range h {
		if h[i].Number < rollback.Number && h[i].RolledBackTo == 0 {
			return &h[i]
		}
	}
	return nil
}

func (h history) has(number int) bool {
	return slices.ContainsFunc(h, func(r Revision) bool { return r.Number == number })
}

// attempts counts our newest revisions in a row that have a config and failed,
// and apart from them those that were interrupted.
func (h history) attempts(config string) (failed, interrupted int) {
	for i := range h {
		r := &h[i]
		switch {
		case r.Config != config || !r.failed() || !r.Ours:
			return failed, interrupted
		case r.Interrupted:
			interrupted++
		default:
			failed++
		}
	}
	return failed, interrupted
}

// rollbacks counts the newest revisions in a row that are rollbacks and failed,
// and apart from them those that were interrupted.
func (h history) rollbacks() (failed, interrupted int) {
	for i := range h {
		r := &h[i]
		switch {
		case r.RolledBackTo == 0 || !r.failed():
			return failed, interrupted
		case r.Interrupted:
			interrupted++
		default:
			failed++
		}
	}
	return failed, interrupted
}

// good is the newest revision to go back to from a config: one that was ready,
// or one of somebody else's that Helm deployed.
func (h history) good(config string) *Revision {
	for i := range h {
		r := &h[i]
		deployed := r.Status == Deployed || r.Status == Superseded
		if deployed && r.Config != config && !r.Faulted && (r.Settled || !r.Ours) {
			return r
		}
	}
	return nil
}
