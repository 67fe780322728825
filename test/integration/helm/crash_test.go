package helm

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/test/bed"
)

// chapter is what a user asks for in a release's life, and how it ends.
type chapter struct {
	name   string
	want   func(p *place) helmrelease.Want
	kind   release.Kind
	reason string
}

// Deployments want no pods here, so that nothing but the release takes time.
func empty(parts ...string) map[string]any {
	values := with(parts...)
	values["replicas"] = 0
	return values
}

// life is a release's life: made, changed (objects changed, dropped, new), changed
// to what never gets ready and back, removed.
var life = []chapter{
	{"install", func(p *place) helmrelease.Want { return p.want("1.0.0", empty("hook", "more")) }, release.Nothing, condition.ReasonReady},
	{"upgrade", func(p *place) helmrelease.Want { return p.want("1.1.0", empty("hook", "widget")) }, release.Nothing, condition.ReasonReady},
	{"rollback", func(p *place) helmrelease.Want { return p.want("1.2.0", with("more", "stuck")) }, release.Stop, release.ReasonRolledBack},
	{"uninstall", func(p *place) helmrelease.Want {
		want := p.want("1.2.0", nil)
		want.Removed = true
		return want
	}, release.Nothing, release.ReasonUninstalled},
}

// live lets the operator work on a chapter until it is at rest, and over its
// deaths. What is never ready is given its time at once.
func (p *place) live(c chapter) {
	p.Helper()
	want := c.want(p)
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		report, err := p.step(want)
		p.clock.by = 0
		d := report.Decision
		switch {
		case err != nil: // it died: another process goes on
			p.wire = &bed.Wire{}
			p.restart()
		case d.Kind == release.Wait && d.Reason == release.ReasonNotReady && report.Newest.Version == "1.2.0":
			p.clock.by = want.Timeout + time.Second
		case d.Kind == release.Wait:
			p.awaitChange()
		case !report.Acted:
			if d.Kind != c.kind || d.Reason != c.reason {
				p.Fatalf("%s ended with %+v", c.name, d)
			}
			return
		}
	}
	p.Fatalf("%s has no end", c.name)
}

// TestADeathAtEachWrite of each chapter: the next process brings it to the end
// that it has without the death, and nothing is left over when all is removed.
func TestADeathAtEachWrite(t *testing.T) {
	t.Parallel()
	if err := optional(); err != nil {
		t.Fatal(err)
	}
	faultless := newPlace(t)
	writes, worlds := make([]int, len(life)), make([]map[string]any, len(life))
	for i, c := range life {
		faultless.wire.Take()
		faultless.live(c)
		writes[i] = len(faultless.wire.TakeWrites())
		worlds[i] = faultless.picture()
	}
	if len(worlds[0]) < 9 || writes[0] < 15 || writes[1] < 15 || writes[2] < 20 || writes[3] < 10 {
		t.Fatalf("the life has %v writes and begins with %d objects; it no longer is what this test was made for", writes, len(worlds[0]))
	}
	for at, c := range life {
		for n := 1; n <= writes[at]; n++ {
			t.Run(fmt.Sprintf("%s/%d", c.name, n), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				for _, before := range life[:at] {
					p.live(before)
				}
				p.wire.DisturbOne(n, bed.DieAfter)
				p.live(c)
				if diff := cmp.Diff(worlds[at], p.picture()); diff != "" {
					t.Errorf("the world differs from the one without the death (-):\n%s", diff)
				}
				if n%4 != 0 {
					return // the rest of the life takes as long again
				}
				p.live(life[len(life)-1])
				for name := range p.picture() {
					if worlds[len(life)-1][name] == nil {
						t.Errorf("%s is left when all is removed", name)
					}
				}
				if left := p.records(); len(left) > 0 {
					t.Errorf("%d records are left", len(left))
				}
			})
		}
	}
}
