package simulatordeployment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/part"
)

// The groups of the Gateway API Inference Extension.
const (
	GroupInference  = "inference.networking.k8s.io"   // InferencePool v1
	GroupInferenceX = "inference.networking.x-k8s.io" // InferencePool v1alpha2, InferenceObjective
)

const (
	pickerGRPCPort    = 9002
	pickerHealthPort  = 9003
	pickerMetricsPort = 9090

	// pickerPreStopSeconds lets a single picker serve until the one that takes its
	// place does: without one no request is answered.
	pickerPreStopSeconds = 10

	pickerConfigKey  = "default-plugins.yaml"
	pickerConfigPath = "/config"
)

// picker is the endpoint picker: its account and rights, configuration,
// Deployment, Service, and the pool where the cluster serves that kind.
func (s stack) picker() ([]runtime.Object, error) {
	if !s.epp.enabled {
		return nil, nil
	}
	meta := s.meta(Picker, s.epp.name)
	config := map[string]string{pickerConfigKey: s.pickerConfig()}
	objects := []runtime.Object{
		part.ServiceAccount(meta),
		part.ConfigMap(meta, config),
		&rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: meta.ObjectMeta(),
			Rules:      PickerRules(s.in.Served),
		},
		pickerBinding(meta),
		pickerService(meta, s.epp.port),
		s.deployment(Picker, s.epp.name, s.epp.replicas, s.pickerPod(), object.Hash(config).String()),
		part.DisruptionBudget(meta, s.epp.replicas),
	}
	for _, version := range []string{s.in.Served.Pool, s.in.Served.OlderPool} {
		if version != "" {
			objects = append(objects, s.pool(version))
		}
	}
	return objects, nil
}

// followsPool tells whether the picker learns its pods from an InferencePool, or
// from its own flags.
func followsPool(served Served) bool { return served.Pool != "" && served.Objectives }

// PickerRules are the least rights of a picker in its namespace. The operator
// holds them too, or it could not grant them.
func PickerRules(served Served) []rbacv1.PolicyRule {
	read := []string{"get", "list", "watch"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: read}}
	if !followsPool(served) {
		return rules
	}
	pools := map[string]string{"v1": GroupInference, "v1alpha2": GroupInferenceX}
	for _, version := range []string{served.Pool, served.OlderPool} {
		if version != "" {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{pools[version]}, Resources: []string{"inferencepools"}, Verbs: read})
		}
	}
	return append(rules, rbacv1.PolicyRule{APIGroups: []string{GroupInferenceX}, Resources: []string{"inferenceobjectives"}, Verbs: read})
}

func pickerBinding(meta part.Meta) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: meta.ObjectMeta(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: meta.Name, Namespace: meta.Namespace}},
	}
}

func pickerService(meta part.Meta, port int32) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta.ObjectMeta(),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: meta.Selector,
			Ports: []corev1.ServicePort{
				{Name: "grpc", Protocol: corev1.ProtocolTCP, AppProtocol: new("http2"), Port: port, TargetPort: intstr.FromString("grpc")},
				{Name: "health", Protocol: corev1.ProtocolTCP, AppProtocol: new("http2"), Port: pickerHealthPort, TargetPort: intstr.FromString("health")},
				{Name: "metrics", Protocol: corev1.ProtocolTCP, AppProtocol: new("http"), Port: pickerMetricsPort, TargetPort: intstr.FromString("metrics")},
			},
		},
	}
}

