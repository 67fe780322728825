package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestMatters: of all that changes in a namespace, only what belongs to a tree
// lets it be read again.
func TestMatters(t *testing.T) {
	tree := &changes{
		names:  map[string]bool{"chat": true, "chat-7d-x": true, "with.dot": true},
		owners: map[types.UID]bool{"replica-set": true},
	}
	owned := []metav1.OwnerReference{{UID: "other"}, {UID: "replica-set"}}
	for _, test := range []struct {
		name, kind string
		object     metav1.ObjectMeta
		want       bool
	}{
		{"in the tree", "Service", metav1.ObjectMeta{Name: "chat"}, true},
		{"not in it", "Service", metav1.ObjectMeta{Name: "chatter"}, false},
		{"a new pod", "Pod", metav1.ObjectMeta{Name: "chat-7d-y", OwnerReferences: owned}, true},
		{"another's pod", "Pod", metav1.ObjectMeta{Name: "b-7d-y", OwnerReferences: owned[:1]}, false},
		{"an event", "Event", metav1.ObjectMeta{Name: "chat-7d-x.17f8a9c2"}, true},
		{"an event of a name with a dot", "Event", metav1.ObjectMeta{Name: "with.dot.17f8a9c2"}, true},
		{"another's event", "Event", metav1.ObjectMeta{Name: "b-7d-x.17f8a9c2"}, false},
		{"no event", "ConfigMap", metav1.ObjectMeta{Name: "chat.17f8a9c2"}, false},
	} {
		object := &metav1.PartialObjectMetadata{ObjectMeta: test.object}
		kept, err := least(object)
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.matters(test.kind, kept.(metav1.Object)); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if !(&changes{}).matters("LLMModel", &metav1.ObjectMeta{Name: "any"}) {
		t.Error("in a listing, everything of the listed kinds matters")
	}
}
