// Package reconcile holds what every controller's Reconcile has in common: one
// status patch at the end, the inventory that lives in a status, events that
// mark changes, and a memory of what was just written. It knows no kind, and it
// decides nothing.
package reconcile

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Memory remembers the last version of an object that this process wrote until
// its cache has caught up. Without it a reconcile that follows closely on
// another would act on the status before the last write, and conflict with
// itself. It holds at most one object for each key that was written in the last
// moments: an entry goes when the cache shows it or a later version.
type Memory[T client.Object] struct {
	mu      sync.Mutex
	written map[types.NamespacedName]T
}

// Remember keeps an object as the API server returned it, unless a later version
// of it is kept already.
func (m *Memory[T]) Remember(written T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.written == nil {
		m.written = map[types.NamespacedName]T{}
	}
	key := client.ObjectKeyFromObject(written)
	if known, is := m.written[key]; is && known.GetUID() == written.GetUID() && older(written, known) {
		return
	}
	m.written[key] = written
}

// Forget drops what is kept for a key: the object is gone.
func (m *Memory[T]) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.written, key)
}

// Latest returns the later one of a cached object and what was written of it. It
// returns a copy that the caller may change.
func (m *Memory[T]) Latest(cached T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(cached)
	written, known := m.written[key]
	if !known {
		return cached
	}
	if written.GetUID() == cached.GetUID() && older(cached, written) {
		return written.DeepCopyObject().(T)
	}
	delete(m.written, key)
	return cached
}

// Peek is Latest for one who only reads: what it returns must not be changed.
func (m *Memory[T]) Peek(cached T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	written, known := m.written[client.ObjectKeyFromObject(cached)]
	if known && written.GetUID() == cached.GetUID() && older(cached, written) {
		return written
	}
	return cached
}

// older compares resource versions as numbers, which Kubernetes allows from 1.35
// on (KEP-5504); versions that can't be compared count as not older.
func older(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}
