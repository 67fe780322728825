package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
)

// Delete removes all that was made for an owner, in reverse order, for owners
// whose objects the garbage collector can't reach. It returns nil only when all
// of it is gone; until then it is a Wait that names what is left, and the owner
// must keep its finalizer. The inventory is read and left as it is: it goes with
// its owner.
func (e *Engine) Delete(ctx context.Context, owner Owner, inventory Inventory) (Result, error) {
	who, err := e.identify(owner)
	if err == nil {
		err = who.exists()
	}
	if err != nil {
		return Result{}, err
	}
	refs, err := inventory.Load(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("load the inventory of %s: %w", who.ref.Display(), err)
	}
	p := &pass{engine: e, owner: who}
	survivors := p.remove(ctx, refs)
	if len(survivors) > 0 && len(p.failures) == 0 {
		p.failures = append(p.failures, condition.Wait(condition.ReasonTerminating,
			"waiting until %s gone", namesOf(survivors)))
		p.result.lookAgain(lookSoon)
	}
	return p.result, errors.Join(p.failures...)
}

// namesMost bounds how many objects a message names.
const namesMost = 3

func namesOf(refs []object.Ref) string {
	names := make([]string, 0, namesMost)
	for _, ref := range refs[:min(len(refs), namesMost)] {
		names = append(names, ref.Display())
	}
	switch more := len(refs) - len(names); {
	case more > 0:
		return fmt.Sprintf("%s and %d more are", strings.Join(names, ", "), more)
	case len(names) == 1:
		return names[0] + " is"
	default:
		return strings.Join(names, ", ") + " are"
	}
}

// remove deletes objects in groups, each when the one before is gone, and
// gives those that must stay in the inventory: what is still there, and what
// wasn't tried because of it.
func (p *pass) remove(ctx context.Context, refs []object.Ref) []object.Ref {
	var survivors []object.Ref
	for _, group := range object.TeardownGroups(refs) {
		if len(survivors) > 0 {
			survivors = append(survivors, group...)
			continue
		}
		for _, ref := range group {
			gone, change, err := p.engine.removeOne(ctx, p.owner, ref)
			if err != nil {
				p.fail(ref, err)
			} else if change.Action != "" {
				p.note(ref, change.Action, change.Message)
			}
			if !gone {
				survivors = append(survivors, ref)
			}
		}
	}
	return survivors
}

// removeOne deletes an object that still carries our UID and reports whether it
// is gone, or at least none of ours. The change is empty where nothing was done.
func (e *Engine) removeOne(ctx context.Context, owner identity, ref object.Ref) (gone bool, change Change, err error) {
	e.memory.forget(ref)
	served, err := e.servedVersion(ref)
	if err != nil || served.Version == "" {
		return err == nil, Change{}, err // its kind is gone, and so is it
	}
	for attempt := range attempts {
		read := e.read
		if attempt > 0 {
			read = e.readServer
		}
		live, readErr := read(ctx, served)
		switch {
		case readErr != nil:
			return false, Change{}, explainRemoval(ref, readErr)
		case live == nil:
			return true, Change{}, nil
		case !owner.owns(live.Unstructured):
			return true, Change{Action: Skipped, Message: "it no longer belongs to " + owner.ref.Display()}, nil
		case live.GetDeletionTimestamp() != nil && !live.cached:
			return false, Change{}, nil
		case live.GetDeletionTimestamp() != nil:
			return e.isGone(ctx, served, live, Change{})
		}
		err = e.delete(ctx, served, live, metav1.DeletePropagationBackground)
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return e.isGone(ctx, served, live, Change{Action: Deleted})
		case !apierrors.IsConflict(err):
			return false, Change{}, explainRemoval(ref, err)
		}
	}
	return false, Change{}, err
}

// isGone asks the server whether a deleted object is really gone: a finalizer,
// a pod's grace period or a namespace's content may hold it.
func (e *Engine) isGone(ctx context.Context, ref object.Ref, deleted *snapshot, change Change) (bool, Change, error) {
	left, err := e.readServer(ctx, ref)
	if err != nil {
		return false, change, explainRemoval(ref, err)
	}
	return left == nil || left.GetUID() != deleted.GetUID(), change, nil
}

// servedVersion gives the reference in a version that the cluster serves: what
// the inventory names may be older than the cluster. Without any, the kind is
// gone, and the reference that it gives has no version.
func (e *Engine) servedVersion(ref object.Ref) (object.Ref, error) {
	mapping, err := e.client.RESTMapper().RESTMapping(ref.GroupKind(), ref.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = e.client.RESTMapper().RESTMapping(ref.GroupKind())
	}
	switch {
	case meta.IsNoMatchError(err):
		return object.Ref{}, nil
	case err != nil:
		return object.Ref{}, explainRemoval(ref, err)
	}
	ref.Version = mapping.GroupVersionKind.Version
	return ref, nil
}

func explainRemoval(ref object.Ref, err error) error {
	if apierrors.IsForbidden(err) {
		return waitLater(condition.ReasonForbidden,
			"%s can't be deleted: Slipway isn't allowed to (%s); grant it that, or delete it yourself", ref.Display(), detail(err))
	}
	return condition.Retry(condition.ReasonPruneFailed, "%s couldn't be deleted: %w", ref.Display(), err)
}
