// Package v2 holds the kind of the group datasciencecluster.opendatahub.io:
// DataScienceCluster turns components of a platform on and off, of which
// Slipway runs llm-d. It holds types, and no behaviour but how the components
// that Slipway doesn't run survive being read and written.
//
// +kubebuilder:object:generate=true
// +groupName=datasciencecluster.opendatahub.io
package v2

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "datasciencecluster.opendatahub.io", Version: "v2"}

// KindDataScienceCluster is the kind, as manifests write it.
const KindDataScienceCluster = "DataScienceCluster"

// AddToScheme makes the kinds of this package known to a scheme. It never fails;
// the error is there for runtime.SchemeBuilder.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &DataScienceCluster{}, &DataScienceClusterList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
