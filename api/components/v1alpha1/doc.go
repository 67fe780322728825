// Package v1alpha1 holds the kind of the group
// components.platform.opendatahub.io: Llmd runs llm-d from its Helm charts. It
// holds types only, and no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=components.platform.opendatahub.io
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "components.platform.opendatahub.io", Version: "v1alpha1"}

// KindLlmd is the kind, as manifests write it.
const KindLlmd = "Llmd"

// LlmdName is the name of the one Llmd that a cluster may have.
const LlmdName = "default-llm-d"

// AddToScheme makes the kinds of this package known to a scheme. It never fails;
// the error is there for runtime.SchemeBuilder.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Llmd{}, &LlmdList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
