// Package nvidiagpullm renders a NvidiaGpuLlm to the pod that runs Ollama under
// the name that was promised, its Service, its claim and the ConfigMap with the
// answers to its prompts. It reads nothing but its arguments.
//
// The pod names no model: the model is fetched and loaded over Ollama's API, so
// that another model needs no other pod.
package nvidiagpullm

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/part"
)

const (
	// Container is the name of the container that runs Ollama.
	Container = "ollama"

	// LabelNameValue is object.LabelName's value on everything that is made here.
	LabelNameValue = "nvidia-gpu-llm"

	// Port is Ollama's own.
	Port = 11434

	// ResourceGPU is what NVIDIA's device plugin advertises.
	ResourceGPU corev1.ResourceName = "nvidia.com/gpu"

	// RunningAlias is the name under which a model is stored a second time while a
	// pod that shall complete still runs. Ollama has no request that ends it, and
	// its image need have no shell: the pod's liveness is that this name exists, and
	// when it is taken away the kubelet ends the server, which exits with 0.
	RunningAlias = "slipway-running:latest"

	// AnnotationAllowFrom on a Namespace names the namespaces, with commas between,
	// whose NvidiaGpuLlms may act in it; a star stands for all.
	AnnotationAllowFrom = "slipway.dev/allow-from"

	// envNoPrune keeps what is half fetched over a restart of the server.
	envNoPrune = "OLLAMA_NOPRUNE"

	home          = "/ollama"
	modelsPath    = "/ollama/.ollama"
	graceSeconds  = 30
	startSeconds  = 300
	pullSeconds   = 86400
	evictSeconds  = 30
	volumeModels  = "models"
	volumeTmp     = "tmp"
	defaultMemory = "4Gi"
	defaultCPU    = "2"
	defaultSize   = "10Gi"
	defaultImage  = "docker.io/ollama/ollama:latest"
)

// Input is everything that the objects of an installation depend on.
type Input struct {
	Resource *infrav1.NvidiaGpuLlm
	// Answers to the first prompts, as far as they are there.
	Answers []Answer
	// WithoutPod leaves the pod out: it has done its work and somebody removed it,
	// or the GPUs for it aren't there yet.
	WithoutPod bool
	// Prunes lets the server remove what earlier fetches left half done when it
	// starts, and else it keeps that and goes on from there. It is for a store that
	// a full disk has left unreadable.
	Prunes bool
}

// Objects returns all objects wanted for an installation but its claim, or a
// condition.Stop that says which field can't be rendered.
func Objects(in Input) ([]*unstructured.Unstructured, error) {
	var wanted []runtime.Object
	if !in.WithoutPod {
		pod, err := pod(in)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, pod)
	}
	if in.Resource.Spec.ServiceEnabled {
		service := part.Service(meta(in.Resource, ServiceName(in.Resource)), servicePort(in.Resource))
		wanted = append(wanted, service)
	}
	if len(in.Answers) > 0 {
		wanted = append(wanted, part.ConfigMap(meta(in.Resource, AnswersName(in.Resource)), answerFiles(in)))
	}
	return object.FromTyped(wanted...)
}

// IsPruning tells whether a pod's server prunes when it starts.
func IsPruning(pod *corev1.Pod) bool {
	for _, container := range pod.Spec.Containers {
		for _, variable := range container.Env {
			if variable.Name == envNoPrune {
				return false
			}
		}
	}
	return true
}

// Namespace is where the pod runs.
func Namespace(r *infrav1.NvidiaGpuLlm) string {
	if r.Spec.Namespace != "" {
		return r.Spec.Namespace
	}
	return r.Namespace
}

// Allows tells whether a namespace lets the resources of another one act in it. Its
// own always may.
func Allows(namespace *corev1.Namespace, from string) bool {
	if namespace.Name == from {
		return true
	}
	for _, name := range strings.Split(namespace.Annotations[AnnotationAllowFrom], ",") {
		if name = strings.TrimSpace(name); name == from || name == "*" {
			return true
		}
	}
	return false
}

