// Package v1 holds the kind of the group infra.example.com: NvidiaGpuLlm runs a
// model with Ollama on GPUs. It holds types only, and no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=infra.example.com
package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "infra.example.com", Version: "v1"}

// KindNvidiaGpuLlm is the kind, as manifests write it.
const KindNvidiaGpuLlm = "NvidiaGpuLlm"

// AddToScheme makes the kinds of this package known to a scheme. It never fails;
// the error is there for runtime.SchemeBuilder.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &NvidiaGpuLlm{}, &NvidiaGpuLlmList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
