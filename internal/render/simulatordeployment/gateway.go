package simulatordeployment

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/part"
)

const (
	gatewayPort      = 80
	gatewayAdminPort = 19000

	// gatewayPreStopSeconds is longer than a simulator's: Envoy ends its streams at
	// once when it is told to end, so that what is in flight must be through before.
	gatewayPreStopSeconds  = 10
	gatewayGraceSeconds    = 30
	gatewayStartupSeconds  = 60
	gatewayConfigKey       = "envoy.yaml"
	gatewayConfigDirectory = "/etc/envoy"

	// The users of the images: kgateway's envoy-wrapper, and Istio's proxyv2.
	standardUser int64 = 10101
	istioUser    int64 = 1337
)

// gateways are the Envoy gateways: for each the bootstrap, a Deployment, a Service.
func (s stack) gateways() ([]runtime.Object, error) {
	if len(s.envoys) == 0 {
		return nil, nil
	}
	bootstrap, err := s.bootstrap()
	if err != nil {
		return nil, err
	}
	config := map[string]string{gatewayConfigKey: bootstrap}
	hash := object.Hash(config).String()
	var objects []runtime.Object
	for _, each := range s.envoys {
		meta := s.meta(each.component, each.name)
		objects = append(objects,
			part.ConfigMap(meta, config),
			gatewayService(meta, each.port),
			s.deployment(each.component, each.name, each.replicas, s.gatewayPod(each), hash),
			part.DisruptionBudget(meta, each.replicas))
	}
	return objects, nil
}

func gatewayService(meta part.Meta, port int32) *corev1.Service {
	service := part.Service(meta, port)
	service.Spec.Ports[0].TargetPort = intstr.FromInt32(gatewayPort)
	return service
}

func (s stack) gatewayPod(each envoy) corev1.PodSpec {
	user := standardUser
	if each.component == IstioGateway {
		user = istioUser
	}
	security := part.RestrictedPod()
	security.RunAsUser, security.RunAsGroup, security.FSGroup = &user, &user, &user
	// Port 80 without a capability; this sysctl belongs to the pod's own network
	// and is safe under the restricted Pod Security Standard.
	security.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
	return corev1.PodSpec{
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		ImagePullSecrets:              s.secrets(),
		TerminationGracePeriodSeconds: new(int64(gatewayGraceSeconds)),
		SecurityContext:               security,
		Volumes:                       []corev1.Volume{configVolume(each.name)},
		Containers:                    []corev1.Container{gatewayContainer(each)},
	}
}

func gatewayContainer(each envoy) corev1.Container {
	// Envoy's admin answers on a port of its own; its /ready is false while it
	// drains, /server_info is not.
	probes := part.HTTPProbes("admin", "/ready", "/server_info", gatewayStartupSeconds)
	container := corev1.Container{
		Name:            "envoy",
		Image:           each.image,
		ImagePullPolicy: part.PullPolicy(each.image),
		Env:             []corev1.EnvVar{fromField("POD_NAME", "metadata.name"), fromField("POD_NAMESPACE", "metadata.namespace")},
		Ports: []corev1.ContainerPort{
			{Name: part.HTTP, ContainerPort: gatewayPort, Protocol: corev1.ProtocolTCP},
			{Name: "admin", ContainerPort: gatewayAdminPort, Protocol: corev1.ProtocolTCP},
		},
		Resources:                each.resources,
		StartupProbe:             probes.Startup,
		ReadinessProbe:           probes.Readiness,
		LivenessProbe:            probes.Liveness,
		Lifecycle:                sleepBeforeEnd(gatewayPreStopSeconds),
		VolumeMounts:             []corev1.VolumeMount{{Name: volumeConfig, MountPath: gatewayConfigDirectory, ReadOnly: true}},
		SecurityContext:          part.RestrictedContainer(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if each.component == IstioGateway {
		// The image's entrypoint wants Istio's control plane; Envoy alone doesn't.
		container.Command = []string{"/usr/local/bin/envoy"}
		container.Args = []string{
			"-c", gatewayConfigDirectory + "/" + gatewayConfigKey,
			"--service-node", "$(POD_NAME)", "--service-cluster", "gateway",
		}
	}
	return container
}
