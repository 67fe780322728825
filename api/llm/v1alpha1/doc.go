// Package v1alpha1 holds the kinds of the group llm.example.com: LLMModel says
// what a model is and needs, LLMDeployment says how many copies of it serve and
// on which port. It holds types only, and no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=llm.example.com
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "llm.example.com", Version: "v1alpha1"}

// Kinds of this group, as manifests write them.
const (
	KindLLMModel      = "LLMModel"
	KindLLMDeployment = "LLMDeployment"
)

// AddToScheme makes the kinds of this package known to a scheme. It never fails;
// the error is there for runtime.SchemeBuilder.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&LLMModel{}, &LLMModelList{},
		&LLMDeployment{}, &LLMDeploymentList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