// ServiceName is the name of the Service of an installation.
func ServiceName(r *infrav1.NvidiaGpuLlm) string { return r.Spec.LLMName + "-service" }

// ClaimName is the name of the claim that holds the models.
func ClaimName(r *infrav1.NvidiaGpuLlm) string { return r.Spec.LLMName + "-storage" }

// AnswersName is the name of the ConfigMap that holds the answers.
func AnswersName(r *infrav1.NvidiaGpuLlm) string { return r.Spec.LLMName + "-answers" }

// URL is where the model answers inside the cluster; empty without a Service.
func URL(r *infrav1.NvidiaGpuLlm) string {
	if !r.Spec.ServiceEnabled {
		return ""
	}
	return fmt.Sprintf("http://%s.%s.svc:%d", ServiceName(r), Namespace(r), servicePort(r))
}

// KeepsAlive tells whether the pod goes on after its prompts.
func KeepsAlive(r *infrav1.NvidiaGpuLlm) bool { return r.Spec.KeepAlive == nil || *r.Spec.KeepAlive }

// GPUs is how many GPUs are asked for.
func GPUs(r *infrav1.NvidiaGpuLlm) int32 {
	if r.Spec.GPUCount == nil {
		return 1
	}
	return *r.Spec.GPUCount
}

// Model is the model that is asked for.
func Model(r *infrav1.NvidiaGpuLlm) string { return text(r.Spec.Model, "tinyllama") }

// Levers are the words for what the user of an installation can change.
func Levers() diagnosis.Levers {
	return diagnosis.Levers{
		Image: "spec.image", PullSecrets: "spec.imagePullSecrets", CPU: "spec.cpuCores", Memory: "spec.memory",
		GPU: "spec.gpuCount", NodeSelector: "spec.nodeSelector", Tolerations: "spec.tolerations",
		Storage: "spec.storageClassName", Port: "the port in spec.image", Command: "spec.image",
	}
}

// Selector are the labels that find the pod of a name.
func Selector(llmName string) map[string]string { return identity(llmName).Selector() }

func identity(llmName string) object.Identity {
	return object.Identity{Name: LabelNameValue, Instance: llmName, Component: "ollama", PartOf: "llm"}
}

func meta(r *infrav1.NvidiaGpuLlm, name string) part.Meta {
	labels := identity(r.Spec.LLMName).Labels()
	labels["app"] = LabelNameValue
	return part.Meta{Namespace: Namespace(r), Name: name, Labels: labels, Selector: Selector(r.Spec.LLMName)}
}

func servicePort(r *infrav1.NvidiaGpuLlm) int32 {
	if r.Spec.ServicePort == 0 {
		return Port
	}
	return r.Spec.ServicePort
}

// Claim is the claim that holds the models, nil where none is asked for. It has
// no owner, so that it can outlive the resource.
func Claim(r *infrav1.NvidiaGpuLlm) (*corev1.PersistentVolumeClaim, error) {
	if !r.Spec.PersistentStorage {
		return nil, nil //nolint:nilnil // nil is "not wanted"
	}
	size, err := quantity("spec.storageSize", r.Spec.StorageSize, defaultSize)
	if err != nil {
		return nil, err
	}
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: meta(r, ClaimName(r)).ObjectMeta(),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: r.Spec.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}, nil
}

func pod(in Input) (*corev1.Pod, error) {
	r := in.Resource
	resources, err := resources(r)
	if err != nil {
		return nil, err
	}
	restart := corev1.RestartPolicyAlways
	if !KeepsAlive(r) {
		restart = corev1.RestartPolicyNever
	}
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta(r, r.Spec.LLMName).ObjectMeta(),
		Spec: corev1.PodSpec{
			RestartPolicy:                 restart,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			ImagePullSecrets:              r.Spec.ImagePullSecrets,
			HostAliases:                   r.Spec.HostAliases,
			NodeSelector:                  r.Spec.NodeSelector,
			Tolerations:                   tolerations(r),
			TerminationGracePeriodSeconds: new(int64(graceSeconds)),
			SecurityContext:               part.RestrictedPod(),
			Containers:                    []corev1.Container{container(in, resources)},
			Volumes:                       volumes(r),
		},
	}, nil
}

