package reconcile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/object"
)

// definition offers versions, each served unless it begins with a hyphen.
func definition(established string, versions ...string) *unstructured.Unstructured {
	var offered []any
	for _, version := range versions {
		name, served := version, true
		if version[0] == '-' {
			name, served = version[1:], false
		}
		offered = append(offered, map[string]any{"name": name, "served": served})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"versions": offered},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": established},
		}},
	}}
}

var rules = object.OptionalKind{Group: "networking.istio.io", Resource: "destinationrules", Kind: "DestinationRule", Versions: []string{"v1", "v1beta1"}}

func TestServedVersion(t *testing.T) {
	deleted := definition("True", "v1")
	deleted.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
	bare := definition("True", "v1")
	delete(bare.Object, "status")
	for name, test := range map[string]struct {
		definition *unstructured.Unstructured
		want       string
	}{
		"the preferred one":              {definition("True", "v1alpha3", "v1beta1", "v1"), "v1"},
		"the other one":                  {definition("True", "v1alpha3", "v1beta1"), "v1beta1"},
		"the preferred one isn't served": {definition("True", "-v1", "v1beta1"), "v1beta1"},
		"none that can be written":       {definition("True", "v1alpha3"), ""},
		"not established":                {definition("False", "v1"), ""},
		"no status yet":                  {bare, ""},
		"on its way out":                 {deleted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := versionOf(rules, test.definition); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestServedConcerns(t *testing.T) {
	served := &Served{Kinds: []object.OptionalKind{rules}}
	if !served.Concerns("destinationrules.networking.istio.io") || served.Concerns("others.networking.istio.io") {
		t.Error("it minds the wrong definitions")
	}
}
