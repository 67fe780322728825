package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/object"
)

// TestNamedOfAnLlmd: the objects of its releases in their order, then what was made
// beside them; what isn't an object is left out.
func TestNamedOfAnLlmd(t *testing.T) {
	live := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`
apiVersion: components.platform.opendatahub.io/v1alpha1
kind: Llmd
metadata: {name: default-llm-d}
status:
  modelService:
    objects: [{group: apps, version: v1, kind: Deployment, namespace: llm-d, name: decode}]
  infra:
    objects: [{version: v1, kind: Service, namespace: llm-d, name: gateway}, {version: v1, kind: Service}]
  inventory: [{group: monitoring.coreos.com, version: v1, kind: PrometheusRule, namespace: llm-d, name: llmd-rules}]
`), live)
	if err != nil {
		t.Fatal(err)
	}
	want := []object.Ref{
		{Version: "v1", Kind: "Service", Namespace: "llm-d", Name: "gateway"},
		{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "llm-d", Name: "decode"},
		{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule", Namespace: "llm-d", Name: "llmd-rules"},
	}
	if diff := cmp.Diff(want, named(live)); diff != "" {
		t.Error(diff)
	}
}
