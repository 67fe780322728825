package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/llmd"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// kind is what a status knows of one of Slipway's kinds beyond its inventory and
// its conditions, which all of them have.
type kind struct {
	gvk schema.GroupVersionKind
	// refers lists what a resource's spec names and what is shown below it; nil:
	// nothing.
	refers func(*unstructured.Unstructured) []object.Ref
	// levers are the words for what the kind's user can change of a workload that
	// was made for a resource; nil: the names of a pod's fields.
	levers func(root, workload *unstructured.Unstructured) diagnosis.Levers
}

// kinds lists Slipway's own, in the order in which they are shown. A cluster may
// serve any of them or none.
func kinds() []kind {
	return []kind{
		{
			gvk:    schema.GroupVersionKind{Group: "platform.slipway.dev", Version: "v1alpha1", Kind: "PlatformStack"},
			levers: platformLevers,
		},
		{gvk: schema.GroupVersionKind{Group: "datasciencecluster.opendatahub.io", Version: "v2", Kind: "DataScienceCluster"}},
		{
			gvk:    schema.GroupVersionKind{Group: "components.platform.opendatahub.io", Version: "v1alpha1", Kind: "Llmd"},
			refers: released, levers: releaseLevers,
		},
		{
			gvk:    schema.GroupVersionKind{Group: "infra.example.com", Version: "v1", Kind: "NvidiaGpuLlm"},
			levers: func(_, _ *unstructured.Unstructured) diagnosis.Levers { return nvidiagpullm.Levers() },
		},
		{
			gvk:    simv1alpha1.GroupVersion.WithKind("SimulatorDeployment"),
			levers: stackLevers,
		},
		{gvk: schema.GroupVersionKind{Group: "llm.example.com", Version: "v1alpha1", Kind: "LLMModel"}},
		{
			gvk:    schema.GroupVersionKind{Group: "llm.example.com", Version: "v1alpha1", Kind: "LLMDeployment"},
			refers: modelOf, levers: modelLevers,
		},
	}
}

// listed are the kinds that a status without a target lists.
func listed() []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, each := range kinds() {
		all = append(all, each.gvk)
	}
	return all
}

// kindOf finds what is known of an object's kind; nothing of one that isn't ours.
func kindOf(live *unstructured.Unstructured) kind {
	for _, each := range kinds() {
		if each.gvk.GroupKind() == live.GroupVersionKind().GroupKind() {
			return each
		}
	}
	return kind{}
}

// words are the levers of a workload.
type words func(workload *unstructured.Unstructured) diagnosis.Levers

// levers are the words for what the user of a resource can change.
func levers(root *unstructured.Unstructured) words {
	known := kindOf(root).levers
	return func(workload *unstructured.Unstructured) diagnosis.Levers {
		if known == nil {
			return diagnosis.Levers{}
		}
		return known(root, workload)
	}
}

// refers lists what a resource's spec names.
func refers(live *unstructured.Unstructured) []object.Ref {
	if named := kindOf(live).refers; named != nil {
		return named(live)
	}
	return nil
}

// released are the objects of an Llmd's releases, in the order of those.
func released(live *unstructured.Unstructured) []object.Ref {
	var refs []object.Ref
	for _, part := range []string{"infra", "gatewayAPI", "modelService"} {
		objects, _, _ := unstructured.NestedFieldNoCopy(live.Object, "status", part, "objects")
		refs = append(refs, entries(objects)...)
	}
	return refs
}

// releaseLevers are those of the release that a workload is of.
func releaseLevers(_, workload *unstructured.Unstructured) diagnosis.Levers {
	return llmd.Levers(llmd.Component(workload.GetLabels()[object.LabelComponent]))
}

// modelOf is the model that an LLMDeployment serves.
func modelOf(live *unstructured.Unstructured) []object.Ref {
	model, _, _ := unstructured.NestedString(live.Object, "spec", "modelRef")
	if model == "" {
		return nil
	}
	gvk := live.GroupVersionKind()
	return []object.Ref{{Group: gvk.Group, Version: gvk.Version, Kind: "LLMModel", Namespace: live.GetNamespace(), Name: model}}
}

func modelLevers(root, _ *unstructured.Unstructured) diagnosis.Levers {
	model, _, _ := unstructured.NestedString(root.Object, "spec", "modelRef")
	return diagnosis.LLMLevers(model)
}

// stackLevers are those of the part of a stack that a workload is.
func stackLevers(root, workload *unstructured.Unstructured) diagnosis.Levers {
	deployment := &simv1alpha1.SimulatorDeployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(root.Object, deployment); err != nil {
		return diagnosis.Levers{} // of a version that isn't known here
	}
	component := simulatordeployment.Component(workload.GetLabels()[object.LabelComponent])
	return simulatordeployment.Levers(deployment, component)
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
