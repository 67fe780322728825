package helm

import (
	"testing"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/release"
)

// TestTheLifeOfARelease: installed, left alone, upgraded, uninstalled.
func TestTheLifeOfARelease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", with("hook", "revision", "more"))
	report := p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
	if report.Newest.Number != 1 || report.Newest.Version != "1.0.0" || report.Newest.Chart != "stack" || report.Last.Kind != release.Install {
		t.Errorf("reported %+v, %+v", report.Newest, report.Last)
	}
	if len(report.Live) != 11 {
		t.Errorf("%d live objects: %v", len(report.Live), report.Live)
	}
	for _, live := range report.Live {
		if live.GetLabels()["app.kubernetes.io/part-of"] != "llm-d" {
			t.Errorf("%s %s isn't labelled: %v", live.GetKind(), live.GetName(), live.GetLabels())
		}
	}
	p.wire.Take()
	if report, err := p.step(want); err != nil || report.Acted || len(p.wire.TakeWrites()) > 0 {
		t.Errorf("a run with nothing to do: %+v, %v", report, err)
	}
	p.expect(p.want("1.1.0", with("hook", "revision")), release.Nothing, condition.ReasonReady, "Upgrade", "Settle")
	if p.configMap("app-stack-more") != nil {
		t.Error("what is no longer in the chart is still there")
	}
	if hook := p.configMap("app-stack-before"); hook == nil || hook.Data["revision"] != "2" {
		t.Errorf("the hook before the upgrade: %+v", hook)
	}
	want.Removed = true
	p.expect(want, release.Nothing, release.ReasonUninstalled, "Uninstall", "Forget")
	if left := p.records(); len(left) > 0 || p.configMap("app-stack") != nil {
		t.Errorf("%d records are left, and %v", len(left), p.configMap("app-stack"))
	}
}
