package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/diagnosis"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kinds are Slipway's own, in the order in which they are listed. A cluster may
// serve any of them or none.
func kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: "platform.slipway.dev", Version: "v1alpha1", Kind: "PlatformStack"},
		{Group: "datasciencecluster.opendatahub.io", Version: "v2", Kind: "DataScienceCluster"},
		{Group: "components.platform.opendatahub.io", Version: "v1alpha1", Kind: "Llmd"},
		{Group: "infra.example.com", Version: "v1", Kind: "NvidiaGpuLlm"},
		{Group: "sim.llm-d.io", Version: "v1alpha1", Kind: "SimulatorDeployment"},
		{Group: "llm.example.com", Version: "v1alpha1", Kind: "LLMModel"},
		{Group: "llm.example.com", Version: "v1alpha1", Kind: "LLMDeployment"},
	}
}

// resolve finds the kind that a word on the command line means: a kind, its
// plural or short name, with or without its group.
func resolve(mapper meta.RESTMapper, word string) (*meta.RESTMapping, error) {
	resource := schema.ParseGroupResource(strings.ToLower(word))
	gvk, err := mapper.KindFor(resource.WithVersion(""))
	if err != nil {
		return nil, fmt.Errorf("%w; slipway status alone lists what there is", err)
	}
	return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

// levers are the words for what the user of a kind can change.
func levers(root *unstructured.Unstructured) diagnosis.Levers {
	if root.GetKind() == "LLMDeployment" {
		model, _, _ := unstructured.NestedString(root.Object, "spec", "modelRef")
		return diagnosis.LLMLevers(model)
	}
	return diagnosis.Levers{}
}
