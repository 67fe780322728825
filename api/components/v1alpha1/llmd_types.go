package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metav1alpha1 "github.com/slipway-dev/slipway/api/meta/v1alpha1"
)

// Conditions of the parts.
const (
	// ConditionInfraReady says whether the release of llm-d-infra is ready.
	ConditionInfraReady = "InfraReady"
	// ConditionGatewayAPIReady says whether the release of the Gateway API inference
	// extension is ready.
	ConditionGatewayAPIReady = "GatewayAPIReady"
	// ConditionModelServiceReady says whether the release of llm-d-modelservice is
	// ready.
	ConditionModelServiceReady = "ModelServiceReady"
)

// Charts are the three charts that llm-d consists of. They are released in the
// order infra, gatewayAPI, modelService, and each waits for the former.
//
// +kubebuilder:validation:XValidation:rule="(has(self.infra) && has(self.infra.releaseName) ? self.infra.releaseName : 'llmd-infra') != (has(self.gatewayAPI) && has(self.gatewayAPI.releaseName) ? self.gatewayAPI.releaseName : 'llmd-gateway-api')",message="infra and gatewayAPI need different release names; change one releaseName"
// +kubebuilder:validation:XValidation:rule="(has(self.infra) && has(self.infra.releaseName) ? self.infra.releaseName : 'llmd-infra') != (has(self.modelService) && has(self.modelService.releaseName) ? self.modelService.releaseName : 'llmd-modelservice')",message="infra and modelService need different release names; change one releaseName"
// +kubebuilder:validation:XValidation:rule="(has(self.gatewayAPI) && has(self.gatewayAPI.releaseName) ? self.gatewayAPI.releaseName : 'llmd-gateway-api') != (has(self.modelService) && has(self.modelService.releaseName) ? self.modelService.releaseName : 'llmd-modelservice')",message="gatewayAPI and modelService need different release names; change one releaseName"
type Charts struct {
	// Release of llm-d-modelservice: the model servers.
	// +optional
	ModelService *ChartSpec `json:"modelService,omitempty"`

	// Release of llm-d-infra: the gateway.
	// +optional
	Infra *ChartSpec `json:"infra,omitempty"`

	// Release of the Gateway API inference extension: the pool and its endpoint
	// picker.
	// +optional
	GatewayAPI *ChartSpec `json:"gatewayAPI,omitempty"`

	// Namespace of the releases. Another one moves them: they are uninstalled in the
	// old one and installed in the new one.
	// +optional
	// +kubebuilder:default=llm-d
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be a namespace's name: write lower-case letters, digits and hyphens"
	Namespace string `json:"namespace,omitempty"`

	// ServiceAccount in the release's namespace with whose rights a chart is released;
	// the operator's own if absent. The operator needs the right to impersonate it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// LlmdSpec says which charts are released, and how.
type LlmdSpec struct {
	Charts `json:",inline"`
}

// ChartStatus tells of one release.
type ChartStatus struct {
	// Name of the release.
	ReleaseName string `json:"releaseName"`
	// Namespace of the release.
	Namespace string `json:"namespace"`
	// Newest revision; 0 before there is one.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// Status of that revision, as `helm list` prints it.
	// +optional
	Status string `json:"status,omitempty"`
	// Name of the chart.
	// +optional
	Chart string `json:"chart,omitempty"`
	// Version of the chart.
	// +optional
	Version string `json:"version,omitempty"`
	// Version of what the chart installs.
	// +optional
	AppVersion string `json:"appVersion,omitempty"`
	// Digest of the chart's archive.
	// +optional
	Digest string `json:"digest,omitempty"`
	// What was done last: Install, Upgrade, Rollback, Uninstall, …
	// +optional
	LastAction string `json:"lastAction,omitempty"`
	// When it was done.
	// +optional
	LastActionTime *metav1.Time `json:"lastActionTime,omitempty"`
	// What came of it, in Helm's words.
	// +optional
	LastActionResult string `json:"lastActionResult,omitempty"`
	// Objects of the newest revision.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Objects []metav1alpha1.InventoryEntry `json:"objects,omitempty"`
}

// ReleaseEntry names one release that was made, or is about to be.
type ReleaseEntry struct {
	// Part that it is for: infra, gateway-api or modelservice.
	Component string `json:"component"`
	// Name of the release.
	Name string `json:"name"`
	// Namespace of the release.
	Namespace string `json:"namespace"`
}

// ChartsStatus tells of the three releases.
type ChartsStatus struct {
	// Release of llm-d-modelservice.
	// +optional
	ModelService *ChartStatus `json:"modelService,omitempty"`
	// Release of llm-d-infra.
	// +optional
	Infra *ChartStatus `json:"infra,omitempty"`
	// Release of the Gateway API inference extension.
	// +optional
	GatewayAPI *ChartStatus `json:"gatewayAPI,omitempty"`

	// Ready, NotReady or Terminating.
	// +optional
	Phase string `json:"phase,omitempty"`

	// Conditions of the releases; Ready is the summary.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LlmdStatus says what is released and what is wrong.
type LlmdStatus struct {
	// Generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	ChartsStatus `json:",inline"`

	// Where releases are. It is written before they are made, so that none is ever
	// forgotten.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Releases []ReleaseEntry `json:"releases,omitempty"`

	// Objects that were made beside the releases.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Inventory []metav1alpha1.InventoryEntry `json:"inventory,omitempty"`
}

// Llmd runs llm-d from its Helm charts. A cluster has one, default-llm-d.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=llmds,singular=llmd,categories=llm-all,scope=Cluster
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Infra",type=string,JSONPath=`.status.infra.version`
// +kubebuilder:printcolumn:name="Gateway-API",type=string,JSONPath=`.status.gatewayAPI.version`
// +kubebuilder:printcolumn:name="Model-Service",type=string,JSONPath=`.status.modelService.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Namespace",type=string,priority=1,JSONPath=`.spec.namespace`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default-llm-d'",message="a cluster has one Llmd: write metadata.name default-llm-d"
type Llmd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	// +kubebuilder:default={}
	Spec LlmdSpec `json:"spec,omitempty"`
	// +optional
	Status LlmdStatus `json:"status,omitempty"`
}

// LlmdList is a list of Llmds.
//
// +kubebuilder:object:root=true
type LlmdList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Llmd `json:"items"`
}

// DSCLlmd is llm-d as a component of a DataScienceCluster.
type DSCLlmd struct {
	// Managed makes and keeps the Llmd; Removed deletes it, and with it the releases.
	// +optional
	// +kubebuilder:default=Removed
	ManagementState ManagementState `json:"managementState,omitempty"`

	Charts `json:",inline"`
}

// DSCLlmdStatus mirrors the Llmd.
type DSCLlmdStatus struct {
	// Managed or Removed.
	// +optional
	ManagementState ManagementState `json:"managementState,omitempty"`

	ChartsStatus `json:",inline"`
}

// ManagementState says whether a component is wanted.
//
// +kubebuilder:validation:Enum=Managed;Removed
type ManagementState string

// The states.
const (
	// Managed is a component that is kept.
	Managed ManagementState = "Managed"
	// Removed is a component that is taken away.
	Removed ManagementState = "Removed"
)
