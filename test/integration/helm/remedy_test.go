package helm

import (
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/release"
)

// late runs a release that never gets ready until its time is over and it is
// marked as failed.
func (p *place) late(want helmrelease.Want) {
	p.Helper()
	for {
		report, err := p.step(want)
		p.must(err)
		if report.Decision.Kind == release.Wait {
			p.clock.by = want.Timeout + time.Second
		}
		if report.Decision.Kind == release.Fail {
			p.clock.by = 0
			return
		}
	}
}

// TestAnUpgradeThatIsNeverReadyIsRolledBack, once, and not tried again until
// something changes.
func TestAnUpgradeThatIsNeverReadyIsRolledBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	good := p.want("1.0.0", nil)
	p.expect(good, release.Nothing, condition.ReasonReady, "Install", "Settle")
	bad := p.want("1.1.0", with("stuck", "more"))
	p.late(bad)
	report := p.expect(bad, release.Stop, release.ReasonRolledBack, "Rollback", "Settle")
	p.says(report, "revision 2 failed: not ready in 1m0s: Deployment/app-stack", "rolled back to revision 1", "until the spec, version or values change")
	if report.Newest.Number != 3 || report.Newest.Version != "1.0.0" || report.Newest.RolledBackTo != 1 || report.Last.Kind != release.Rollback {
		t.Errorf("reported %+v, %+v", report.Newest, report.Last)
	}
	if p.configMap("app-stack-more") != nil {
		t.Error("an object of the failed revision is left")
	}
	p.restart()
	p.expect(bad, release.Stop, release.ReasonRolledBack)
	p.expect(good, release.Nothing, condition.ReasonReady)
	p.expect(p.want("1.2.0", nil), release.Nothing, condition.ReasonReady, "Upgrade", "Settle")
}

// TestWhatIsReadyTooLateIsGoodAfterAll, where nothing was there to go back to.
func TestWhatIsReadyTooLateIsGoodAfterAll(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", nil)
	report, err := p.step(want)
	p.must(err)
	if report.Decision.Kind != release.Install {
		t.Fatalf("%+v", report.Decision)
	}
	p.clock.by = time.Hour // as if no pod had been ready for so long
	p.runner = helmrelease.New(helmrelease.Options{Config: server, Client: unready{p.client}, Clock: p.clock})
	report, err = p.step(want)
	p.must(err)
	if report.Decision.Kind != release.Fail {
		t.Fatalf("%+v", report.Decision)
	}
	report = p.expect(want, release.Stop, release.ReasonInstallFailed)
	p.says(report, "no good revision to go back to")
	p.restart()
	report = p.expect(want, release.Nothing, condition.ReasonReady, "Settle")
	if report.Newest.Status != release.Deployed || report.Newest.Number != 1 {
		t.Errorf("%+v", report.Newest)
	}
}

// TestRetries are made with growing delays, then it stops.
func TestRetries(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", with("stuck"))
	want.Remediation = release.Remediation{Strategy: release.Retry, Retries: 1}
	p.late(want)
	report, err := p.step(want)
	p.must(err)
	if report.Decision.Kind != release.Wait || report.Decision.Reason != release.ReasonAttemptFailed || report.Again <= 0 {
		t.Fatalf("%+v", report.Decision)
	}
	p.clock.by = 11 * time.Second
	report, err = p.step(want)
	p.must(err)
	if report.Decision.Kind != release.Upgrade {
		t.Fatalf("%+v", report.Decision)
	}
	p.clock.by = 0
	p.late(want)
	p.says(p.expect(want, release.Stop, release.ReasonInstallFailed), "revision 2")
}

// TestAHookThatFails fails the upgrade, and what Helm stored tells so.
func TestAHookThatFails(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.expect(p.want("1.0.0", with("job")), release.Nothing, condition.ReasonReady, "Install", "Settle")
	bad := p.want("1.1.0", with("failingJob"))
	report := p.expect(bad, release.Stop, release.ReasonRolledBack, "Upgrade", "Rollback", "Settle")
	p.says(report, "post-upgrade hooks failed")
	p.expect(p.want("1.1.0", with("more")), release.Nothing, condition.ReasonReady, "Upgrade", "Settle")
}

// TestADeletionHookThatFails doesn't keep a release for ever.
func TestADeletionHookThatFails(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", with("failingJob"))
	p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Settle")
	want.Removed = true
	for range 3 {
		if _, err := p.step(want); err == nil {
			t.Fatal("the hook didn't fail")
		}
	}
	p.expect(want, release.Nothing, release.ReasonUninstalled, "Uninstall", "Forget")
}

// TestTests run on request and count for whether a revision is good.
func TestTests(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	want := p.want("1.0.0", with("test"))
	want.Test = true
	report := p.expect(want, release.Nothing, condition.ReasonReady, "Install", "Test", "Settle")
	if len(report.Newest.Tests) != 1 || report.Newest.Tests[0].Phase != release.TestSucceeded || report.Newest.Tests[0].Name != "Job/app-stack-smoke" {
		t.Errorf("%+v", report.Newest.Tests)
	}
	want = p.want("1.0.0", with("test", "failingTest"))
	want.Test = true
	report = p.expect(want, release.Stop, release.ReasonRolledBack, "Upgrade", "Test", "Fail", "Rollback", "Settle")
	p.says(report, "revision 2 failed: tests failed: Job/app-stack-doomed")
}
