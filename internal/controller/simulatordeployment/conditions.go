package simulatordeployment

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// What the optional conditions say where an API isn't served.
const (
	noDecode = "there are prefill pods and no decode pods, so no request can be answered; set spec.decode.enabled: true"
	noTarget = "spec.loadBalancing spreads requests over decode pods, and there are none; set spec.decode.enabled: true"
	noIstio  = "the cluster doesn't serve DestinationRules (networking.istio.io), so spec.loadBalancing has no effect " +
		"and requests are spread evenly; install Istio, or set spec.loadBalancing.enabled: false"
	noGatewayAPI = "the cluster doesn't serve Gateways and HTTPRoutes (gateway.networking.k8s.io); " +
		"install the Gateway API, or set spec.gateway.enabled: false"
)

// partConditions are all that a part may have; those of a part that isn't wanted
// go.
var partConditions = []string{
	simv1alpha1.ConditionPrefillReady, simv1alpha1.ConditionDecodeReady, simv1alpha1.ConditionPickerReady,
	simv1alpha1.ConditionStandardGatewayReady, simv1alpha1.ConditionIstioGatewayReady,
	simv1alpha1.ConditionGatewayProgrammed, simv1alpha1.ConditionLoadBalancingReady,
}

func setConditions(conditions *[]metav1.Condition, facts *facts, result apply.Result, parts []part, now metav1.Time) {
	wanted := map[string]metav1.Condition{}
	for _, each := range parts {
		wanted[each.Condition] = conditionOf(facts, each, parts)
	}
	if simulatordeployment.WantsLoadBalancing(facts.deployment) {
		wanted[simv1alpha1.ConditionLoadBalancingReady] = loadBalancing(facts)
	}
	if simulatordeployment.WantsGatewayAPI(facts.deployment) {
		wanted[simv1alpha1.ConditionGatewayProgrammed] = programmed(facts, gatewayIn(result))
	}
	for _, kind := range partConditions {
		made, is := wanted[kind]
		if !is {
			condition.Remove(conditions, kind)
			continue
		}
		made.Type, made.ObservedGeneration = kind, facts.deployment.Generation
		condition.Set(conditions, made, now)
	}
}

// conditionOf tells of one part.
func conditionOf(facts *facts, each part, parts []part) metav1.Condition {
	made := metav1.Condition{Status: metav1.ConditionFalse, Reason: condition.ReasonProgressing}
	switch {
	case each.serves():
		made.Status, made.Reason = metav1.ConditionTrue, reasonServing
		made.Message = each.fraction() + " pods ready"
		if each.Replicas == 0 {
			made.Reason = reasonScaledToZero
		}
	case each.finding != nil && !isProgress(*each.finding):
		made.Reason, made.Message = each.finding.Reason, each.finding.Message
	default:
		made.Message = "waiting for " + pods(each.Replicas)
	}
	if each.Component == simulatordeployment.Picker && each.serves() {
		made = picks(facts, made, parts)
	}
	if each.Component == simulatordeployment.Decode {
		made.Message += overruled(facts.deployment)
	}
	return made
}

// picks adds to a picker that serves how many pods it can route to.
func picks(facts *facts, made metav1.Condition, parts []part) metav1.Condition {
	if blind(facts.deployment) {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonNoDecodeStage, Message: noDecode}
	}
	var decode, prefill int32
	for _, each := range parts {
		switch each.Component {
		case simulatordeployment.Decode:
			decode = each.counted("readyReplicas")
		case simulatordeployment.Prefill:
			prefill = each.counted("readyReplicas")
		}
	}
	made.Message += fmt.Sprintf("; can route to %d decode", decode)
	if facts.deployment.Spec.Prefill != nil && facts.deployment.Spec.Prefill.Enabled {
		made.Message += fmt.Sprintf(" and %d prefill", prefill)
	}
	made.Message += " pods"
	return made
}

// blind tells whether requests come in and no pod could answer them.
func blind(deployment *simv1alpha1.SimulatorDeployment) bool {
	return !hasDecode(deployment) && (simulatordeployment.HasPicker(deployment) || simulatordeployment.GatewayURL(deployment) != "")
}

// hasDecode tells whether a stack has pods that answer requests.
func hasDecode(deployment *simv1alpha1.SimulatorDeployment) bool {
	return !simulatordeployment.HasStages(deployment) || deployment.Spec.Decode != nil && deployment.Spec.Decode.Enabled
}

// overruled tells who scales spec.replicas that decode has a number of its own.
func overruled(deployment *simv1alpha1.SimulatorDeployment) string {
	spec := deployment.Spec
	if spec.Decode == nil || !spec.Decode.Enabled || spec.Decode.Replicas == nil || spec.Replicas == nil {
		return ""
	}
	if *spec.Replicas == *spec.Decode.Replicas || *spec.Replicas == simulatordeployment.DefaultReplicas {
		return ""
	}
	return fmt.Sprintf("; spec.decode.replicas (%d) counts and not spec.replicas (%d): remove it to scale with kubectl scale",
		*spec.Decode.Replicas, *spec.Replicas)
}

func pods(n int32) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

func loadBalancing(facts *facts) metav1.Condition {
	if facts.served.DestinationRule == "" {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: condition.ReasonAPINotServed, Message: noIstio}
	}
	if !hasDecode(facts.deployment) {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonNoDecodeStage, Message: noTarget}
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: condition.ReasonReady, Message: "the DestinationRule is there"}
}

// programmed tells of the Gateway, which somebody else brings to life.
func programmed(facts *facts, gateway *unstructured.Unstructured) metav1.Condition {
	if facts.served.Gateway == "" {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: condition.ReasonAPINotServed, Message: noGatewayAPI}
	}
	class := facts.deployment.Spec.Gateway.ClassName
	waiting := metav1.Condition{Status: metav1.ConditionFalse, Reason: condition.ReasonDependencyNotReady,
		Message: fmt.Sprintf("no controller has programmed the Gateway of class %s; install one for it, or change spec.gateway.className", class)}
	if gateway == nil || !conditionTrue(gateway, "Programmed") {
		return waiting
	}
	if state := readiness.Evaluate(gateway); state.Status != readiness.Ready {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: condition.ReasonDependencyNotReady, Message: state.Message}
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: condition.ReasonReady, Message: "the Gateway is programmed"}
}

func conditionTrue(object *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		if c, is := each.(map[string]any); is && c["type"] == kind {
			return c["status"] == "True"
		}
	}
	return false
}

func gatewayIn(result apply.Result) *unstructured.Unstructured {
	for _, live := range result.Live {
		if live.GetKind() == "Gateway" {
			return live
		}
	}
	return nil
}

// gatewayURL is where requests go in: an Envoy gateway, or the address that the
// Gateway got.
func gatewayURL(facts *facts, result apply.Result) string {
	if url := simulatordeployment.GatewayURL(facts.deployment); url != "" {
		return url
	}
	gateway := gatewayIn(result)
	if gateway == nil {
		return ""
	}
	addresses, _, _ := unstructured.NestedSlice(gateway.Object, "status", "addresses")
	if len(addresses) == 0 {
		return ""
	}
	address, _ := addresses[0].(map[string]any)
	value, _ := address["value"].(string)
	switch {
	case value == "":
		return ""
	case strings.Contains(value, ":"): // IPv6
		return "http://[" + value + "]"
	}
	return "http://" + value
}
