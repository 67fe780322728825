package reconcile

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1alpha1 "github.com/slipway-dev/slipway/api/meta/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
)

// Record is the one writer of a resource's status, in which the inventory of its
// objects lives too. It implements apply.Inventory. It serves one pass.
type Record[T client.Object, S any] struct {
	Writer client.StatusClient
	Events events.EventRecorder
	Memory *Memory[T]
	// Object is the latest version, and changes with each write.
	Object T
	// Parts give the status of a resource, and what of it is kept here.
	Parts func(T) StatusParts[S]
	// Starting is the status of a new resource, before anything was made for it.
	Starting func() S
}

// StatusParts point into a resource.
type StatusParts[S any] struct {
	Status             *S
	ObservedGeneration int64
	Conditions         []metav1.Condition
	Inventory          *[]metav1alpha1.InventoryEntry
}

// Load implements apply.Inventory.
func (r *Record[T, S]) Load(context.Context) ([]object.Ref, error) {
	var refs []object.Ref
	for _, entry := range *r.Parts(r.Object).Inventory {
		refs = append(refs, object.Ref(entry))
	}
	return refs, nil
}

// Save implements apply.Inventory. The first write of a new resource also says
// that work has begun.
func (r *Record[T, S]) Save(ctx context.Context, refs []object.Ref) error {
	return r.change(ctx, func(parts StatusParts[S]) {
		if parts.ObservedGeneration == 0 {
			*parts.Status = r.Starting()
		}
		*parts.Inventory = nil
		for _, ref := range refs {
			*parts.Inventory = append(*parts.Inventory, metav1alpha1.InventoryEntry(ref))
		}
	})
}

// Write replaces the status, and keeps the inventory that is in it.
func (r *Record[T, S]) Write(ctx context.Context, status S) error {
	return r.change(ctx, func(parts StatusParts[S]) { *parts.Status = status })
}

func (r *Record[T, S]) change(ctx context.Context, change func(StatusParts[S])) error {
	before := r.Object
	written, err := WriteStatus(ctx, r.Writer, before, func(o T) { change(r.Parts(o)) })
	if err != nil || client.Object(written) == client.Object(before) {
		return err
	}
	Announce(r.Events, written, r.Parts(before).Conditions, r.Parts(written).Conditions)
	r.Object = written
	r.Memory.Remember(written)
	return nil
}
