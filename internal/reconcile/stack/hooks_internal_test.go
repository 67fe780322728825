package stack

import (
	"maps"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestIsMerged: a merge patch changes nothing exactly where it is merged.
func TestIsMerged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live, patch := content(t, 3, false), content(t, 3, true)
		after := merged(live, patch)
		if same := reflect.DeepEqual(any(live), after); same != isMerged(live, patch) {
			t.Fatalf("%v with %v is %v, and isMerged says %v", live, patch, after, !same)
		}
	})
}

// merged applies a merge patch in the words of RFC 7386, section 2.
func merged(live, patch any) any {
	wanted, is := patch.(map[string]any)
	if !is {
		return patch
	}
	made := map[string]any{}
	if content, is := live.(map[string]any); is {
		maps.Copy(made, content)
	}
	for key, value := range wanted {
		if value == nil {
			delete(made, key)
			continue
		}
		made[key] = merged(made[key], value)
	}
	return made
}

// content is a small map as JSON has it; a patch also takes away.
func content(t *rapid.T, depth int, nulls bool) map[string]any {
	made := map[string]any{}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "keys") {
		switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
		case kind == 0 && nulls:
			made[key] = nil
		case kind == 1 && depth > 0:
			made[key] = content(t, depth-1, nulls)
		case kind == 2:
			made[key] = []any{float64(rapid.IntRange(0, 1).Draw(t, "item"))}
		default:
			made[key] = rapid.SampledFrom([]any{"x", "y", 1.0, true}).Draw(t, "value")
		}
	}
	return made
}
