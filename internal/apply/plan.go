package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
)

// Preview is what Apply would do to one object.
type Preview struct {
	Change
	// Before and After are the object without what the server keeps of it: status,
	// managedFields, versions, UID and creation time. Nil: it isn't there.
	Before, After *unstructured.Unstructured
}

// Plan tells what Apply would do, by a dry run on the server, defaults and
// admission included. It writes nothing. Objects that would be refused are
// Failed, with the sentence that Apply would give; all of these are joined in
// the error. The inventory may be nil for an owner that isn't in the cluster.
func (e *Engine) Plan(ctx context.Context, owner Owner, inventory Inventory, wanted []*unstructured.Unstructured) ([]Preview, error) {
	who, items, err := e.prepare(owner, wanted)
	if err != nil {
		return nil, err
	}
	var old []object.Ref
	if inventory != nil {
		if old, err = inventory.Load(ctx); err != nil {
			return nil, fmt.Errorf("load the inventory of %s: %w", who.ref.Display(), err)
		}
	}
	coming := foundationsOf(items)
	previews := make([]Preview, 0, len(items))
	var failures []error
	keep := func(ref object.Ref, preview Preview, err error) {
		preview.Object = ref
		if err != nil {
			preview.Action, preview.Message = Failed, err.Error()
			failures = append(failures, err)
		}
		previews = append(previews, preview)
	}
	for _, each := range items {
		preview, err := e.planOne(ctx, who, each, coming)
		keep(each.ref, preview, err)
	}
	for _, group := range object.TeardownGroups(object.Difference(old, refsOf(items))) {
		for _, ref := range group {
			if preview, err := e.planRemoval(ctx, who, ref); preview.Action != "" || err != nil {
				keep(ref, preview, err)
			}
		}
	}
	return previews, errors.Join(failures...)
}

// foundations are the namespaces and kinds that a plan itself would bring. A
// dry run knows nothing of them.
type foundations struct {
	namespaces map[string]bool
	kinds      map[schema.GroupKind]bool
}

func foundationsOf(items []item) foundations {
	f := foundations{namespaces: map[string]bool{}, kinds: map[schema.GroupKind]bool{}}
	for _, each := range items {
		switch {
		case each.ref.IsDefinition():
			f.kinds[definesKind(each.wanted)] = true
		case each.ref.IsFoundation():
			f.namespaces[each.ref.Name] = true
		}
	}
	return f
}

// isServed gives the client's error for a kind that it doesn't know.
func (e *Engine) isServed(ref object.Ref) error {
	_, err := e.client.RESTMapper().RESTMapping(ref.GroupKind(), ref.Version)
	return err
}

func (e *Engine) planOne(ctx context.Context, owner identity, each item, coming foundations) (Preview, error) {
	marked := owner.mark(each.wanted)
	if coming.kinds[each.ref.GroupKind()] && meta.IsNoMatchError(e.isServed(each.ref)) {
		return Preview{Change: Change{Action: Created}, After: essence(marked)}, nil
	}
	if err := e.checkScope(each); err != nil {
		return Preview{}, err
	}
	live, err := e.readServer(ctx, each.ref)
	if err != nil {
		return Preview{}, explain(each.ref, err)
	}
	preview := Preview{Change: Change{Action: Created}}
	options := []client.ApplyOption{e.manager, client.DryRunAll}
	if live != nil {
		preview.Before, preview.Action = essence(live.Unstructured), Configured
		if live.GetDeletionTimestamp() != nil {
			return preview, condition.Wait(condition.ReasonTerminating, "%s is being deleted", each.ref.Display())
		}
		if err := owner.mayApply(live.Unstructured, each.wanted); err != nil {
			return preview, err
		}
		if replicas, yes := e.replicasToHandOver(each.wanted, live); yes {
			_ = unstructured.SetNestedField(marked.Object, replicas, "spec", "replicas")
		}
		marked.SetUID(live.GetUID())
		options = append(options, client.ForceOwnership)
	}
	err = e.dryRun(ctx, marked, options...)
	_, replaceable := replaceableKinds[each.ref.GroupKind()]
	switch field := immutableField(err); {
	case apierrors.IsNotFound(err) && coming.namespaces[each.ref.Namespace]:
		preview.After = essence(marked)
		return preview, nil
	case field != "" && replaceable && live != nil:
		preview.After, preview.Message = essence(marked), fmt.Sprintf("replaced, since %s can't be changed", field)
		return preview, nil
	case err != nil:
		return preview, explain(each.ref, err)
	}
	preview.After = essence(marked)
	if live != nil && reflect.DeepEqual(preview.Before.Object, preview.After.Object) {
		preview.Action = Unchanged
	}
	return preview, nil
}

func (e *Engine) dryRun(ctx context.Context, obj *unstructured.Unstructured, options ...client.ApplyOption) error {
	ctx, cancel := context.WithTimeout(ctx, e.callTimeout)
	defer cancel()
	return e.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), options...)
}

// planRemoval gives no action for what isn't there.
func (e *Engine) planRemoval(ctx context.Context, owner identity, ref object.Ref) (Preview, error) {
	served, err := e.servedVersion(ref)
	if err != nil || served.Version == "" {
		return Preview{}, err
	}
	live, err := e.readServer(ctx, served)
	switch {
	case err != nil:
		return Preview{}, explainRemoval(ref, err)
	case live == nil:
		return Preview{}, nil
	case !owner.owns(live.Unstructured):
		return Preview{Change: Change{Action: Skipped, Message: "it no longer belongs to " + owner.ref.Display()}}, nil
	}
	return Preview{Change: Change{Action: Deleted}, Before: essence(live.Unstructured)}, nil
}

// essence is a copy of an object without what changes by itself.
func essence(obj *unstructured.Unstructured) *unstructured.Unstructured {
	plain := obj.DeepCopy()
	delete(plain.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(plain.Object, "metadata", field)
	}
	return plain
}
