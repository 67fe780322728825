package platformstack

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/diagnosis"
)

// Levers are the words for what a stack's user can change of a workload that a
// component makes: a value of a bundle or of a chart, or the manifests.
func Levers(component *platformv1alpha1.Component, workload *unstructured.Unstructured) diagnosis.Levers {
	switch from := component.Source; {
	case from.Bundle != nil && workload.GetKind() == "Deployment":
		return bundleLevers(component.Name, workload)
	case from.Chart != nil:
		return leversIn("values", component.Name)
	case from.Bundle != nil:
		return leversIn("bundle", component.Name)
	}
	return leversIn("manifests", component.Name)
}

// HookLevers are those of a workload that a hook applies.
func HookLevers(component, hook string) diagnosis.Levers {
	return leversIn("objects of hook "+hook, component)
}

// leversIn are the levers where the fields of pods aren't known by name.
func leversIn(place, component string) diagnosis.Levers {
	levers := diagnosis.ChartLevers(func(what string) string {
		return fmt.Sprintf("%s in the %s of component %s", what, place, component)
	})
	levers.PullSecrets = "spec.pullSecrets"
	return levers
}

// bundleLevers are the values that a bundle's chart takes for a Deployment (package
// chart); what it takes none for is as the bundle says.
func bundleLevers(component string, workload *unstructured.Unstructured) diagnosis.Levers {
	levers := leversIn("bundle", component)
	of := func(what string) string {
		return fmt.Sprintf("deployments.%s.%s in the values of component %s", workload.GetName(), what, component)
	}
	levers.Images = map[string]string{}
	for _, list := range []string{"initContainers", "containers"} {
		containers, _, _ := unstructured.NestedSlice(workload.Object, "spec", "template", "spec", list)
		for _, each := range containers {
			fields, _ := each.(map[string]any)
			name, _ := fields["name"].(string)
			levers.Images[name] = of("containers." + name + ".image")
			levers.Image = levers.Images[name]
			levers.CPU = of("containers." + name + ".resources.requests.cpu")
			levers.Memory = of("containers." + name + ".resources.limits.memory")
		}
		if len(containers) > 1 {
			levers.Image, levers.CPU, levers.Memory = of("containers"), of("containers"), of("containers")
		}
	}
	levers.NodeSelector, levers.Tolerations = of("nodeSelector"), of("tolerations")
	return levers
}
