package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	metav1alpha1 "github.com/slipway-dev/slipway/api/meta/v1alpha1"
)

// Action is what a resource is for. It names a state that is kept, not a verb
// that is carried out once.
//
// +kubebuilder:validation:Enum=install;status;uninstall
type Action string

// The actions.
const (
	// ActionInstall keeps the pod running.
	ActionInstall Action = "install"
	// ActionStatus tells what runs under the name, whoever made it.
	ActionStatus Action = "status"
	// ActionUninstall keeps the name free of what an install made.
	ActionUninstall Action = "uninstall"
)

// Phase is a resource's state in one word; its conditions say the rest.
//
// +kubebuilder:validation:Enum=Pending;InProgress;Ready;Failed;Terminating
type Phase string

// The phases.
const (
	// PhasePending means that something is waited for before anything begins.
	PhasePending Phase = "Pending"
	// PhaseInProgress means that the pod starts, a model is pulled or prompts run.
	PhaseInProgress Phase = "InProgress"
	// PhaseReady means that what the spec asks for is so.
	PhaseReady Phase = "Ready"
	// PhaseFailed means that nothing changes until someone acts.
	PhaseFailed Phase = "Failed"
	// PhaseTerminating means that the resource is being deleted.
	PhaseTerminating Phase = "Terminating"
)

// Conditions of the kind's own.
const (
	// ConditionGPUAvailable says whether the GPUs that are asked for can be had.
	ConditionGPUAvailable = "GPUAvailable"
	// ConditionPulling is true while a model is fetched, and tells how far it is.
	ConditionPulling = "Pulling"
	// ConditionModelLoaded says whether the model is in memory.
	ConditionModelLoaded = "ModelLoaded"
	// ConditionPromptsDone says whether all prompts were answered.
	ConditionPromptsDone = "PromptsDone"
	// ConditionContested is true while another resource wants the opposite for the
	// same name.
	ConditionContested = "Contested"
)

// RetentionPolicy says what becomes of the claim with the models.
//
// +kubebuilder:validation:Enum=Retain;Delete
type RetentionPolicy string

// The policies.
const (
	// RetentionRetain keeps the claim when the resource is deleted or uninstalled.
	RetentionRetain RetentionPolicy = "Retain"
	// RetentionDelete deletes the claim with the pod.
	RetentionDelete RetentionPolicy = "Delete"
)

// NvidiaGpuLlmSpec says which model runs under which name, and on what.
//
// +kubebuilder:validation:XValidation:rule="has(self.namespace) == has(oldSelf.namespace)",message="namespace can't be changed: the pod lives there; create another NvidiaGpuLlm and delete this one"
type NvidiaGpuLlmSpec struct {
	// What the resource is for: install, status or uninstall.
	Action Action `json:"action"`

	// Name of the pod that runs the model.
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="llmName becomes a pod's name and part of a Service's: write at most 52 lower-case letters, digits and hyphens, the first one a letter"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="llmName can't be changed: the pod bears that name; create another NvidiaGpuLlm and delete this one"
	LLMName string `json:"llmName"`

	// Namespace of the pod; the resource's own if absent.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be a namespace's name: write lower-case letters, digits and hyphens"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace can't be changed: the pod lives there; create another NvidiaGpuLlm and delete this one"
	Namespace string `json:"namespace,omitempty"`

	// Model as Ollama names it: tinyllama, llama2:7b, registry:5000/team/model:tag.
	// +optional
	// +kubebuilder:default=tinyllama
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[A-Za-z0-9][A-Za-z0-9._-]*)*(:[A-Za-z0-9._-]+)?$')",message="model must be an Ollama model such as tinyllama, llama2:7b or registry.example.com:5000/team/model:tag"
	Model string `json:"model,omitempty"`

	// Number of GPUs; 0 runs on the CPU.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 64",message="gpuCount must be a whole number of GPUs from 0 to 64"
	GPUCount *int32 `json:"gpuCount,omitempty"`

	// Memory that the pod gets: a quantity of bytes, such as "4Gi".
	// +optional
	// +kubebuilder:default="4Gi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : (self.size() <= 32 && isQuantity(self) && quantity(self).isGreaterThan(quantity('0')))",message="memory must be a positive quantity of bytes; write 4Gi or 512Mi"
	Memory *intstr.IntOrString `json:"memory,omitempty"`

	// CPU cores that the pod gets, such as 2 or "500m".
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : (self.size() <= 32 && isQuantity(self) && quantity(self).isGreaterThan(quantity('0')))",message="cpuCores must be a positive number of cores; write 2, or 500m for half a core"
	CPUCores *intstr.IntOrString `json:"cpuCores,omitempty"`

	// Make a Service LLMNAME-service.
	// +optional
	ServiceEnabled bool `json:"serviceEnabled,omitempty"`

	// Port of the Service.
	// +optional
	// +kubebuilder:default=11434
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="servicePort must be a whole number from 1 to 65535, such as 11434"
	ServicePort int32 `json:"servicePort,omitempty"`

	// Prompts that are run once, in order, after the model is loaded.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32768
	// +listType=atomic
	Prompts []string `json:"prompts,omitempty"`

	// Seconds that a prompt may take; its answer is cut there.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 86400",message="promptTimeoutSeconds must be between 1 and 86400 (a day)"
	PromptTimeoutSeconds int32 `json:"promptTimeoutSeconds,omitempty"`

	// Keep models in a PersistentVolumeClaim LLMNAME-storage.
	// +optional
	PersistentStorage bool `json:"persistentStorage,omitempty"`

	// Size of the claim. It can grow where its StorageClass allows that, and never
	// shrink.
	// +optional
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : (self.size() <= 32 && isQuantity(self) && quantity(self).isGreaterThan(quantity('0')))",message="storageSize must be a positive quantity of bytes; write 10Gi"
	// +kubebuilder:validation:XValidation:rule="type(self) == int || type(oldSelf) == int || self.size() > 32 || oldSelf.size() > 32 || !isQuantity(self) || !isQuantity(oldSelf) || !quantity(self).isLessThan(quantity(oldSelf))",message="storageSize can't be made smaller: volumes only grow; write at least the former size"
	StorageSize *intstr.IntOrString `json:"storageSize,omitempty"`

	// StorageClass of the claim; the cluster's default if absent.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// What becomes of the claim when the resource is deleted or its name is
	// uninstalled: Retain keeps the models, Delete removes them.
	// +optional
	// +kubebuilder:default=Retain
	StorageRetentionPolicy RetentionPolicy `json:"storageRetentionPolicy,omitempty"`

	// Keep the pod running. With false it runs the prompts and completes.
	// +optional
	// +kubebuilder:default=true
	KeepAlive *bool `json:"keepAlive,omitempty"`

	// Ollama's image.
	// +optional
	// +kubebuilder:default="docker.io/ollama/ollama:latest"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._:/@-]*$') && !self.contains('://')",message="image must be an image reference such as docker.io/ollama/ollama:latest, without a scheme like https:// and without spaces"
	Image string `json:"image,omitempty"`

	// When the image is pulled.
	// +optional
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// Secrets of type kubernetes.io/dockerconfigjson in the pod's namespace that let
	// the image be pulled.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// Fetch the model over plain HTTP.
	// +optional
	InsecureRegistry bool `json:"insecureRegistry,omitempty"`

	// Names that the pod resolves by itself, such as a mirror of Ollama's registry.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=ip
	HostAliases []corev1.HostAlias `json:"hostAliases,omitempty"`

	// Labels that a node must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Taints of nodes that the pod tolerates.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// PromptAnswer is a prompt and the beginning of its answer.
