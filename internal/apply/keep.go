package apply

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/object"
)

// This file is for objects whose record someone else keeps, such as a Helm
// release: they are applied as they are, without an owner's mark, an inventory
// or pruning. Whether they may be written at all is the caller's to know.

// Keep makes the cluster hold exactly these objects, in apply order, custom
// resource definitions until they are served. The rest is as with Apply.
func (e *Engine) Keep(ctx context.Context, wanted []*unstructured.Unstructured) (Result, error) {
	items, err := sortItems(wanted)
	if err != nil {
		return Result{}, err
	}
	p := &pass{engine: e, owner: identity{kept: true}}
	p.apply(ctx, items)
	return p.result, errors.Join(p.failures...)
}

// Look is a live object. Own is the digest of the fields that the engine's field
// manager owns, with their values: it changes when someone changes one of them.
type Look struct {
	Object *unstructured.Unstructured // without managedFields; nil: it isn't there
	Own    object.Digest
	// Shared is true when another manager owns fields, its status left out.
	Shared bool
}

// Look reads an object from the cache, and from the server where the cache
// doesn't have it or newest is true.
func (e *Engine) Look(ctx context.Context, ref object.Ref, newest bool) (Look, error) {
	read := e.read
	if newest {
		read = e.readServer
	}
	live, err := read(ctx, ref)
	if err != nil || live == nil {
		return Look{}, err
	}
	shared := slices.ContainsFunc(live.managed, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "" && entry.Manager != string(e.manager)
	})
	return Look{Object: live.Unstructured, Own: e.ownFields(live), Shared: shared}, nil
}

// Foresee gives an object as it would be if it were applied over a live one, by
// a dry run on the server. It writes nothing. Essence makes the two comparable.
func (e *Engine) Foresee(ctx context.Context, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	after := wanted.DeepCopy()
	if err := e.dryRun(ctx, after, e.manager, client.DryRunAll, client.ForceOwnership); err != nil {
		return nil, explain(object.Of(wanted), err)
	}
	return after, nil
}

// Discard deletes exactly the object that was read: another one of its name is
// left alone. One that is gone is no error.
func (e *Engine) Discard(ctx context.Context, ref object.Ref, live *unstructured.Unstructured, propagation metav1.DeletionPropagation) error {
	err := e.delete(ctx, ref, &snapshot{Unstructured: live}, propagation)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Essence is a copy of an object without what the server keeps of it: status,
// managedFields, versions, UID and creation time.
func Essence(obj *unstructured.Unstructured) *unstructured.Unstructured { return essence(obj) }
