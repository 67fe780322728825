package simulatordeployment

import (
	corev1 "k8s.io/api/core/v1"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
)

// DefaultReplicas is how many simulators there are where the spec names no number.
const DefaultReplicas = 2

// The specification's defaults, which the CRD writes too: a manifest that never
// met an API server is rendered the same.
const (
	defaultSingle        = 1
	defaultImage         = "ghcr.io/llm-d/llm-d-simulator:latest"
	defaultStageImage    = "docker.io/library/llm-d-simulator:local"
	defaultPickerImage   = "ghcr.io/llm-d/llm-d-inference-scheduler:v0.4.0"
	defaultSidecarImage  = "ghcr.io/llm-d/llm-d-routing-sidecar:v0.4.0"
	defaultStandardImage = "cr.kgateway.dev/kgateway-dev/envoy-wrapper:v2.1.1"
	defaultIstioImage    = "docker.io/istio/proxyv2:1.28.1"
	defaultServiceName   = "gaie-inference-scheduling-proxy"
	defaultRouteName     = "infra-sim-inference-gateway"
	defaultClassName     = "istio"
	defaultServicePort   = 8200
	defaultPickerPort    = 8100
	defaultGatewayPort   = 8080
)

// stack is a spec with its defaults filled in and its names made.
type stack struct {
	in        Input
	namespace string
	instance  string
	// staged is false for the form without stages, whose simulators count as
	// decode pods under names of their own.
	staged  bool
	prefill stage
	decode  stage
	service service
	epp     picker
	envoys  []envoy // wanted ones only
	sidecar simv1alpha1.RoutingSidecarConfig
}

type stage struct {
	enabled   bool
	component Component
	name      string
	replicas  int32
	image     string
	port      int32 // of the Service
	resources corev1.ResourceRequirements
	args      []string
}

// service is the Service with the name that a user chooses.
type service struct {
	wanted bool
	name   string
	port   int32
	kind   corev1.ServiceType
}

type picker struct {
	enabled   bool
	name      string
	replicas  int32
	image     string
	port      int32 // of the Service
	resources corev1.ResourceRequirements
}

type envoy struct {
	component Component
	name      string
	replicas  int32
	image     string
	port      int32 // of the Service
	resources corev1.ResourceRequirements
}

func stackOf(in Input) stack {
	spec := in.Deployment.Spec
	s := stack{in: in, namespace: in.Deployment.Namespace, instance: in.Deployment.Name}
	s.staged = HasStages(in.Deployment)
	s.prefill = s.stageOf(Prefill, spec.Prefill, DefaultReplicas)
	s.decode = s.stageOf(Decode, spec.Decode, or(spec.Replicas, DefaultReplicas))
	s.service = s.serviceOf(spec.Service)
	if !s.staged {
		s.decode = stage{
			enabled: true, component: Decode, name: s.name("ms-sim", s.instance, "decode"),
			replicas: or(spec.Replicas, DefaultReplicas), image: text(spec.Image, defaultImage),
			port: s.service.port, resources: spec.Resources,
		}
	}
	s.epp = s.pickerOf(spec.EPP)
	s.envoys = s.envoysOf(spec.InferenceGateway)
	if spec.RoutingSidecar != nil {
		s.sidecar = *spec.RoutingSidecar
	}
	s.sidecar.Image = text(s.sidecar.Image, defaultSidecarImage)
	return s
}

func (s stack) stageOf(component Component, config *simv1alpha1.StageConfig, replicas int32) stage {
	// A route may lead to a stage that isn't enabled yet.
	made := stage{component: component, name: s.name("ms-sim-llm-d-modelservice", string(component)), port: defaultServicePort}
	if !isEnabled(config) {
		return made
	}
	made.enabled = true
	made.replicas = or(config.Replicas, replicas)
	made.image = text(config.Image, defaultStageImage)
	made.port = number(config.Port, defaultServicePort)
	made.resources, made.args = config.Resources, config.Args
	return made
}

// serviceOf is the Service that a user names. With stages it is made only where
// the spec has one: the stages have Services of their own.
func (s stack) serviceOf(config *simv1alpha1.ServiceConfig) service {
	made := service{wanted: !s.staged || config != nil}
	if config == nil {
		config = &simv1alpha1.ServiceConfig{}
	}
	made.name = s.name(text(config.Name, defaultServiceName))
	made.port = number(config.Port, defaultServicePort)
	made.kind = config.Type
	if made.kind == "" {
		made.kind = corev1.ServiceTypeClusterIP
	}
	return made
}

func (s stack) pickerOf(config *simv1alpha1.EPPConfig) picker {
	made := picker{name: s.name("gaie-sim-epp")}
	if config == nil || !config.Enabled {
		return made
	}
	made.enabled = true
	made.replicas = or(config.Replicas, defaultSingle)
	made.image = text(config.Image, defaultPickerImage)
	made.port = number(config.Port, defaultPickerPort)
	made.resources = config.Resources
	return made
}

func (s stack) envoysOf(config *simv1alpha1.InferenceGatewayConfig) []envoy {
	if config == nil || !config.Enabled {
		return nil
	}
	var made []envoy
	for _, each := range []struct {
		config    *simv1alpha1.GatewayInstanceConfig
		component Component
		name      string
		image     string
	}{
		{config.Standard, StandardGateway, "infra-sim-inference-gateway", defaultStandardImage},
		{config.Istio, IstioGateway, "infra-sim-inference-gateway-istio", defaultIstioImage},
	} {
		if each.config == nil || !each.config.Enabled {
			continue
		}
		made = append(made, envoy{
			component: each.component,
			name:      s.name(each.name),
			replicas:  or(each.config.Replicas, defaultSingle),
			image:     text(each.config.Image, each.image),
			port:      number(each.config.Port, defaultGatewayPort),
			resources: each.config.Resources,
		})
	}
	return made
}

// routed tells whether decode pods ask a prefill pod first.
func (s stack) routed() bool { return s.prefill.enabled && s.decode.enabled }

// poolPort is where the picker sends requests: one port for all pods of a pool.
func (s stack) poolPort() int32 {
	if s.routed() {
		return sidecarPort
	}
	return enginePort
}

// front is the Service that leads to the decode pods.
func (s stack) front() (name string, port int32) {
	if s.staged {
		return s.decode.name, s.decode.port
	}
	return s.service.name, s.service.port
}

// name makes the name of an object.
func (s stack) name(parts ...string) string {
	if prefix := s.in.Deployment.Spec.NamePrefix; prefix != "" {
		parts[0] = prefix + parts[0]
	}
	return object.Name(parts...)
}

func isEnabled(config *simv1alpha1.StageConfig) bool { return config != nil && config.Enabled }

func or(value *int32, fallback int32) int32 {
	if value == nil {
		return fallback
	}
	return *value
}

func text(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

func number(value, fallback int32) int32 {
	if value == 0 {
		return fallback
	}
	return value
}
