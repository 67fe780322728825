package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchStatus changes a copy of an object, writes the status subresource if that
// made a difference, and returns the object as it then is. The patch carries the
// resource version: a status that was worked out from an older object is refused
// as a conflict, because an inventory written over a later one would forget
// objects.
func PatchStatus[T client.Object](ctx context.Context, writer client.StatusClient, current T, change func(T)) (T, error) {
	changed := current.DeepCopyObject().(T)
	change(changed)
	if equality.Semantic.DeepEqual(current, changed) {
		return current, nil
	}
	patch := client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})
	if err := writer.Status().Patch(ctx, changed, patch); err != nil {
		return current, err
	}
	return changed, nil
}
