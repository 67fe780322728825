package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metav1alpha1 "github.com/slipway-dev/slipway/api/meta/v1alpha1"
)

// Phase is a resource's state in one word; its conditions say the rest.
//
// +kubebuilder:validation:Enum=Pending;Ready;Failed;Terminating
type Phase string

const (
	// PhasePending means that something is under way or waited for.
	PhasePending Phase = "Pending"
	// PhaseReady means that what the spec asks for serves.
	PhaseReady Phase = "Ready"
	// PhaseFailed means that nothing changes until someone acts; the Ready
	// condition's message says who and how.
	PhaseFailed Phase = "Failed"
	// PhaseTerminating means that the resource is being deleted.
	PhaseTerminating Phase = "Terminating"
)

// ConditionModelFound says whether the LLMModel that a deployment refers to is
// there.
const ConditionModelFound = "ModelFound"

// LLMDeploymentSpec says how a model is run.
type LLMDeploymentSpec struct {
	// Name of an LLMModel in the same namespace.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="modelRef must not be empty; write the name of an LLMModel in this namespace (kubectl get llmmodels)"
	ModelRef string `json:"modelRef"`

	// Number of replicas to deploy.
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 10000",message="replicas must be a whole number from 0 to 10000; write 0 to stop serving"
	Replicas int32 `json:"replicas"`

	// Port the model service will listen on, in the Service and in the container.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="port must be a whole number from 1 to 65535, such as 8080"
	Port int32 `json:"port,omitempty"`

	// Labels that a node must have to run the model.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Taints of nodes that the model's pods tolerate.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Seconds that requests in flight get to finish when a pod ends, before it is
	// killed.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 3600",message="terminationGracePeriodSeconds must be between 1 and 3600 (an hour)"
	TerminationGracePeriodSeconds int64 `json:"terminationGracePeriodSeconds,omitempty"`
}

// LLMDeploymentStatus says what runs and what is wrong.
type LLMDeploymentStatus struct {
	// Generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase in one word: Pending, Ready or Failed.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Number of pods that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// Number of pods that answer.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// Number of pods that have answered long enough to count as available.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// Label selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// URL of the model inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`

	// Conditions of the deployment; Ready is the summary.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Objects that were made for this resource. It is written before they are, so
	// that none is ever forgotten.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Inventory []metav1alpha1.InventoryEntry `json:"inventory,omitempty"`
}

// LLMDeployment handles the actual deployment of a model.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=llmdeployments,shortName=llmdep,categories=llm-all,scope=Namespaced
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.modelRef`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="the name becomes a Service's name: write at most 63 lower-case letters, digits and hyphens, the first one a letter"
type LLMDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec LLMDeploymentSpec `json:"spec"`
	// +optional
	Status LLMDeploymentStatus `json:"status,omitempty"`
}

// LLMDeploymentList is a list of LLMDeployments.
//
// +kubebuilder:object:root=true
type LLMDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LLMDeployment `json:"items"`
}
