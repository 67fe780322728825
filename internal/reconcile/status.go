package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteStatus changes a copy of an object, writes the status subresource if that
// made a difference, and returns the object as it then is. It is an update and
// not a patch: it carries the resource version, so that a status that was worked
// out from an older object is refused as a conflict (an inventory written over a
// later one would forget objects), and it costs the API server less.
func WriteStatus[T client.Object](ctx context.Context, writer client.StatusClient, current T, change func(T)) (T, error) {
	changed := current.DeepCopyObject().(T)
	change(changed)
	if equality.Semantic.DeepEqual(current, changed) {
		return current, nil
	}
	if err := writer.Status().Update(ctx, changed); err != nil {
		return current, err
	}
	return changed, nil
}
