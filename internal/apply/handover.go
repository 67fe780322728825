package apply

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/object"
)

// handoverSuffix is what the field manager that keeps replicas for an
// autoscaler adds to ours.
const handoverSuffix = "-handover"

// replicasToHandOver gives the replicas of a live object that we own and no
// longer render, since an autoscaler is to set them. To merely leave the field
// out would make the server reset it to its default of one.
func (e *Engine) replicasToHandOver(wanted *unstructured.Unstructured, live *snapshot) (int64, bool) {
	if live == nil {
		return 0, false
	}
	if _, rendered, _ := unstructured.NestedFieldNoCopy(wanted.Object, "spec", "replicas"); rendered {
		return 0, false
	}
	replicas, there, err := unstructured.NestedInt64(live.Object, "spec", "replicas")
	return replicas, there && err == nil && ownsReplicas(live.managed, string(e.manager))
}

func ownsReplicas(entries []metav1.ManagedFieldsEntry, manager string) bool {
	for _, entry := range entries {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && fields.Spec["f:replicas"] != nil {
			return true
		}
	}
	return false
}

// handOver makes a second manager own the replicas as they are, so that they
// stay when our next apply lets go of them and until the autoscaler sets them.
// To be interrupted after it does no harm: it is done again and changes nothing.
func (e *Engine) handOver(ctx context.Context, ref object.Ref, live *snapshot, replicas int64) error {
	keep := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas}}}
	keep.SetGroupVersionKind(ref.GroupVersionKind())
	keep.SetNamespace(ref.Namespace)
	keep.SetName(ref.Name)
	keep.SetUID(live.GetUID())
	return e.send(ctx, ref, keep, e.manager+client.FieldOwner(handoverSuffix))
}
