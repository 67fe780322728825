package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Engine is the inference server that a model's image runs. It decides how the
// server is told its port and its model, and how it is probed.
//
// +kubebuilder:validation:Enum=OpenAI;vLLM;Ollama;Custom
type Engine string

const (
	// EngineOpenAI is any server of OpenAI's API that reads its port from the
	// environment variable PORT. Probed with GET /v1/models.
	EngineOpenAI Engine = "OpenAI"
	// EngineVLLM is vLLM or a server with its command line: it is started with
	// --model, --served-model-name and --port. Probed with GET /v1/models and
	// GET /health.
	EngineVLLM Engine = "vLLM"
	// EngineOllama is an Ollama server, told its address by OLLAMA_HOST. Probed
	// with GET /.
	EngineOllama Engine = "Ollama"
	// EngineCustom is any other server. Only its TCP port is probed.
	EngineCustom Engine = "Custom"
)

// PodSecurity is the Pod Security Standard that a model's pods keep.
//
// +kubebuilder:validation:Enum=Restricted;Baseline
type PodSecurity string

const (
	// PodSecurityRestricted runs the image as user 65532 with a read-only root
	// file system, no capabilities and the runtime's seccomp profile. Writable
	// are /cache (also HOME) and /tmp.
	PodSecurityRestricted PodSecurity = "Restricted"
	// PodSecurityBaseline runs the image as its own user, root included, with a
	// writable root file system and the runtime's default capabilities.
	PodSecurityBaseline PodSecurity = "Baseline"
)

// LLMModelSpec says what a model is, which image serves it and what one copy of
// it needs.
type LLMModelSpec struct {
	// Name of the LLM model, as clients write it in a request. The container gets
	// it as MODEL_NAME.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="modelName must not be empty; write the name that clients use, such as GPT-Small"
	ModelName string `json:"modelName"`

	// Container image for the model: a server that listens on the port in the
	// environment variable PORT (see engine).
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",message="image must not be empty; write a container image such as registry.example.com/gpt-small:v1"
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[A-Za-z0-9][A-Za-z0-9._:/@-]*$') && !self.contains('://')",message="image must be an image reference such as registry.example.com/gpt-small:v1, without a scheme like https:// and without spaces"
	Image string `json:"image"`

	// Resources that each copy of the model gets, as requests and as limits.
	// +optional
	Resources ModelResources `json:"resources,omitempty"`

	// Engine that the image runs.
	// +optional
	// +kubebuilder:default=OpenAI
	Engine Engine `json:"engine,omitempty"`

	// Command in place of the image's entrypoint.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Command []string `json:"command,omitempty"`

	// Arguments to the image's entrypoint. With engine vLLM they follow --model,
	// --served-model-name and --port.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Args []string `json:"args,omitempty"`

	// Environment variables of the container. Values that are secret belong into
	// a Secret, named in envFrom.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z_][A-Za-z0-9_.-]*$'))",message="names of environmentVariables must start with a letter or _ and hold only letters, digits, _, . and -"
	// +kubebuilder:validation:XValidation:rule="!('PORT' in self) && !('MODEL_NAME' in self)",message="PORT and MODEL_NAME are set by the operator; write spec.port in the LLMDeployment and spec.modelName here instead"
	EnvironmentVariables map[string]string `json:"environmentVariables,omitempty"`

	// Secrets and ConfigMaps in the deployment's namespace whose keys become
	// environment variables (a token for a model hub, say).
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// Secrets of type kubernetes.io/dockerconfigjson in the deployment's namespace
	// that let the image be pulled.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// Pod Security Standard that the pods keep. Baseline is for an image that must
	// run as root or write to its own file system.
	// +optional
	// +kubebuilder:default=Restricted
	PodSecurity PodSecurity `json:"podSecurity,omitempty"`

	// Storage for the model's weights, mounted into every copy.
	// +optional
	Storage *ModelStorage `json:"storage,omitempty"`

	// Seconds that a copy may take from its start until it answers, loading
	// included; after that it is restarted.
	// +optional
	// +kubebuilder:default=1800
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 86400",message="startupTimeoutSeconds must be between 1 and 86400 (a day)"
	StartupTimeoutSeconds int32 `json:"startupTimeoutSeconds,omitempty"`
}

// ModelResources are what one copy of a model needs.
type ModelResources struct {
	// CPU resource requirements: a quantity of cores, such as "2" or "500m".
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : (self.size() <= 32 && isQuantity(self) && quantity(self).isGreaterThan(quantity('0')))",message="cpu must be a positive quantity of cores; write 2, or 500m for half a core"
	CPU *intstr.IntOrString `json:"cpu,omitempty"`

	// Memory resource requirements: a quantity of bytes, such as "4Gi".
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : (self.size() <= 32 && isQuantity(self) && quantity(self).isGreaterThan(quantity('0')))",message="memory must be a positive quantity of bytes; write 4Gi or 512Mi"
	Memory *intstr.IntOrString `json:"memory,omitempty"`

	// Number of GPUs.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1024",message="gpu must be a whole number of GPUs from 0 to 1024"
	GPU int32 `json:"gpu,omitempty"`

	// Extended resource by which nodes advertise their GPUs.
	// +optional
	// +kubebuilder:default="nvidia.com/gpu"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9.-]+/[A-Za-z0-9._-]+$')",message="gpuResourceName must be a domain and a name, such as nvidia.com/gpu or amd.com/gpu"
	GPUResourceName string `json:"gpuResourceName,omitempty"`
}

// ModelStorage is a volume for a model's weights: a claim that exists, or one
// that is made for each deployment and goes with it.
//
// +kubebuilder:validation:XValidation:rule="has(self.claimName) != has(self.size)",message="storage needs either claimName (a PersistentVolumeClaim that exists) or size (a new one is made)"
type ModelStorage struct {
	// Name of a PersistentVolumeClaim in the deployment's namespace. It is mounted
	// read-only and never changed or deleted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName,omitempty"`

	// Size of a new claim, such as "50Gi". It is mounted writable, and deleted
	// with the LLMDeployment.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : (self.size() <= 32 && isQuantity(self) && quantity(self).isGreaterThan(quantity('0')))",message="size must be a positive quantity of bytes; write 50Gi"
	Size *intstr.IntOrString `json:"size,omitempty"`

	// StorageClass of a new claim. Absent, the cluster's default one is used.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// Access mode of a new claim. ReadWriteOnce keeps all copies on one node.
	// +optional
	// +kubebuilder:default=ReadWriteOnce
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`

	// Directory of the container where the volume appears.
	// +optional
	// +kubebuilder:default="/models"
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && self != '/'",message="mountPath must be an absolute directory other than /, such as /models"
	MountPath string `json:"mountPath,omitempty"`
}

// LLMModelStatus says who uses a model.
type LLMModelStatus struct {
	// Generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase in one word: Ready, or Terminating while deployments still need it.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Number of LLMDeployments in the namespace that refer to this model.
	// +optional
	Deployments int32 `json:"deployments"`

	// Conditions of the model; Ready is the summary.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LLMModel defines the model to be deployed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=llmmodels,shortName=llmm,categories=llm-all,scope=Namespaced
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.modelName`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Deployments",type=integer,JSONPath=`.status.deployments`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type LLMModel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec LLMModelSpec `json:"spec"`
	// +optional
	Status LLMModelStatus `json:"status,omitempty"`
}

// LLMModelList is a list of LLMModels.
//
// +kubebuilder:object:root=true
type LLMModelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LLMModel `json:"items"`
}