func container(in Input, resources corev1.ResourceRequirements) corev1.Container {
	r := in.Resource
	probes := part.HTTPProbes(part.HTTP, "/", "/", startSeconds)
	if !KeepsAlive(r) {
		alive := part.HTTPProbes(part.HTTP, "/v1/models/"+RunningAlias, "/v1/models/"+RunningAlias, pullSeconds)
		probes.Startup, probes.Liveness = alive.Startup, alive.Liveness
		probes.Liveness.PeriodSeconds, probes.Liveness.FailureThreshold = 1, 2
	}
	keep := "-1"
	if !KeepsAlive(r) {
		keep = "5m"
	}
	env := []corev1.EnvVar{
		{Name: "OLLAMA_HOST", Value: "0.0.0.0:" + strconv.Itoa(Port)},
		{Name: "OLLAMA_KEEP_ALIVE", Value: keep},
		{Name: "HOME", Value: home},
	}
	if !in.Prunes {
		env = append(env, corev1.EnvVar{Name: envNoPrune, Value: "1"})
	}
	return corev1.Container{
		Name:            Container,
		Image:           text(r.Spec.Image, defaultImage),
		ImagePullPolicy: r.Spec.ImagePullPolicy,
		Args:            []string{"serve"},
		Env:             env,
		Ports:           []corev1.ContainerPort{{Name: part.HTTP, ContainerPort: Port, Protocol: corev1.ProtocolTCP}},
		Resources:       resources,
		StartupProbe:    probes.Startup,
		ReadinessProbe:  part.HTTPProbes(part.HTTP, "/", "/", startSeconds).Readiness,
		LivenessProbe:   probes.Liveness,
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeModels, MountPath: modelsPath},
			{Name: volumeTmp, MountPath: "/tmp"},
		},
		SecurityContext:          part.RestrictedContainer(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// tolerations leave a dead node sooner than Kubernetes' five minutes: nothing
// else answers under the pod's name.
func tolerations(r *infrav1.NvidiaGpuLlm) []corev1.Toleration {
	made := append([]corev1.Toleration(nil), r.Spec.Tolerations...)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		made = append(made, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(evictSeconds)),
		})
	}
	return made
}

func volumes(r *infrav1.NvidiaGpuLlm) []corev1.Volume {
	models := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	if r.Spec.PersistentStorage {
		models = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: ClaimName(r)}}
	}
	return []corev1.Volume{
		{Name: volumeModels, VolumeSource: models},
		{Name: volumeTmp, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
}

func resources(r *infrav1.NvidiaGpuLlm) (corev1.ResourceRequirements, error) {
	memory, err := quantity("spec.memory", r.Spec.Memory, defaultMemory)
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	cpu, err := quantity("spec.cpuCores", r.Spec.CPUCores, defaultCPU)
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	list := corev1.ResourceList{corev1.ResourceMemory: memory, corev1.ResourceCPU: cpu}
	if gpus := GPUs(r); gpus > 0 {
		list[ResourceGPU] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	return corev1.ResourceRequirements{Requests: list, Limits: list}, nil
}

// quantity reads a quantity that the CRD's rules let through, or that came from a
// file and never met them.
func quantity(field string, value *intstr.IntOrString, fallback string) (resource.Quantity, error) {
	text := fallback
	if value != nil {
		text = value.String()
	}
	read, err := resource.ParseQuantity(text)
	if err != nil || read.Sign() <= 0 {
		return resource.Quantity{}, condition.Stop(condition.ReasonInvalidSpec,
			"%s is %q, which is not a positive quantity; write one such as 2, 500m or 4Gi", field, text)
	}
	return read, nil
}

func text(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
