package apply

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"

	"github.com/slipway-dev/slipway/internal/object"
)

// record is what is remembered of an object when its last apply was accepted.
type record struct {
	intent  object.Digest // of what was wanted, and by whom
	uid     types.UID
	version string        // resourceVersion last seen with these fields
	fields  object.Digest // of the live fields that we own (fields.go)
	// written is the object as the server returned it, until the cache has it. It is
	// JSON, which takes a fraction of the memory and which the collector passes over:
	// of many resources that come at once there are thousands.
	written []byte
}

// memory is a bounded record of objects, the least recently used forgotten
// first. It saves requests; nothing depends on it.
type memory struct{ records *lru.Cache }

func newMemory(size int) *memory { return &memory{records: lru.New(size)} }

func (m *memory) get(ref object.Ref) (record, bool) {
	value, there := m.records.Get(ref.Identity())
	if !there {
		return record{}, false
	}
	return value.(record), true //nolint:forcetypeassert // the memory holds nothing else
}

func (m *memory) put(ref object.Ref, r record) { m.records.Add(ref.Identity(), r) }

func (m *memory) forget(ref object.Ref) { m.records.Remove(ref.Identity()) }

// older reports whether a was certainly written before b. Resource versions of
// one kind are numbers in the order of writes (KEP-5504); of any other form
// nothing is known.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
