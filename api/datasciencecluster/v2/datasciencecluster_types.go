package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	metav1alpha1 "github.com/slipway-dev/slipway/api/meta/v1alpha1"
)

// Conditions of the kind's own.
const (
	// ConditionLlmdReady says whether llm-d is as spec.components.llmd asks.
	ConditionLlmdReady = "LlmdReady"
	// ConditionUnknownComponents is true while the spec names components that
	// Slipway doesn't run.
	ConditionUnknownComponents = "UnknownComponents"
)

// DataScienceClusterSpec says which components run.
type DataScienceClusterSpec struct {
	// Components by name.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Components Components `json:"components,omitempty"`
}

// Components are the components of a platform. Those that aren't named here are
// kept as they are written and answered by a warning.
type Components struct {
	// llm-d, released from its Helm charts.
	// +optional
	Llmd *componentsv1alpha1.DSCLlmd `json:"llmd,omitempty"`

	// Unknown are the components of other names, by name.
	Unknown map[string]runtime.RawExtension `json:"-"`
}

// ComponentsStatus tells of the components.
type ComponentsStatus struct {
	// llm-d, as its Llmd says.
	// +optional
	Llmd *componentsv1alpha1.DSCLlmdStatus `json:"llmd,omitempty"`
}

// DataScienceClusterStatus says what runs and what is wrong.
type DataScienceClusterStatus struct {
	// Generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready or NotReady.
	// +optional
	Phase string `json:"phase,omitempty"`

	// Components by name.
	// +optional
	Components ComponentsStatus `json:"components,omitempty"`

	// Conditions; Ready is the summary.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Objects that were made for this resource. It is written before they are, so
	// that none is ever forgotten.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Inventory []metav1alpha1.InventoryEntry `json:"inventory,omitempty"`
}

// DataScienceCluster turns components of a platform on and off.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=datascienceclusters,shortName=dsc,categories=llm-all,scope=Cluster
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Llm-D",type=string,JSONPath=`.status.components.llmd.managementState`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type DataScienceCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec DataScienceClusterSpec `json:"spec,omitempty"`
	// +optional
	Status DataScienceClusterStatus `json:"status,omitempty"`
}

// DataScienceClusterList is a list of DataScienceClusters.
//
// +kubebuilder:object:root=true
type DataScienceClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DataScienceCluster `json:"items"`
}
