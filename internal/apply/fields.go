package apply

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/object"
)

// ownFields is the hash of the fields of a live object that a manager owns by
// server-side apply, with their values. It changes when one of them is changed,
// deleted or taken over, and by nothing else: not by a status, by replicas that
// an autoscaler owns, or by a container that someone injected.
func ownFields(content map[string]any, entries []metav1.ManagedFieldsEntry, manager string) object.Digest {
	h := object.NewHasher()
	for i := range entries {
		entry := &entries[i]
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply ||
			entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue // as if we owned nothing: the object is applied again
		}
		h.Value(entry.APIVersion)
		project(h, fields, content)
	}
	return h.Sum()
}

// project writes the paths of a FieldsV1 set and the values found there. Its
// keys are "." for the thing itself, "f:" and a field's name, "k:" and the
// keys of a list's element, "v:" and the value of a set's element, "i:" and an
// index (sigs.k8s.io/structured-merge-diff, fieldpath/serialize-pe.go).
func project(h *object.Hasher, fields map[string]any, value any) {
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		h.Value(key)
		if key == "." {
			h.Value(!isEmpty(value))
			continue
		}
		at := step(key, value)
		inner, _ := fields[key].(map[string]any)
		if len(inner) > 0 {
			project(h, inner, at)
			continue
		}
		if isEmpty(at) {
			at = nil // typed caches drop what is empty
		}
		h.Value(at)
	}
}

// step follows one path element, to nil where there is nothing.
func step(key string, value any) any {
	kind, rest, _ := strings.Cut(key, ":")
	if kind == "f" {
		content, _ := value.(map[string]any)
		return content[rest]
	}
	list, _ := value.([]any)
	var want any
	if json.Unmarshal([]byte(rest), &want) != nil {
		return nil
	}
	switch kind {
	case "k":
		keys, _ := want.(map[string]any)
		for _, each := range list {
			if hasKeys(each, keys) {
				return each
			}
		}
	case "v":
		for _, each := range list {
			if object.Hash(each) == object.Hash(want) {
				return each
			}
		}
	case "i":
		if index, ok := want.(float64); ok && index >= 0 && int(index) < len(list) {
			return list[int(index)]
		}
	}
	return nil
}

func hasKeys(element any, keys map[string]any) bool {
	content, ok := element.(map[string]any)
	if !ok {
		return false
	}
	for key, want := range keys {
		if !sameScalar(content[key], want) {
			return false
		}
	}
	return true
}

// sameScalar compares a live value with one that was decoded from a path, where
// every number is a float64.
func sameScalar(live, want any) bool {
	if number, ok := live.(int64); ok {
		float, ok := want.(float64)
		return ok && float64(number) == float
	}
	switch live.(type) {
	case string, bool, float64, nil:
		return live == want
	default:
		return false
	}
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return false
	}
}
