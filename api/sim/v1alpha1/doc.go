// Package v1alpha1 holds the kind of the group sim.llm-d.io: SimulatorDeployment
// asks for a whole llm-d stack of inference simulators, with its endpoint picker
// and its gateways. It holds types only, and no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=sim.llm-d.io
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "sim.llm-d.io", Version: "v1alpha1"}

// KindSimulatorDeployment is the kind, as manifests write it.
const KindSimulatorDeployment = "SimulatorDeployment"

// AddToScheme makes the kinds of this package known to a scheme. It never fails;
// the error is there for runtime.SchemeBuilder.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &SimulatorDeployment{}, &SimulatorDeploymentList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
