// Package v1alpha1 holds the kind of the group platform.slipway.dev: a
// PlatformStack is what a cluster needs before models can be served, as
// components in an order. It holds types only, and no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=platform.slipway.dev
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "platform.slipway.dev", Version: "v1alpha1"}

// KindPlatformStack is the kind, as manifests write it.
const KindPlatformStack = "PlatformStack"

// AnnotationApprove on a PlatformStack approves upgrades that lose something:
// component=digest, several separated by commas. The digest is the one that
// status.components[].approval tells.
const AnnotationApprove = "slipway.dev/approve"

// AddToScheme makes the kinds of this package known to a scheme. It never fails;
// the error is there for runtime.SchemeBuilder.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PlatformStack{}, &PlatformStackList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
