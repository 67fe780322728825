package platformstack_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// TestLeversNameWhatTheUserWrites demands, for each source, words that lead to the
// field of the stack that mends a pod.
func TestLeversNameWhatTheUserWrites(t *testing.T) {
	workload := func(kind string, containers ...string) *unstructured.Unstructured {
		list := []any{}
		for _, each := range containers {
			list = append(list, map[string]any{"name": each})
		}
		made := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		made.SetName("server")
		if err := unstructured.SetNestedSlice(made.Object, list, "spec", "template", "spec", "containers"); err != nil {
			t.Fatal(err)
		}
		return made
	}
	bundle := platformv1alpha1.Source{Bundle: &platformv1alpha1.BundleSource{}}
	for _, each := range []struct {
		name       string
		source     platformv1alpha1.Source
		workload   *unstructured.Unstructured
		image, cpu string
		ofProxy    string
	}{
		{
			"a bundle", bundle, workload("Deployment", "manager"),
			"deployments.server.containers.manager.image in the values of component one",
			"deployments.server.containers.manager.resources.requests.cpu in the values of component one", "",
		},
		{
			"a bundle with two containers", bundle, workload("Deployment", "manager", "proxy"),
			"deployments.server.containers in the values of component one",
			"deployments.server.containers in the values of component one",
			"deployments.server.containers.proxy.image in the values of component one",
		},
		{
			"a bundle's other workload", bundle, workload("DaemonSet", "manager"),
			"the image in the bundle of component one", "resources.requests.cpu in the bundle of component one", "",
		},
		{
			"a chart", platformv1alpha1.Source{Chart: &platformv1alpha1.ChartSource{}}, workload("Deployment", "manager"),
			"the image in the values of component one", "resources.requests.cpu in the values of component one", "",
		},
		{
			"manifests", platformv1alpha1.Source{Manifests: &platformv1alpha1.ManifestsSource{}}, workload("Deployment", "manager"),
			"the image in the manifests of component one", "resources.requests.cpu in the manifests of component one", "",
		},
	} {
		levers := platformstack.Levers(&platformv1alpha1.Component{Name: "one", Source: each.source}, each.workload)
		if levers.Image != each.image || levers.CPU != each.cpu || levers.Images["proxy"] != each.ofProxy {
			t.Errorf("%s: %q, %q, %q", each.name, levers.Image, levers.CPU, levers.Images["proxy"])
		}
	}
}
