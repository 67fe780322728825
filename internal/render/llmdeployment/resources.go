package llmdeployment

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
)

const defaultGPUResource = "nvidia.com/gpu"

// resourcesOf gives a container the same requests as limits: an inference server
// that is throttled or evicted under load fails when it is needed most.
func resourcesOf(model *llmv1alpha1.LLMModel) (corev1.ResourceRequirements, error) {
	list := corev1.ResourceList{}
	spec := model.Spec.Resources
	for _, entry := range []struct {
		name  corev1.ResourceName
		field string
		value *intstr.IntOrString
	}{
		{corev1.ResourceCPU, "spec.resources.cpu", spec.CPU},
		{corev1.ResourceMemory, "spec.resources.memory", spec.Memory},
	} {
		if entry.value == nil {
			continue
		}
		quantity, err := quantityOf(model, entry.field, *entry.value)
		if err != nil {
			return corev1.ResourceRequirements{}, err
		}
		list[entry.name] = quantity
	}
	if spec.GPU > 0 {
		list[gpuResource(model)] = *resource.NewQuantity(int64(spec.GPU), resource.DecimalSI)
	}
	if len(list) == 0 {
		return corev1.ResourceRequirements{}, nil
	}
	return corev1.ResourceRequirements{Requests: list, Limits: list}, nil
}

func gpuResource(model *llmv1alpha1.LLMModel) corev1.ResourceName {
	if name := model.Spec.Resources.GPUResourceName; name != "" {
		return corev1.ResourceName(name)
	}
	return defaultGPUResource
}

// quantityOf reads a quantity that the CRD's rules let through, or that came
// from a file and never met them.
func quantityOf(model *llmv1alpha1.LLMModel, field string, value intstr.IntOrString) (resource.Quantity, error) {
	quantity, err := resource.ParseQuantity(value.String())
	if err != nil || quantity.Sign() <= 0 {
		return resource.Quantity{}, condition.Stop(condition.ReasonInvalidSpec,
			"%s of LLMModel %s is %q, which is not a positive quantity; write one such as 2, 500m or 4Gi", field, model.Name, value.String())
	}
	return quantity, nil
}