type PromptAnswer struct {
	// Prompt, at most 256 bytes of it.
	Prompt string `json:"prompt"`
	// Answer, at most 1024 bytes of it; the whole is in the ConfigMap.
	// +optional
	Answer string `json:"answer,omitempty"`
	// Why the answer is incomplete, if it is.
	// +optional
	Incomplete string `json:"incomplete,omitempty"`
}

// NvidiaGpuLlmStatus says what runs and what is wrong.
type NvidiaGpuLlmStatus struct {
	// Generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase in one word: Pending, InProgress, Ready, Failed or Terminating.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// What goes on, in a sentence.
	// +optional
	Message string `json:"message,omitempty"`

	// Name of the pod.
	// +optional
	PodName string `json:"podName,omitempty"`

	// Model that is in memory, as Ollama tells.
	// +optional
	ModelLoaded string `json:"modelLoaded,omitempty"`

	// Whether the pod has the GPUs that it asked for.
	// +optional
	GPUAssigned bool `json:"gpuAssigned"`

	// Devices that the pod has, where the container runtime tells.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	GPUDevices []string `json:"gpuDevices,omitempty"`

	// URL of the Service inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`

	// Prompts and their answers, in short.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Answers []PromptAnswer `json:"answers,omitempty"`

	// ConfigMap that holds the whole answers.
	// +optional
	AnswersConfigMap string `json:"answersConfigMap,omitempty"`

	// Whether the run of a resource with keepAlive: false is over, and for which
	// prompts and model: what is done isn't done again.
	// +optional
	CompletedRun string `json:"completedRun,omitempty"`

	// Conditions of the resource; Ready is the summary.
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

// NvidiaGpuLlm runs a model with Ollama on GPUs, under a name that is a promise.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nvidiagpullms,singular=nvidiagpullm,shortName=gpullm;llm,categories=llm-all,scope=Namespaced
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.status.modelLoaded`
// +kubebuilder:printcolumn:name="GPU",type=boolean,JSONPath=`.status.gpuAssigned`
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.spec.action`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Pod",type=string,priority=1,JSONPath=`.status.podName`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name becomes a label's value: write at most 63 characters"
type NvidiaGpuLlm struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NvidiaGpuLlmSpec `json:"spec"`
	// +optional
	Status NvidiaGpuLlmStatus `json:"status,omitempty"`
}

// NvidiaGpuLlmList is a list of NvidiaGpuLlms.
//
// +kubebuilder:object:root=true
type NvidiaGpuLlmList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NvidiaGpuLlm `json:"items"`
}
