package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// Algorithm is a way to spread requests over pods.
//
// +kubebuilder:validation:Enum=ROUND_ROBIN;LEAST_REQUEST;RANDOM;LEAST_CONN
type Algorithm string

// The algorithms, in the specification's words.
const (
	AlgorithmRoundRobin   Algorithm = "ROUND_ROBIN"
	AlgorithmLeastRequest Algorithm = "LEAST_REQUEST"
	AlgorithmRandom       Algorithm = "RANDOM"
	// AlgorithmLeastConn is LEAST_REQUEST: Istio retired the older name.
	AlgorithmLeastConn Algorithm = "LEAST_CONN"
)

// ServiceConfig names the Service in front of the simulators.
type ServiceConfig struct {
	// Name of the Service.
	// +optional
	// +kubebuilder:default=gaie-inference-scheduling-proxy
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="service.name must be a Service's name: write lower-case letters, digits and hyphens, the first one a letter"
	Name string `json:"name,omitempty"`

	// Port of the Service.
	// +optional
	// +kubebuilder:default=8200
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="service.port must be a whole number from 1 to 65535, such as 8200"
	Port int32 `json:"port,omitempty"`

	// Type of the Service.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
}

// GatewayConfig asks for a Gateway and an HTTPRoute of the Gateway API.
type GatewayConfig struct {
	// Enable the Gateway and its HTTPRoute.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Name of the GatewayClass.
	// +optional
	// +kubebuilder:default=istio
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:MinLength=1
	ClassName string `json:"className,omitempty"`

	// Name of the HTTPRoute.
	// +optional
	// +kubebuilder:default=infra-sim-inference-gateway
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="gateway.routeName must be a name: write lower-case letters, digits and hyphens, the first one a letter"
	RouteName string `json:"routeName,omitempty"`
}

// ConnectionPoolConfig bounds the connections that a client's sidecar keeps.
type ConnectionPoolConfig struct {
	// Requests that may wait for a connection.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	HTTP1MaxPendingRequests int32 `json:"http1MaxPendingRequests,omitempty"`

	// Requests that one connection carries; with 1 each request is balanced anew.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	MaxRequestsPerConnection int32 `json:"maxRequestsPerConnection,omitempty"`
}

// LoadBalancingConfig asks for an Istio DestinationRule.
type LoadBalancingConfig struct {
	// Enable custom load balancing.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Algorithm: ROUND_ROBIN, LEAST_REQUEST, RANDOM or LEAST_CONN.
	// +optional
	// +kubebuilder:default=ROUND_ROBIN
	Algorithm Algorithm `json:"algorithm,omitempty"`

	// Connection pool settings.
	// +optional
	ConnectionPool *ConnectionPoolConfig `json:"connectionPool,omitempty"`
}

// EPPConfig asks for the endpoint picker.
type EPPConfig struct {
	// Enable the endpoint picker.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Number of picker pods.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 100",message="epp.replicas must be a whole number from 0 to 100"
	Replicas *int32 `json:"replicas,omitempty"`

	// Image of the picker.
	// +optional
	// +kubebuilder:default="ghcr.io/llm-d/llm-d-inference-scheduler:v0.4.0"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._:/@-]*$') && !self.contains('://')",message="epp.image must be an image reference such as ghcr.io/llm-d/llm-d-inference-scheduler:v0.4.0, without a scheme like https:// and without spaces"
	Image string `json:"image,omitempty"`

	// Port of the picker's Service. The picker itself listens on 9002.
	// +optional
	// +kubebuilder:default=8100
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535 && self != 9003 && self != 9090",message="epp.port must be a whole number from 1 to 65535, such as 8100, and neither 9003 (health) nor 9090 (metrics)"
	Port int32 `json:"port,omitempty"`

	// CPU and memory requests and limits of the picker.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
}

// GatewayInstanceConfig asks for one Envoy gateway.
type GatewayInstanceConfig struct {
	// Enable this gateway.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Number of gateway pods.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 100",message="replicas of a gateway must be a whole number from 0 to 100"
	Replicas *int32 `json:"replicas,omitempty"`

	// Image of the gateway. Default:
	// cr.kgateway.dev/kgateway-dev/envoy-wrapper:v2.1.1 for the standard gateway,
	// docker.io/istio/proxyv2:1.28.1 for Istio's.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._:/@-]*$') && !self.contains('://')",message="image of a gateway must be an image reference such as docker.io/istio/proxyv2:1.28.1, without a scheme like https:// and without spaces"
	Image string `json:"image,omitempty"`

	// Port of the gateway's Service. The gateway itself listens on 80.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="port of a gateway must be a whole number from 1 to 65535, such as 8080"
	Port int32 `json:"port,omitempty"`

	// CPU and memory requests and limits of the gateway.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
}

// InferenceGatewayConfig asks for gateways in front of the simulators.
type InferenceGatewayConfig struct {
	// Enable inference gateways.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// The standard gateway, kgateway's Envoy.
	// +optional
	Standard *GatewayInstanceConfig `json:"standard,omitempty"`

	// Istio's Envoy, without Istio's control plane.
	// +optional
	Istio *GatewayInstanceConfig `json:"istio,omitempty"`
}

// StageConfig asks for the pods of one stage, prefill or decode.
type StageConfig struct {
	// Enable this stage.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// Number of pods of this stage; 2 if absent. For decode an absent number is
	// spec.replicas, so that kubectl scale works.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 10000",message="replicas of a stage must be a whole number from 0 to 10000"
	Replicas *int32 `json:"replicas,omitempty"`

	// Image of the simulator.
	// +optional
	// +kubebuilder:default="docker.io/library/llm-d-simulator:local"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._:/@-]*$') && !self.contains('://')",message="image of a stage must be an image reference such as docker.io/library/llm-d-simulator:local, without a scheme like https:// and without spaces"
	Image string `json:"image,omitempty"`

	// Port of the stage's Service.
	// +optional
	// +kubebuilder:default=8200
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="port of a stage must be a whole number from 1 to 65535, such as 8200"
	Port int32 `json:"port,omitempty"`

	// CPU and memory requests and limits of a simulator.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`

	// Additional arguments of the simulator, such as --time-to-first-token=200ms.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +kubebuilder:validation:XValidation:rule="self.all(a, a != '--port' && !a.startsWith('--port='))",message="args must not hold --port: the Services and the picker lead to the operator's own ports; write port of the stage for the Service's"
	Args []string `json:"args,omitempty"`
}

// RoutingSidecarConfig is about the proxy in decode pods that asks a prefill pod
// first.
type RoutingSidecarConfig struct {
	// Image of the sidecar.
	// +optional
	// +kubebuilder:default="ghcr.io/llm-d/llm-d-routing-sidecar:v0.4.0"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._:/@-]*$') && !self.contains('://')",message="routingSidecar.image must be an image reference such as ghcr.io/llm-d/llm-d-routing-sidecar:v0.4.0, without a scheme like https:// and without spaces"
	Image string `json:"image,omitempty"`

	// CPU and memory requests and limits of the sidecar.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
}