func (s stack) pickerPod() corev1.PodSpec {
	probes := part.GRPCProbes(pickerHealthPort, startupSeconds)
	return corev1.PodSpec{
		ServiceAccountName: s.epp.name,
		// The account's default is no token; the picker watches pods.
		AutomountServiceAccountToken:  new(true),
		EnableServiceLinks:            new(false),
		ImagePullSecrets:              s.secrets(),
		TerminationGracePeriodSeconds: new(int64(graceSeconds)),
		SecurityContext:               part.RestrictedPod(),
		Volumes:                       []corev1.Volume{configVolume(s.epp.name)},
		Containers: []corev1.Container{{
			Name:            "epp",
			Image:           s.epp.image,
			ImagePullPolicy: part.PullPolicy(s.epp.image),
			Args:            s.pickerArgs(),
			// Without a pool the picker calls itself after its pod.
			Env: []corev1.EnvVar{fromField("NAMESPACE", "metadata.namespace"), fromField("POD_NAME", "metadata.name")},
			Ports: []corev1.ContainerPort{
				{Name: "grpc", ContainerPort: pickerGRPCPort, Protocol: corev1.ProtocolTCP},
				{Name: "health", ContainerPort: pickerHealthPort, Protocol: corev1.ProtocolTCP},
				{Name: "metrics", ContainerPort: pickerMetricsPort, Protocol: corev1.ProtocolTCP},
			},
			Resources:                s.epp.resources,
			StartupProbe:             probes.Startup,
			ReadinessProbe:           probes.Readiness,
			LivenessProbe:            probes.Liveness,
			Lifecycle:                sleepBeforeEnd(pickerPreStopSeconds),
			VolumeMounts:             []corev1.VolumeMount{{Name: volumeConfig, MountPath: pickerConfigPath, ReadOnly: true}},
			SecurityContext:          part.RestrictedContainer(),
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
	}
}

const volumeConfig = "config"

func configVolume(name string) corev1.Volume {
	return corev1.Volume{Name: volumeConfig, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}}
}

// pickerArgs is the picker's command line (llm-d-inference-scheduler v0.4.0). It
// speaks plain gRPC: its TLS would be self-signed, and the gateway couldn't tell
// it from another's.
func (s stack) pickerArgs() []string {
	var which []string
	if followsPool(s.in.Served) {
		group := GroupInference
		if s.in.Served.Pool != "v1" {
			group = GroupInferenceX
		}
		which = []string{"--pool-name=" + s.poolName(), "--pool-namespace=" + s.namespace, "--pool-group=" + group}
	} else {
		which = []string{
			"--endpoint-selector=" + equalities(s.poolSelector()),
			"--endpoint-target-ports=" + strconv.Itoa(int(s.poolPort())),
			"--pool-namespace=" + s.namespace,
		}
	}
	return append(which,
		fmt.Sprintf("--grpc-port=%d", pickerGRPCPort),
		fmt.Sprintf("--grpc-health-port=%d", pickerHealthPort),
		fmt.Sprintf("--metrics-port=%d", pickerMetricsPort),
		"--config-file="+pickerConfigPath+"/"+pickerConfigKey,
		"--secure-serving=false",
		"--metrics-endpoint-auth=false",
		"--tracing=false",
		"--zap-encoder=json",
	)
}

func (s stack) poolName() string { return s.name("gaie-sim") }

// poolSelector finds every pod that the picker may choose, of both stages.
func (s stack) poolSelector() map[string]string {
	return map[string]string{object.LabelInstance: object.LabelValue(s.instance), labelServing: "true"}
}

func equalities(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ",")
}

// pool is the InferencePool in a version that the cluster serves. The picker
// fails closed: Envoy can't do otherwise with bodies in full duplex.
func (s stack) pool(version string) *unstructured.Unstructured {
	selector := map[string]any{}
	for key, value := range s.poolSelector() {
		selector[key] = value
	}
	group, spec := GroupInference, map[string]any{
		"selector":    map[string]any{"matchLabels": selector},
		"targetPorts": []any{map[string]any{"number": int64(s.poolPort())}},
		"endpointPickerRef": map[string]any{
			"group": "", "kind": "Service", "name": s.epp.name,
			"port": map[string]any{"number": int64(s.epp.port)}, "failureMode": "FailClose",
		},
	}
	if version != "v1" {
		group, spec = GroupInferenceX, map[string]any{
			"selector":         selector,
			"targetPortNumber": int64(s.poolPort()),
			"extensionRef": map[string]any{
				"group": "", "kind": "Service", "name": s.epp.name,
				"portNumber": int64(s.epp.port), "failureMode": "FailClose",
			},
		}
	}
	return s.custom(Picker, group+"/"+version, "InferencePool", s.poolName(), spec)
}

// custom is an object of an API that the cluster may or may not serve.
func (s stack) custom(component Component, apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	made.SetAPIVersion(apiVersion)
	made.SetKind(kind)
	made.SetNamespace(s.namespace)
	made.SetName(name)
	made.SetLabels(s.labels(component))
	return made
}
