package object

import (
	"encoding/json"
	"reflect"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
)

// document is any JSON-like value, as unstructured objects hold it.
func document() *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](false),
		rapid.Map(rapid.StringMatching(`[a-c]{0,2}`), func(s string) any { return s }),
		rapid.Map(rapid.Int64Range(-3, 3), func(i int64) any { return i }),
		rapid.Map(rapid.Float64Range(-3, 3), func(f float64) any { return f }),
	)
	return rapid.Deferred(func() *rapid.Generator[any] {
		inner := rapid.OneOf(scalar, rapid.Deferred(document))
		return rapid.OneOf(
			scalar,
			rapid.Map(rapid.SliceOfN(inner, 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-c]{0,2}`), inner, 0, 3), func(m map[string]any) any { return m }),
		)
	})
}

// TestHashIsThatOfTheJSON: two values have the same hash exactly when their JSON
// is the same document.
func TestHashIsThatOfTheJSON(t *testing.T) {
	through := func(t *rapid.T, value any) any {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var plain any
		if err := utiljson.Unmarshal(raw, &plain); err != nil {
			t.Fatal(err)
		}
		return plain
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := document().Draw(t, "a"), document().Draw(t, "b")
		plainA, plainB := through(t, a), through(t, b)
		if Hash(a) != Hash(plainA) {
			t.Fatalf("%#v has another hash than its JSON", a)
		}
		if same := reflect.DeepEqual(plainA, plainB); same != (Hash(a) == Hash(b)) {
			t.Fatalf("%#v and %#v: same is %v, same hash is %v", a, b, same, !same)
		}
	})
}

func TestHashOfTypedValues(t *testing.T) {
	type spec struct {
		Name  string `json:"name"`
		Count int    `json:"count,omitempty"`
	}
	if Hash(spec{Name: "a", Count: 2}) != Hash(map[string]any{"name": "a", "count": int64(2)}) {
		t.Error("a struct has another hash than its JSON")
	}
	if Hash(spec{Name: "a"}) == Hash(spec{Name: "b"}) {
		t.Error("different structs have one hash")
	}
	one, other := make(chan int), make(chan int)
	if Hash(one) != Hash(other) || Hash(one) == Hash(nil) {
		t.Error("what has no JSON form doesn't count as its type")
	}
}

// TestHashStays: the hash is in annotations that roll pods; a release that
// changed it would restart every pod.
func TestHashStays(t *testing.T) {
	got := Hash(map[string]any{"a": []any{int64(1), 1.5, "x", nil, true}, "b": map[string]any{}}).String()
	if want := "11f5d3e65b9f823866c7139744aabf40"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestStringsAreNotRunTogether: boundaries between values count.
func TestStringsAreNotRunTogether(t *testing.T) {
	two := func(a, b string) Digest {
		h := NewHasher()
		h.Value(a)
		h.Value(b)
		return h.Sum()
	}
	if two("a", "bc") == two("ab", "c") {
		t.Error("the boundary doesn't count")
	}
}
