package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metav1alpha1 "github.com/slipway-dev/slipway/api/meta/v1alpha1"
)

// Conditions of the parts of a stack. A part that isn't asked for has none.
const (
	// ConditionPrefillReady says whether the prefill stage serves.
	ConditionPrefillReady = "PrefillReady"
	// ConditionDecodeReady says whether the decode stage serves, or the simulators
	// of the form without stages.
	ConditionDecodeReady = "DecodeReady"
	// ConditionPickerReady says whether the endpoint picker serves, and how many
	// pods it can route to.
	ConditionPickerReady = "PickerReady"
	// ConditionStandardGatewayReady says whether the standard gateway serves.
	ConditionStandardGatewayReady = "StandardGatewayReady"
	// ConditionIstioGatewayReady says whether Istio's gateway serves.
	ConditionIstioGatewayReady = "IstioGatewayReady"
	// ConditionGatewayProgrammed says whether the Gateway of the Gateway API is
	// there and programmed.
	ConditionGatewayProgrammed = "GatewayProgrammed"
	// ConditionLoadBalancingReady says whether the DestinationRule could be made.
	ConditionLoadBalancingReady = "LoadBalancingReady"
)

// SimulatorDeploymentSpec says which parts of an llm-d stack run, and how.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.gateway) && self.gateway.enabled && self.gateway.className == 'istio' && has(self.inferenceGateway) && self.inferenceGateway.enabled && has(self.inferenceGateway.istio) && self.inferenceGateway.istio.enabled)",message="gateway with className istio and inferenceGateway.istio would both make a Service infra-sim-inference-gateway-istio; disable one of them"
type SimulatorDeploymentSpec struct {
	// Number of simulator pods where neither stage is enabled, and of decode pods
	// where decode.replicas is absent. Deprecated: write prefill and decode.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 10000",message="replicas must be a whole number from 0 to 10000"
	Replicas *int32 `json:"replicas,omitempty"`

	// Image of the simulator where neither stage is enabled.
	// +optional
	// +kubebuilder:default="ghcr.io/llm-d/llm-d-simulator:latest"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._:/@-]*$') && !self.contains('://')",message="image must be an image reference such as ghcr.io/llm-d/llm-d-simulator:latest, without a scheme like https:// and without spaces"
	Image string `json:"image,omitempty"`

	// CPU and memory requests and limits where neither stage is enabled.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`

	// Service in front of the simulators.
	// +optional
	Service *ServiceConfig `json:"service,omitempty"`

	// Gateway of the Gateway API.
	// +optional
	Gateway *GatewayConfig `json:"gateway,omitempty"`

	// Load balancing by Istio.
	// +optional
	LoadBalancing *LoadBalancingConfig `json:"loadBalancing,omitempty"`

	// Endpoint picker.
	// +optional
	EPP *EPPConfig `json:"epp,omitempty"`

	// Envoy gateways.
	// +optional
	InferenceGateway *InferenceGatewayConfig `json:"inferenceGateway,omitempty"`

	// Prefill stage.
	// +optional
	Prefill *StageConfig `json:"prefill,omitempty"`

	// Decode stage.
	// +optional
	Decode *StageConfig `json:"decode,omitempty"`

	// Proxy in decode pods, used where both stages are enabled.
	// +optional
	RoutingSidecar *RoutingSidecarConfig `json:"routingSidecar,omitempty"`

	// Text before the names of all objects, so that several stacks fit into one
	// namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z][-a-z0-9]*$')",message="namePrefix must begin with a lower-case letter and hold only lower-case letters, digits and hyphens, such as blue-"
	NamePrefix string `json:"namePrefix,omitempty"`

	// Secrets of type kubernetes.io/dockerconfigjson in the same namespace that let
	// the images be pulled.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// PartStatus counts the pods of one part.
type PartStatus struct {
	// Name of the part's Deployment.
	Name string `json:"name"`
	// Number of pods that exist.
	Replicas int32 `json:"replicas"`
	// Number of pods that are ready.
	ReadyReplicas int32 `json:"readyReplicas"`
}

// SimulatorDeploymentStatus says what runs and what is wrong.
type SimulatorDeploymentStatus struct {
	// Generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Number of pods that exist, of all parts.
	// +optional
	Replicas int32 `json:"replicas"`

	// Number of pods that are ready, of all parts.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// Pods of the endpoint picker.
	// +optional
	EPP *PartStatus `json:"epp,omitempty"`

	// Pods of the standard gateway.
	// +optional
	StandardGateway *PartStatus `json:"standardGateway,omitempty"`

	// Pods of Istio's gateway.
	// +optional
	IstioGateway *PartStatus `json:"istioGateway,omitempty"`

	// Pods of the prefill stage.
	// +optional
	Prefill *PartStatus `json:"prefill,omitempty"`

	// Pods of the decode stage, or the simulators where no stage is enabled.
	// +optional
	Decode *PartStatus `json:"decode,omitempty"`

	// Label selector of the decode pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// URLs of the simulators' Services inside the cluster.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Endpoints []string `json:"endpoints,omitempty"`

	// URL of the gateway inside the cluster; of the standard one if there are two.
	// +optional
	GatewayURL string `json:"gatewayURL,omitempty"`

	// Conditions of the stack and of its parts; Ready is the summary.
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

// SimulatorDeployment is a whole llm-d stack of inference simulators.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.decode.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=simulatordeployments,shortName=simdep,categories=llm-all,scope=Namespaced
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Gateway",type=string,priority=1,JSONPath=`.status.gatewayURL`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name becomes a label's value: write at most 63 characters"
type SimulatorDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec SimulatorDeploymentSpec `json:"spec,omitempty"`
	// +optional
	Status SimulatorDeploymentStatus `json:"status,omitempty"`
}

// SimulatorDeploymentList is a list of SimulatorDeployments.
//
// +kubebuilder:object:root=true
type SimulatorDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SimulatorDeployment `json:"items"`
}
