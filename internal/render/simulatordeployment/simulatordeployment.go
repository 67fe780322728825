// Package simulatordeployment renders a SimulatorDeployment to the objects of an
// llm-d stack: simulators in stages, the endpoint picker with its pool, and the
// gateways in front. It is the one place that decides what they look like: the
// controller, `slipway plan` and the goldens call the same function. It reads
// nothing but its arguments.
//
// The ports of a stack, as the specification's port map has them:
//
//	gateway   Service 8080 -> 80, admin and probes on 19000
//	picker    Service 8100 -> 9002 (ext_proc), health 9003, metrics 9090
//	stages    Service 8200 -> 8200, or, where both stages are there,
//	          decode: 8200 -> the routing sidecar's 8000 -> the simulator's 8200,
//	          prefill: 8200 -> 8000, because a pool has one port for all its pods
package simulatordeployment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
)

// LabelNameValue is object.LabelName's value on everything that is made here.
const LabelNameValue = "llm-d-simulator"

// Input is everything that the objects of a SimulatorDeployment depend on.
type Input struct {
	Deployment *simv1alpha1.SimulatorDeployment
	Served     Served
}

// Objects returns all objects wanted for a deployment. An error is a
// condition.Stop: the spec asks for what can't be.
func Objects(in Input) ([]*unstructured.Unstructured, error) {
	s := stackOf(in)
	if err := s.clash(); err != nil {
		return nil, err
	}
	wanted := s.stages()
	for _, part := range []func() ([]runtime.Object, error){s.picker, s.gateways, s.gatewayAPI, s.loadBalancing} {
		objects, err := part()
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, objects...)
	}
	return object.FromTyped(wanted...)
}

// Part is one Deployment of a stack.
type Part struct {
	Component Component
	Name      string // of its Deployment
	Condition string // that tells of it
	Replicas  int32  // that are wanted
	Selector  map[string]string
}

// Component is a part's name in the label "app.kubernetes.io/component".
type Component string

// The components of a stack.
const (
	Prefill         Component = "prefill"
	Decode          Component = "decode"
	Picker          Component = "epp"
	StandardGateway Component = "standard-gateway"
	IstioGateway    Component = "istio-gateway"
)

// Parts are the Deployments that a stack has, simulators first: what stands in
// the way of one part is told before what follows from it.
func Parts(deployment *simv1alpha1.SimulatorDeployment) []Part {
	s := stackOf(Input{Deployment: deployment})
	var parts []Part
	add := func(wanted bool, component Component, name, condition string, replicas int32) {
		if wanted {
			parts = append(parts, Part{component, name, condition, replicas, s.selector(component)})
		}
	}
	add(s.prefill.enabled, Prefill, s.prefill.name, simv1alpha1.ConditionPrefillReady, s.prefill.replicas)
	add(s.decode.enabled, Decode, s.decode.name, simv1alpha1.ConditionDecodeReady, s.decode.replicas)
	add(s.epp.enabled, Picker, s.epp.name, simv1alpha1.ConditionPickerReady, s.epp.replicas)
	for _, g := range s.envoys {
		condition := simv1alpha1.ConditionStandardGatewayReady
		if g.component == IstioGateway {
			condition = simv1alpha1.ConditionIstioGatewayReady
		}
		add(true, g.component, g.name, condition, g.replicas)
	}
	return parts
}

// Endpoints are the URLs of the simulators' Services inside the cluster.
func Endpoints(deployment *simv1alpha1.SimulatorDeployment) []string {
	s := stackOf(Input{Deployment: deployment})
	var urls []string
	for _, service := range s.services() {
		urls = append(urls, s.url(service.meta.Name, service.port))
	}
	return urls
}

// GatewayURL is where requests go in, inside the cluster: the first of the Envoy
// gateways, or nothing.
func GatewayURL(deployment *simv1alpha1.SimulatorDeployment) string {
	s := stackOf(Input{Deployment: deployment})
	if len(s.envoys) == 0 {
		return ""
	}
	return s.url(s.envoys[0].name, s.envoys[0].port)
}

// ScaleSelector are the labels of the pods that the scale subresource counts.
func ScaleSelector(deployment *simv1alpha1.SimulatorDeployment) map[string]string {
	return stackOf(Input{Deployment: deployment}).selector(Decode)
}

// HasStages tells whether a stack has stages, or only simulators.
func HasStages(deployment *simv1alpha1.SimulatorDeployment) bool {
	return isEnabled(deployment.Spec.Prefill) || isEnabled(deployment.Spec.Decode)
}

// HasPicker tells whether a stack has an endpoint picker.
func HasPicker(deployment *simv1alpha1.SimulatorDeployment) bool {
	return deployment.Spec.EPP != nil && deployment.Spec.EPP.Enabled
}

// PickerAccount is the ServiceAccount of a stack's picker.
func PickerAccount(deployment *simv1alpha1.SimulatorDeployment) string {
	return stackOf(Input{Deployment: deployment}).epp.name
}

func (s stack) url(service string, port int32) string {
	return fmt.Sprintf("http://%s.%s.svc:%d", service, s.namespace, port)
}

// identity is what the labels of a component's objects are made of.
func (s stack) identity(component Component) object.Identity {
	return object.Identity{Name: LabelNameValue, Instance: s.instance, Component: string(component), PartOf: "llm-d"}
}

// selector finds the pods of a component. It follows from the resource's name
// alone, because a Deployment's selector is immutable.
func (s stack) selector(component Component) map[string]string {
	return s.identity(component).Selector()
}

// labels are the labels of a component's objects. "component" is the
// specification's own (kubectl logs -l component=gateway), and "llm-d.ai/role"
// what the picker sorts pods by.
func (s stack) labels(component Component) map[string]string {
	labels := s.identity(component).Labels()
	switch component {
	case Prefill, Decode:
		labels["component"] = string(component)
		labels[labelServing] = "true"
		labels[labelRole] = string(component)
		labels[labelModel] = model
	case Picker:
		labels["component"] = "epp"
	case StandardGateway, IstioGateway:
		labels["component"] = "gateway"
	}
	return labels
}

// secrets are the pull secrets of every pod.
func (s stack) secrets() []corev1.LocalObjectReference {
	return s.in.Deployment.Spec.ImagePullSecrets
}
