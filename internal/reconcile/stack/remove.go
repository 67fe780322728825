package stack

import (
	"context"
	"time"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// removal is a release that shall be gone.
type removal struct {
	release platformv1alpha1.StackRelease
	blocked bool // by one that needs it and is still there
	report  helmrelease.Report
	err     error
}

// gone tells whether nothing of the release is left that is ours.
func (r *removal) gone() bool { return r.err == nil && !r.blocked && r.report.Gone() }

func (r *removal) outcome() condition.Outcome {
	switch {
	case r.err != nil:
		return condition.Classify(r.err)
	case r.blocked:
		return condition.Outcome{Verdict: condition.Waiting, Reason: condition.ReasonDependencyNotReady,
			Message: "waits until what needs it is uninstalled"}
	}
	return r.report.Outcome()
}

// removalTimeout is the time that an uninstallation gets before what is left of a
// release is left to whatever holds it.
const removalTimeout = release.DefaultTimeout

// TeardownDeadline is how long a deletion waits for all releases. One that can't
// be uninstalled must not keep the stack for ever.
const TeardownDeadline = 30 * time.Minute

func (p *pass) tooLate() bool {
	return p.options.Now().Sub(p.stack.DeletionTimestamp.Time) >= TeardownDeadline
}

// remove uninstalls what shall be gone, each after what needs it.
func (p *pass) remove(ctx context.Context) {
	for _, each := range platformstack.Removals(p.recorded(), p.waves) {
		one := &removal{release: each}
		for _, former := range p.removals {
			one.blocked = one.blocked || !former.gone() && platformstack.Needed(p.stack, each, former.release)
		}
		if !one.blocked {
			one.report, one.err = p.hand.runner.Run(ctx, helmrelease.Want{
				Name: each.Name, Namespace: each.Namespace, Removed: true, Timeout: removalTimeout,
			})
		}
		if one.gone() && each.Name == each.Component {
			one.err = p.dropCertificates(ctx, each.Component, each.Namespace)
		}
		p.removals = append(p.removals, one)
	}
}
