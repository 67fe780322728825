package llmd_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// FuzzValues: whatever is written as values or as a path, there is a map or a
// sentence, and the map can be written down.
func FuzzValues(f *testing.F) {
	f.Add(`{"a.b[1]":"x"}`, "a: 1", "c.d")
	f.Add(`{"a":{"b":[1]}}`, "[", `a\.b[0].c`)
	f.Fuzz(func(t *testing.T, inline, file, path string) {
		resource := &componentsv1alpha1.Llmd{}
		reference := componentsv1alpha1.ValuesReference{Kind: "ConfigMap", Name: "x"}
		single := reference
		single.TargetPath = path
		resource.Spec.Infra = &componentsv1alpha1.ChartSpec{
			Values:     &runtime.RawExtension{Raw: []byte(inline)},
			ValuesFrom: []componentsv1alpha1.ValuesReference{reference, single},
		}
		made := llmd.Releases(llmd.Input{Llmd: resource, Sources: map[llmd.Source]llmd.Data{
			{Kind: "ConfigMap", Namespace: "llm-d", Name: "x"}: {"values.yaml": []byte(file)},
		}})[0]
		if made.Fault == nil {
			if _, err := json.Marshal(made.Values); err != nil || made.Values == nil {
				t.Fatalf("%v can't be written: %v", made.Values, err)
			}
		}
	})
}
