package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
)

// Apply makes the cluster hold exactly the wanted objects of this owner. It may
// die after any write: the next pass finishes. The result tells what was done
// even beside an error. Errors are condition's: a Wait, a Stop, or what is to
// be retried; several are joined in apply order. Wanted objects aren't changed.
//
// The caller runs one pass for each owner at a time.
func (e *Engine) Apply(ctx context.Context, owner Owner, inventory Inventory, wanted []*unstructured.Unstructured) (Result, error) {
	who, items, err := e.prepare(owner, wanted)
	if err == nil {
		err = who.exists()
	}
	if err != nil {
		return Result{}, err
	}
	refs := refsOf(items)
	old, err := inventory.Load(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("load the inventory of %s: %w", who.ref.Display(), err)
	}
	stored, err := save(ctx, inventory, old, object.Union(old, refs))
	if err != nil {
		return Result{}, fmt.Errorf("record what is made for %s: %w", who.ref.Display(), err)
	}

	p := &pass{engine: e, owner: who}
	p.apply(ctx, items)
	if len(p.failures) > 0 {
		return p.result, errors.Join(p.failures...)
	}
	survivors := p.remove(ctx, object.Difference(old, refs))
	if len(survivors) > 0 {
		p.result.lookAgain(lookSoon)
	}
	if _, err := save(ctx, inventory, stored, object.Union(survivors, refs)); err != nil {
		p.failures = append(p.failures, fmt.Errorf("record what was made for %s: %w", who.ref.Display(), err))
	}
	return p.result, errors.Join(p.failures...)
}

// item is one wanted object.
type item struct {
	ref    object.Ref
	wanted *unstructured.Unstructured
}

// prepare sorts and checks the wanted objects: step 1.
func (e *Engine) prepare(owner Owner, wanted []*unstructured.Unstructured) (identity, []item, error) {
	who, err := e.identify(owner)
	if err != nil {
		return who, nil, err
	}
	items, err := sortItems(wanted)
	return who, items, err
}

func sortItems(wanted []*unstructured.Unstructured) ([]item, error) {
	items := make([]item, 0, len(wanted))
	for _, obj := range wanted {
		ref := object.Of(obj)
		if err := ref.Validate(); err != nil {
			return nil, condition.Stop(condition.ReasonInvalidObject, "%w", err)
		}
		items = append(items, item{ref: ref, wanted: obj})
	}
	slices.SortFunc(items, func(a, b item) int { return object.Compare(a.ref, b.ref) })
	for i := 1; i < len(items); i++ {
		if items[i-1].ref.Identity() == items[i].ref.Identity() {
			return nil, condition.Stop(condition.ReasonInvalidObject,
				"%s is wanted twice; give one of them another name", items[i].ref.Display())
		}
	}
	return items, nil
}

func refsOf(items []item) []object.Ref {
	refs := make([]object.Ref, len(items))
	for i, each := range items {
		refs[i] = each.ref
	}
	return refs
}

// save writes the inventory unless it is stored already.
func save(ctx context.Context, inventory Inventory, stored, refs []object.Ref) ([]object.Ref, error) {
	sorted := slices.Clone(stored)
	object.Sort(sorted)
	if slices.Equal(sorted, refs) {
		return refs, nil
	}
	return refs, inventory.Save(ctx, refs)
}

// pass is one run for one owner: what it has done so far.
type pass struct {
	engine   *Engine
	owner    identity
	result   Result
	failures []error
}

// apply is step 3: the foundations, until they are served, then the rest.
func (p *pass) apply(ctx context.Context, items []item) {
	rest := slices.IndexFunc(items, func(i item) bool { return !i.ref.IsFoundation() })
	if rest < 0 {
		rest = len(items)
	}
	for _, each := range items[:rest] {
		p.one(ctx, each)
	}
	pending := p.establish(ctx)
	for _, each := range items[rest:] {
		if pending[each.ref.GroupKind()] {
			p.note(each.ref, Skipped, "its kind isn't served yet")
			continue
		}
		p.one(ctx, each)
	}
}

// one applies one object and keeps what came of it. A failure leaves the others
// alone.
func (p *pass) one(ctx context.Context, each item) {
	done := p.engine.applyOne(ctx, p.owner, each)
	if done.live != nil {
		p.result.Live = append(p.result.Live, done.live)
	}
	if done.err != nil {
		p.fail(each.ref, done.err)
		return
	}
	p.note(each.ref, done.action, done.message)
}

// note keeps what became of an object; what is noted last of it stands.
func (p *pass) note(ref object.Ref, action Action, message string) {
	change := Change{Object: ref, Action: action, Message: message}
	for i := range p.result.Changes {
		if p.result.Changes[i].Object == ref {
			p.result.Changes[i] = change
			return
		}
	}
	p.result.Changes = append(p.result.Changes, change)
}

func (p *pass) fail(ref object.Ref, err error) {
	p.failures = append(p.failures, err)
	p.result.lookAgain(lookAfter(err))
	p.note(ref, Failed, err.Error())
}

// definesKind is the kind that a custom resource definition defines.
func definesKind(definition *unstructured.Unstructured) schema.GroupKind {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}
}
