// Package llmdeployment renders an LLMDeployment and its LLMModel to the objects
// that serve the model. It is the one place that decides what they look like:
// the controller, `slipway plan` and the goldens call the same function. It
// reads nothing but its arguments.
package llmdeployment

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/part"
)

const (
	// Container is the name of the container that serves the model.
	Container = "llm-model"

	// LabelNameValue is object.LabelName's value on everything that is made here.
	LabelNameValue = "llm-model"

	// LabelModel names the LLMModel on every object made for it.
	LabelModel = "llm.example.com/model"

	defaultPort           = 8080
	defaultGraceSeconds   = 60
	defaultStartupSeconds = 1800

	// preStopSeconds keeps a server accepting while the endpoint's removal travels
	// to every node; what arrives in that time is answered and not refused.
	preStopSeconds = 3

	cacheDirectory = "/cache"
)

// Input is everything that the objects of an LLMDeployment depend on.
type Input struct {
	Deployment *llmv1alpha1.LLMDeployment
	Model      *llmv1alpha1.LLMModel
}

// Objects returns all objects wanted for a deployment, or a condition.Stop that
// says which field of which resource can't be rendered.
func Objects(in Input) ([]*unstructured.Unstructured, error) {
	meta := metaOf(in)
	deployment, err := workload(in, meta)
	if err != nil {
		return nil, err
	}
	claim, err := claim(in.Model, meta)
	if err != nil {
		return nil, err
	}
	return object.FromTyped(
		part.ServiceAccount(meta),
		claim,
		part.Service(meta, Port(in.Deployment)),
		deployment,
		part.DisruptionBudget(meta, in.Deployment.Spec.Replicas),
	)
}

// Port is the port of a deployment, with its default where the API server hasn't
// filled it in.
func Port(deployment *llmv1alpha1.LLMDeployment) int32 {
	if deployment.Spec.Port == 0 {
		return defaultPort
	}
	return deployment.Spec.Port
}

// URL is where the model answers inside the cluster.
func URL(deployment *llmv1alpha1.LLMDeployment) string {
	return fmt.Sprintf("http://%s.%s.svc:%d", deployment.Name, deployment.Namespace, Port(deployment))
}

// Identity is what the labels of a deployment's objects are made of.
func Identity(name string) object.Identity {
	return object.Identity{Name: LabelNameValue, Instance: name, Component: "server", PartOf: "llm"}
}

// Selector are the labels that find a deployment's pods. They follow from its
// name alone, because a Deployment's selector is immutable.
func Selector(name string) map[string]string {
	selector := Identity(name).Selector()
	selector["app"] = object.LabelValue(name)
	return selector
}

func metaOf(in Input) part.Meta {
	labels := Identity(in.Deployment.Name).Labels()
	labels["app"] = object.LabelValue(in.Deployment.Name)
	labels[LabelModel] = object.LabelValue(in.Model.Name)
	return part.Meta{
		Namespace: in.Deployment.Namespace,
		Name:      in.Deployment.Name,
		Labels:    labels,
		Selector:  Selector(in.Deployment.Name),
	}
}

func workload(in Input, meta part.Meta) (*appsv1.Deployment, error) {
	pod, err := podSpec(in, meta.Name)
	if err != nil {
		return nil, err
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: meta.ObjectMeta(),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(in.Deployment.Spec.Replicas),
			Selector: &metav1.LabelSelector{MatchLabels: meta.Selector},
			Strategy: strategy(in.Model),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: meta.Labels,
					// Where a pod has several containers, this is the one that
					// `kubectl logs` and `kubectl exec` mean.
					Annotations: map[string]string{"kubectl.kubernetes.io/default-container": Container},
				},
				Spec: pod,
			},
		},
	}, nil
}

// strategy replaces pods one by one and never below the wanted number, unless
// they hold GPUs: there is rarely a spare one, and a rollout that waits for one
// would wait for ever.
func strategy(model *llmv1alpha1.LLMModel) appsv1.DeploymentStrategy {
	surge, unavailable := intstr.FromInt32(1), intstr.FromInt32(0)
	if model.Spec.Resources.GPU > 0 {
		surge, unavailable = unavailable, surge
	}
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge:       &surge,
			MaxUnavailable: &unavailable,
		},
	}
}

func podSpec(in Input, account string) (corev1.PodSpec, error) {
	grace := in.Deployment.Spec.TerminationGracePeriodSeconds
	if grace == 0 {
		grace = defaultGraceSeconds
	}
	container, err := container(in, grace)
	if err != nil {
		return corev1.PodSpec{}, err
	}
	security := part.RestrictedPod()
	if in.Model.Spec.PodSecurity == llmv1alpha1.PodSecurityBaseline {
		security = part.BaselinePod()
	}
	return corev1.PodSpec{
		ServiceAccountName:            account,
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		ImagePullSecrets:              in.Model.Spec.ImagePullSecrets,
		NodeSelector:                  in.Deployment.Spec.NodeSelector,
		Tolerations:                   in.Deployment.Spec.Tolerations,
		TerminationGracePeriodSeconds: &grace,
		SecurityContext:               security,
		Containers:                    []corev1.Container{container},
		Volumes:                       volumes(in.Model, in.Deployment.Name),
	}, nil
}

func container(in Input, graceSeconds int64) (corev1.Container, error) {
	resources, err := resourcesOf(in.Model)
	if err != nil {
		return corev1.Container{}, err
	}
	port := Port(in.Deployment)
	launch := launchOf(in.Model, port)
	security := part.RestrictedContainer()
	if in.Model.Spec.PodSecurity == llmv1alpha1.PodSecurityBaseline {
		security = part.BaselineContainer()
	}
	return corev1.Container{
		Name:                     Container,
		Image:                    in.Model.Spec.Image,
		ImagePullPolicy:          part.PullPolicy(in.Model.Spec.Image),
		Command:                  in.Model.Spec.Command,
		Args:                     launch.args,
		Env:                      environment(in.Model, port, launch.env),
		EnvFrom:                  in.Model.Spec.EnvFrom,
		Ports:                    []corev1.ContainerPort{{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		Resources:                resources,
		StartupProbe:             launch.probes.Startup,
		ReadinessProbe:           launch.probes.Readiness,
		LivenessProbe:            launch.probes.Liveness,
		Lifecycle:                lifecycle(graceSeconds),
		VolumeMounts:             mounts(in.Model),
		SecurityContext:          security,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}, nil
}

// lifecycle waits before the server is told to end, where the grace period
// leaves the server at least as long to finish.
func lifecycle(graceSeconds int64) *corev1.Lifecycle {
	if graceSeconds < 2*preStopSeconds {
		return nil
	}
	return &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: preStopSeconds}},
	}
}

// environment is sorted: a map's random order would roll the pods at every
// reconcile.
func environment(model *llmv1alpha1.LLMModel, port int32, engine []corev1.EnvVar) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "PORT", Value: fmt.Sprint(port)},
		{Name: "MODEL_NAME", Value: model.Spec.ModelName},
	}
	env = append(env, engine...)
	user := model.Spec.EnvironmentVariables
	if model.Spec.PodSecurity != llmv1alpha1.PodSecurityBaseline {
		// The only writable places of a restricted container, told to the
		// libraries that look for one.
		for _, variable := range []corev1.EnvVar{
			{Name: "HOME", Value: cacheDirectory},
			{Name: "HF_HOME", Value: cacheDirectory + "/huggingface"},
		} {
			if _, set := user[variable.Name]; !set {
				env = append(env, variable)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(user)) {
		env = append(env, corev1.EnvVar{Name: name, Value: user[name]})
	}
	return env
}
