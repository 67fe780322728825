package simulatordeployment

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/internal/render/part"
)

// llm-d's labels of model servers (llm-d-modelservice, "llm-d.ai/...").
const (
	labelServing = "llm-d.ai/inferenceServing"
	labelRole    = "llm-d.ai/role"
	labelModel   = "llm-d.ai/model"
)

const (
	// Simulator is the name of the container that simulates.
	Simulator = "simulator"
	// Sidecar is the name of the routing sidecar's container.
	Sidecar = "routing-proxy"

	// model is what the simulators serve.
	model = "random"

	enginePort  = 8200
	sidecarPort = 8000

	// portEngine is the simulator's port where the sidecar has the port "http".
	portEngine = "engine"

	startupSeconds = 300
	graceSeconds   = 60
	// preStopSeconds keeps a server accepting while the endpoint's removal travels
	// to every node, gateway and picker; what arrives in that time is answered.
	preStopSeconds = 3
)

// stages are the Deployments and Services of the simulators.
func (s stack) stages() []runtime.Object {
	var objects []runtime.Object
	for _, stage := range []stage{s.prefill, s.decode} {
		if stage.enabled {
			objects = append(objects,
				s.deployment(stage.component, stage.name, stage.replicas, s.simulatorPod(stage), ""),
				part.DisruptionBudget(s.meta(stage.component, stage.name), stage.replicas))
		}
	}
	for _, each := range s.services() {
		made := part.Service(each.meta, each.port)
		made.Spec.Type = each.kind
		objects = append(objects, made)
	}
	return objects
}

// simulators is a Service that leads to simulators.
type simulators struct {
	meta part.Meta
	port int32
	kind corev1.ServiceType
}

// services lead to the simulators, decode first.
func (s stack) services() []simulators {
	var made []simulators
	if s.service.wanted && s.decode.enabled {
		made = append(made, simulators{s.meta(Decode, s.service.name), s.service.port, s.service.kind})
	}
	for _, stage := range []stage{s.decode, s.prefill} {
		if s.staged && stage.enabled {
			made = append(made, simulators{s.meta(stage.component, stage.name), stage.port, corev1.ServiceTypeClusterIP})
		}
	}
	return made
}

func (s stack) meta(component Component, name string) part.Meta {
	return part.Meta{Namespace: s.namespace, Name: name, Labels: s.labels(component), Selector: s.selector(component)}
}

// deployment is a component's Deployment. What its pods read at their start only
// comes as a digest in an annotation, so that a change of it rolls them.
func (s stack) deployment(component Component, name string, replicas int32, pod corev1.PodSpec, digest string) *appsv1.Deployment {
	meta := s.meta(component, name)
	annotations := map[string]string{"kubectl.kubernetes.io/default-container": pod.Containers[0].Name}
	if digest != "" {
		annotations[part.AnnotationConfig] = digest
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: meta.ObjectMeta(),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: meta.Selector},
			// A new pod serves before an old one goes.
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0)),
				},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels, Annotations: annotations},
				Spec:       pod,
			},
		},
	}
}

func (s stack) simulatorPod(stage stage) corev1.PodSpec {
	pod := corev1.PodSpec{
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		ImagePullSecrets:              s.secrets(),
		TerminationGracePeriodSeconds: new(int64(graceSeconds)),
		SecurityContext:               part.RestrictedPod(),
		Volumes:                       []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	port := corev1.ContainerPort{Name: part.HTTP, ContainerPort: enginePort, Protocol: corev1.ProtocolTCP}
	switch {
	case s.routed() && stage.component == Decode:
		port.Name = portEngine
		pod.InitContainers = []corev1.Container{s.sidecarContainer()}
	case s.routed():
		port.ContainerPort = s.poolPort()
	}
	pod.Containers = []corev1.Container{simulator(stage, port)}
	return pod
}

func simulator(stage stage, port corev1.ContainerPort) corev1.Container {
	probes := part.HTTPProbes(port.Name, "/v1/models", "/health", startupSeconds)
	return corev1.Container{
		Name:            Simulator,
		Image:           stage.image,
		ImagePullPolicy: part.PullPolicy(stage.image),
		Args: append([]string{
			"--model", model, "--mode", "random", "--port", strconv.Itoa(int(port.ContainerPort)),
		}, stage.args...),
		// The simulator tells its pod in the headers of its answers.
		Env:                      []corev1.EnvVar{fromField("POD_NAME", "metadata.name"), fromField("POD_NAMESPACE", "metadata.namespace")},
		Ports:                    []corev1.ContainerPort{port},
		Resources:                stage.resources,
		StartupProbe:             probes.Startup,
		ReadinessProbe:           probes.Readiness,
		LivenessProbe:            probes.Liveness,
		Lifecycle:                sleepBeforeEnd(preStopSeconds),
		VolumeMounts:             []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
		SecurityContext:          part.RestrictedContainer(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// sidecarContainer asks the prefill pod that the picker chose, then the
// simulator. As an init container that goes on, it starts before the simulator
// and ends after it, so that no request in flight loses its way back.
func (s stack) sidecarContainer() corev1.Container {
	probes := part.HTTPProbes(part.HTTP, "/health", "/health", startupSeconds)
	return corev1.Container{
		Name:            Sidecar,
		Image:           s.sidecar.Image,
		ImagePullPolicy: part.PullPolicy(s.sidecar.Image),
		RestartPolicy:   new(corev1.ContainerRestartPolicyAlways),
		Args: []string{
			"--port=" + strconv.Itoa(sidecarPort),
			"--vllm-port=" + strconv.Itoa(enginePort),
			"--connector=nixlv2",
			"--secure-proxy=false",
		},
		Ports:     []corev1.ContainerPort{{Name: part.HTTP, ContainerPort: sidecarPort, Protocol: corev1.ProtocolTCP}},
		Resources: s.sidecar.Resources,
		// No startup probe: the simulator would wait for it before its own start.
		ReadinessProbe:           probes.Readiness,
		SecurityContext:          part.RestrictedContainer(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func fromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}
}

func sleepBeforeEnd(seconds int64) *corev1.Lifecycle {
	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}
}
