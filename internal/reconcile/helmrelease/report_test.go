package helmrelease

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/release"
)

func TestOutcomesAndEnds(t *testing.T) {
	for _, row := range []struct {
		kind    release.Kind
		reason  string
		verdict condition.Verdict
		gone    bool
	}{
		{release.Nothing, condition.ReasonReady, condition.Done, false},
		{release.Nothing, release.ReasonUninstalled, condition.Done, true},
		{release.Nothing, release.ReasonNotOurs, condition.Done, true},
		{release.Stop, release.ReasonRolledBack, condition.Stopped, false},
		{release.Wait, release.ReasonNotReady, condition.Waiting, false},
		{release.Upgrade, release.ReasonUpgrading, condition.Waiting, false},
	} {
		report := Report{Decision: release.Decision{Kind: row.kind, Reason: row.reason, Message: "x"}}
		if got := report.Outcome(); got.Verdict != row.verdict || got.Reason != row.reason || got.Message != "x" || report.Gone() != row.gone {
			t.Errorf("%s %s: %+v, gone %v", row.kind, row.reason, got, report.Gone())
		}
	}
}

// TestConfigs: whatever changes what is made changes the config, and nothing else.
func TestConfigs(t *testing.T) {
	chart := &helm.Chart{}
	base := Want{Chart: chart, Digest: "sha256:1", Values: map[string]any{"a": 1}, Labels: map[string]string{"b": "c"}}
	first := configOf(base)
	if len(first) != 32 {
		t.Errorf("%q isn't a label's value", first)
	}
	for name, row := range map[string]struct {
		change func(*Want)
		same   bool
	}{
		"digest":      {func(w *Want) { w.Digest = "sha256:2" }, false},
		"values":      {func(w *Want) { w.Values = map[string]any{"a": 2} }, false},
		"no values":   {func(w *Want) { w.Values = nil }, false},
		"labels":      {func(w *Want) { w.Labels = map[string]string{"b": "d"} }, false},
		"once more":   {func(w *Want) { w.Again = "2" }, false},
		"nothing":     {func(*Want) {}, true},
		"timeout":     {func(w *Want) { w.Timeout = 9 }, true},
		"remediation": {func(w *Want) { w.Remediation.Retries = 3 }, true},
		"drift":       {func(w *Want) { w.Drift.Mode = release.DriftIgnore }, true},
		"equal":       {func(w *Want) { w.Values = map[string]any{"a": int64(1)} }, true},
	} {
		changed := base
		row.change(&changed)
		if (configOf(changed) == first) != row.same {
			t.Errorf("%s: the same %v, want %v", name, !row.same, row.same)
		}
	}
	if configOf(Want{Removed: true, Chart: chart}) != "" || configOf(Want{}) != "" {
		t.Error("what asks for nothing has a config")
	}
}

// TestFaultsOfTheSDK become what happens next and a sentence.
func TestFaultsOfTheSDK(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "x", errors.New("no"))
	for name, row := range map[string]struct {
		err     error
		verdict condition.Verdict
		reason  string
	}{
		"template":  {errors.New("template: a.yaml:1: nil pointer"), condition.Stopped, condition.ReasonInvalidSpec},
		"kind":      {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "X"}}, condition.Waiting, condition.ReasonAPINotServed},
		"forbidden": {forbidden, condition.Waiting, condition.ReasonForbidden},
		"server":    {apierrors.NewInternalError(errors.New("x")), condition.Retrying, condition.ReasonApplyFailed},
		"deadline":  {context.DeadlineExceeded, condition.Retrying, condition.ReasonApplyFailed},
		"owner":     {errors.New(`Service "x" exists and cannot be imported into the current release: y`), condition.Stopped, condition.ReasonOwnedByAnother},
	} {
		outcome := condition.Classify((&Runner{}).explain(Want{Namespace: "n"}, row.err))
		if outcome.Verdict != row.verdict || outcome.Reason != row.reason {
			t.Errorf("%s: %+v", name, outcome)
		}
	}
	if outcome := condition.Classify((&Runner{}).explain(Want{}, context.Canceled)); !outcome.Silent {
		t.Errorf("our own end is told: %+v", outcome)
	}
}
