package bed

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/object"
)

// Namespace makes a namespace for one test. Nothing removes it: an API server
// without a controller manager never ends one.
func Namespace(t testing.TB, c client.Client) string {
	t.Helper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bed-"}}
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	return made.Name
}

// inventoryKey is where an owner's ConfigMap keeps its inventory.
const inventoryKey = "inventory"

// NewOwner makes an owner: a ConfigMap that plays a custom resource.
func NewOwner(t testing.TB, c client.Client, namespace, name string) *corev1.ConfigMap {
	t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	return owner
}

// Inventory keeps the list in its owner, as a controller keeps it in a status:
// a patch with the resourceVersion that was read.
type Inventory struct {
	Client client.Client
	// Owner as it was read last. Load reads it again unless Stale.
	Owner *corev1.ConfigMap
	// Stale loads from Owner as it is, as from a cache.
	Stale bool
}

// Load implements apply.Inventory.
func (i *Inventory) Load(ctx context.Context) ([]object.Ref, error) {
	if !i.Stale {
		if err := i.Client.Get(ctx, client.ObjectKeyFromObject(i.Owner), i.Owner); err != nil {
			return nil, err
		}
	}
	text := i.Owner.Data[inventoryKey]
	if text == "" {
		return nil, nil
	}
	var refs []object.Ref
	return refs, json.Unmarshal([]byte(text), &refs)
}

// Save implements apply.Inventory.
func (i *Inventory) Save(ctx context.Context, refs []object.Ref) error {
	text, err := json.Marshal(refs)
	if err != nil {
		return err
	}
	changed := i.Owner.DeepCopy()
	changed.Data = map[string]string{inventoryKey: string(text)}
	if len(refs) == 0 {
		changed.Data = nil
	}
	patch := client.MergeFromWithOptions(i.Owner.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := i.Client.Patch(ctx, changed, patch); err != nil {
		return err
	}
	i.Owner = changed
	return nil
}
