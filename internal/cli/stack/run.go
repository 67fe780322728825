package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/release"
)

// Step brings a stack, as it was read, a step nearer to its spec, and says when to look
// again. The engine's is one; where the operator does it, there is Watched.
type Step func(ctx context.Context, stack *platformv1alpha1.PlatformStack) (again time.Duration, err error)

// lookAgain is how often a stack is looked at at least.
const lookAgain = time.Second

// Watched leaves it to the operator.
func Watched(context.Context, *platformv1alpha1.PlatformStack) (time.Duration, error) {
	return lookAgain, nil
}

// Run is a stack on its way.
type Run struct {
	Client client.Client
	Step   Step
	// Report takes a line whenever something has changed.
	Report func(line string)
	// Approve are the components whose upgrades go although they lose something.
	Approve []string
}

// BlockedError says why a stack doesn't get ready unless someone acts.
type BlockedError struct {
	Name  string
	Lines []string // a component and its sentence each
}

func (b *BlockedError) Error() string {
	return fmt.Sprintf("PlatformStack %s isn't ready: %s", b.Name, strings.Join(b.Lines, "; "))
}

// UntilReady works on a stack until it is ready, or until nothing goes on without
// someone, which is a *BlockedError. It may be ended at any time and begun again.
func (r *Run) UntilReady(ctx context.Context, name string) error {
	told := map[string]string{}
	for {
		stack, again, err := r.step(ctx, name)
		if err != nil {
			return interrupted(ctx, stack, err)
		}
		current := stack.Status.ObservedGeneration == stack.Generation
		if current {
			r.tell(stack, told)
		}
		switch {
		case current && condition.IsTrue(stack.Status.Conditions, condition.Ready):
			return nil
		case current:
			approved, err := r.approve(ctx, stack)
			if err != nil {
				return err
			}
			if blocked := blockedBy(stack); blocked != nil && !approved {
				return blocked
			}
		}
		if err := pause(ctx, again); err != nil {
			return interrupted(ctx, stack, err)
		}
	}
}

// UntilGone works on a deleted stack until it is gone.
func (r *Run) UntilGone(ctx context.Context, name string) error {
	last := ""
	for {
		stack, again, err := r.step(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return interrupted(ctx, stack, err)
		}
		if ready := condition.Find(stack.Status.Conditions, condition.Ready); ready != nil && ready.Reason == condition.ReasonTerminating {
			// What stays is said once, in the end.
			if line, _, _ := strings.Cut(ready.Message, "; definitions, with all objects"); line != last {
				last = line
				r.Report(line)
			}
		}
		if err := pause(ctx, again); err != nil {
			return interrupted(ctx, stack, err)
		}
	}
}

// step reads a stack, lets a step be made, and gives the stack as it is then.
func (r *Run) step(ctx context.Context, name string) (*platformv1alpha1.PlatformStack, time.Duration, error) {
	stack := &platformv1alpha1.PlatformStack{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, stack); err != nil {
		return nil, 0, err
	}
	again, err := r.Step(ctx, stack.DeepCopy())
	if apierrors.IsConflict(err) {
		return stack, lookAgain, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return stack, 0, err
	}
	return stack, again, r.Client.Get(ctx, client.ObjectKey{Name: name}, stack)
}

// tell reports the components that stand otherwise than before.
func (r *Run) tell(stack *platformv1alpha1.PlatformStack, told map[string]string) {
	for _, each := range stack.Status.Components {
		if each.Phase != platformv1alpha1.PhaseReady && each.Reason == condition.ReasonReady {
			continue // it is as it shall be, and is said to be so in a moment
		}
		line := fmt.Sprintf("%s: %s", each.Name, each.Phase)
		switch about := waitsFor(each); {
		case len(each.WaitsFor) > 0:
			line += " for " + about
		case about != "":
			line += ": " + about
		}
		if each.Phase == platformv1alpha1.PhaseReady && each.Version != "" {
			line += " (" + each.Version + ")"
		}
		if told[each.Name] != line {
			told[each.Name] = line
			r.Report(line)
		}
	}
}

// approve approves what waits for it and may go. It reports whether anything does.
func (r *Run) approve(ctx context.Context, stack *platformv1alpha1.PlatformStack) (bool, error) {
	for _, each := range stack.Status.Components {
		if each.Phase != platformv1alpha1.PhaseAwaitingApproval || each.Approval == nil || !slices.Contains(r.Approve, each.Name) {
			continue
		}
		for _, change := range each.Approval.Changes {
			r.Report(fmt.Sprintf("%s: approved: %s", each.Name, change))
		}
		err := approve(ctx, r.Client, stack, each.Name, each.Approval.Digest)
		return true, ignoreConflict(err)
	}
	return false, nil
}

// ignoreConflict lets what was changed meanwhile be looked at again.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// blockedBy says why a stack doesn't go on without someone; nil while anything does.
func blockedBy(stack *platformv1alpha1.PlatformStack) *BlockedError {
	stuck := map[string]bool{}
	blocked := &BlockedError{Name: stack.Name}
	waiting := []platformv1alpha1.ComponentStatus{}
	for _, each := range stack.Status.Components {
		switch {
		case each.Phase == platformv1alpha1.PhaseReady, each.Phase == platformv1alpha1.PhaseLeft:
		case needsSomeone(each):
			stuck[each.Name] = true
			blocked.Lines = append(blocked.Lines, each.Name+": "+each.Message)
		default:
			waiting = append(waiting, each)
		}
	}
	// What waits for what is stuck is stuck, too: no more rounds than components.
	for range waiting {
		waiting = slices.DeleteFunc(waiting, func(each platformv1alpha1.ComponentStatus) bool {
			stuck[each.Name] = slices.ContainsFunc(each.WaitsFor, func(name string) bool { return stuck[name] })
			return stuck[each.Name]
		})
	}
	if len(waiting) > 0 || len(stack.Status.Components) < len(stack.Spec.Components) {
		if len(stack.Status.Components) > 0 {
			return nil
		}
		// A fault of the whole: no component was looked at.
		if condition.IsTrue(stack.Status.Conditions, condition.Stalled) {
			if ready := condition.Find(stack.Status.Conditions, condition.Ready); ready != nil {
				return &BlockedError{Name: stack.Name, Lines: []string{ready.Message}}
			}
		}
		return nil
	}
	if len(blocked.Lines) == 0 {
		return nil
	}
	return blocked
}

// needsSomeone reports whether a component doesn't go on by itself.
func needsSomeone(each platformv1alpha1.ComponentStatus) bool {
	switch each.Phase { //nolint:exhaustive // the others are on their way
	case platformv1alpha1.PhaseFailed, platformv1alpha1.PhaseAwaitingApproval:
		return true
	case platformv1alpha1.PhaseRolledBack:
		return each.Reason != release.ReasonRollingBack
	}
	return each.Reason == condition.ReasonForbidden || each.Reason == reasonSourceNotFound
}

// reasonSourceNotFound is the engine's reason where a Secret or ConfigMap is missing.
const reasonSourceNotFound = "SourceNotFound"

// pause waits, but never long: nothing tells this program of changes.
func pause(ctx context.Context, again time.Duration) error {
	if again <= 0 || again > lookAgain {
		again = lookAgain
	}
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// interrupted says how to go on where the user, or the time, has ended the work.
func interrupted(ctx context.Context, stack *platformv1alpha1.PlatformStack, err error) error {
	if ctx.Err() == nil {
		return err
	}
	why := "it was interrupted"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = "its time is over"
	}
	if stack == nil {
		return fmt.Errorf("%s; the same command goes on where it was", why)
	}
	if ready := condition.Find(stack.Status.Conditions, condition.Ready); ready != nil && ready.Status != "True" {
		why += " (" + ready.Message + ")"
	}
	return fmt.Errorf("PlatformStack %s isn't done yet: %s; the same command goes on where it was", stack.Name, why)
}
