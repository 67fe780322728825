package simulatordeployment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

var (
	now  = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	done = condition.Outcome{Verdict: condition.Done}
)

// Names of the Deployments of a stack with every part.
const (
	prefillName  = "ms-sim-llm-d-modelservice-prefill"
	decodeName   = "ms-sim-llm-d-modelservice-decode"
	pickerName   = "gaie-sim-epp"
	standardName = "infra-sim-inference-gateway"
	istioName    = "infra-sim-inference-gateway-istio"
)

// factsOf reads a spec; the cluster serves everything.
func factsOf(t *testing.T, spec string) *facts {
	t.Helper()
	deployment := &simv1alpha1.SimulatorDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "sim", Generation: 3}}
	if err := yaml.UnmarshalStrict([]byte(spec), &deployment.Spec); err != nil {
		t.Fatal(err)
	}
	return &facts{deployment: deployment, served: simulatordeployment.Served{Pool: "v1", Objectives: true, DestinationRule: "v1", Gateway: "v1"}}
}

const (
	stages = "prefill: {enabled: true, replicas: 1}\ndecode: {enabled: true, replicas: 2}\n"
	whole  = stages + "epp: {enabled: true}\ninferenceGateway: {enabled: true, standard: {enabled: true}, istio: {enabled: true}}\n"
)

// workload is a Deployment of which so many pods of those wanted are ready.
func workload(name string, ready, wanted int64) *unstructured.Unstructured {
	status := map[string]any{"observedGeneration": int64(2), "replicas": wanted, "updatedReplicas": wanted, "readyReplicas": ready, "availableReplicas": ready}
	if ready == wanted {
		status["conditions"] = []any{
			map[string]any{"type": "Available", "status": "True"},
			map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": name, "generation": int64(2)},
		"spec":     map[string]any{"replicas": wanted}, "status": status,
	}}
}

func live(objects ...*unstructured.Unstructured) apply.Result { return apply.Result{Live: objects} }

// wholeStack is every part, ready, but for those given in another state.
func wholeStack(others ...*unstructured.Unstructured) apply.Result {
	all := map[string]*unstructured.Unstructured{
		prefillName: workload(prefillName, 1, 1), decodeName: workload(decodeName, 2, 2), pickerName: workload(pickerName, 1, 1),
		standardName: workload(standardName, 1, 1), istioName: workload(istioName, 1, 1),
	}
	for _, other := range others {
		all[other.GetName()] = other
	}
	return live(all[prefillName], all[decodeName], all[pickerName], all[standardName], all[istioName])
}

func fault(terminal bool, reason string) diagnosis.Finding {
	return diagnosis.Finding{Reason: reason, Message: "why: " + reason, Terminal: terminal}
}

// TestSummary: what Ready says of the whole, and whether anything more is tried.
func TestSummary(t *testing.T) {
	for name, test := range map[string]struct {
		spec    string
		result  apply.Result
		outcome condition.Outcome
		found   findings
		reason  string
		message string
		stalled bool
	}{
		"all serve": {whole, wholeStack(), done, nil, reasonServing,
			"prefill 1/1, decode 2/2, picker 1/1, standard gateway 1/1, Istio gateway 1/1 ready", false},
		"without stages": {"replicas: 3", live(workload("ms-sim-sim-decode", 3, 3)), done, nil, reasonServing, "decode 3/3 ready", false},
		"scaled to zero": {"replicas: 0", live(workload("ms-sim-sim-decode", 0, 0)), done, nil, reasonScaledToZero, "decode 0/0 ready", false},
		"nothing yet":    {"{}", live(workload("ms-sim-sim-decode", 0, 2)), done, nil, condition.ReasonProgressing, "waiting for decode to become ready", false},
		"two on their way": {whole, wholeStack(workload(decodeName, 1, 2), workload(pickerName, 0, 1)), done, nil,
			condition.ReasonProgressing, "waiting for decode and picker to become ready", false},
		"three on their way": {whole, wholeStack(workload(decodeName, 1, 2), workload(pickerName, 0, 1), workload(istioName, 0, 1)), done, nil,
			condition.ReasonProgressing, "waiting for decode, picker and Istio gateway to become ready", false},
		"progress is no fault": {whole, wholeStack(workload(decodeName, 1, 2)), done,
			findings{simulatordeployment.Decode: fault(false, diagnosis.ReasonStarting)},
			condition.ReasonProgressing, "waiting for decode to become ready", false},
		"a fault before progress": {whole, wholeStack(workload(prefillName, 0, 1), workload(istioName, 0, 1)), done,
			findings{simulatordeployment.IstioGateway: fault(false, diagnosis.ReasonImageNotFound)},
			diagnosis.ReasonImageNotFound, "Istio gateway: why: ImageNotFound", false},
		"the first of two faults": {whole, wholeStack(workload(decodeName, 0, 2), workload(pickerName, 0, 1)), done,
			findings{simulatordeployment.Picker: fault(true, reasonPickerForbidden), simulatordeployment.Decode: fault(false, diagnosis.ReasonImageNotFound)},
			diagnosis.ReasonImageNotFound, "decode: why: ImageNotFound", false},
		"a fault for the user": {whole, wholeStack(workload(pickerName, 0, 1)), done,
			findings{simulatordeployment.Picker: fault(true, diagnosis.ReasonImageNotFound)},
			diagnosis.ReasonImageNotFound, "picker: why: ImageNotFound", true},
		"a picker and nothing to answer": {"prefill: {enabled: true, replicas: 1}\nepp: {enabled: true}",
			live(workload(prefillName, 1, 1), workload(pickerName, 1, 1)), done, nil, reasonNoDecodeStage, noDecode, true},
		"a gateway and nothing to answer": {"prefill: {enabled: true, replicas: 1}\ninferenceGateway: {enabled: true, standard: {enabled: true}}",
			live(workload(prefillName, 1, 1), workload(standardName, 1, 1)), done, nil, reasonNoDecodeStage, noDecode, true},
		"prefill alone": {"prefill: {enabled: true, replicas: 1}", live(workload(prefillName, 1, 1)), done, nil, reasonServing, "prefill 1/1 ready", false},
		"refused": {"{}", apply.Result{}, condition.Classify(condition.Stop(condition.ReasonInvalidSpec, "write 2")), nil,
			condition.ReasonInvalidSpec, "write 2", true},
		"waits for names": {"{}", apply.Result{}, condition.Classify(condition.Wait(reasonNamesTaken, "taken")), nil, reasonNamesTaken, "taken", false},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(t, test.spec)
			status := report(facts, test.result, test.outcome, test.found, now)
			ready := condition.Find(status.Conditions, condition.Ready)
			if ready.Reason != test.reason || ready.Message != test.message {
				t.Errorf("got  %s: %s\nwant %s: %s", ready.Reason, ready.Message, test.reason, test.message)
			}
			if wantTrue := test.reason == reasonServing || test.reason == reasonScaledToZero; (ready.Status == metav1.ConditionTrue) != wantTrue {
				t.Errorf("Ready is %s", ready.Status)
			}
			if condition.IsTrue(status.Conditions, condition.Stalled) != test.stalled {
				t.Errorf("Stalled: want %v in %v", test.stalled, status.Conditions)
			}
			if status.ObservedGeneration != 3 || ready.ObservedGeneration != 3 {
				t.Errorf("observed generations %d and %d, want 3", status.ObservedGeneration, ready.ObservedGeneration)
			}
			facts.deployment.Status = status
			later := metav1.NewTime(now.Add(time.Hour))
			if diff := cmp.Diff(status, report(facts, test.result, test.outcome, test.found, later)); diff != "" {
				t.Errorf("the same world gives another status later:\n%s", diff)
			}
		})
	}
}

// TestPartConditions: each part tells of itself, and what isn't asked for has no
// condition.
func TestPartConditions(t *testing.T) {
	istio := "loadBalancing: {enabled: true}\n"
	for name, test := range map[string]struct {
		spec   string
		served *simulatordeployment.Served
		result apply.Result
		found  findings
		want   map[string]string
	}{
		"all": {spec: whole, result: wholeStack(), want: map[string]string{
			simv1alpha1.ConditionPrefillReady: "True Serving 1/1 pods ready", simv1alpha1.ConditionDecodeReady: "True Serving 2/2 pods ready",
			simv1alpha1.ConditionPickerReady:          "True Serving 1/1 pods ready; can route to 2 decode and 1 prefill pods",
			simv1alpha1.ConditionStandardGatewayReady: "True Serving 1/1 pods ready", simv1alpha1.ConditionIstioGatewayReady: "True Serving 1/1 pods ready",
		}},
		"decode not there": {spec: stages, result: live(workload(prefillName, 1, 1)), want: map[string]string{
			simv1alpha1.ConditionPrefillReady: "True Serving 1/1 pods ready", simv1alpha1.ConditionDecodeReady: "False Progressing waiting for 2 pods",
		}},
		"one to wait for": {spec: "replicas: 1", result: live(workload("ms-sim-sim-decode", 0, 1)), want: map[string]string{
			simv1alpha1.ConditionDecodeReady: "False Progressing waiting for 1 pod",
		}},
		"stopped": {spec: "replicas: 0", result: live(workload("ms-sim-sim-decode", 0, 0)), want: map[string]string{
			simv1alpha1.ConditionDecodeReady: "True ScaledToZero 0/0 pods ready",
		}},
		"a fault": {spec: stages, result: live(workload(prefillName, 0, 1), workload(decodeName, 2, 2)),
			found: findings{simulatordeployment.Prefill: fault(false, diagnosis.ReasonImageNotFound)}, want: map[string]string{
				simv1alpha1.ConditionPrefillReady: "False ImageNotFound why: ImageNotFound", simv1alpha1.ConditionDecodeReady: "True Serving 2/2 pods ready",
			}},
		"a picker without prefill": {spec: "epp: {enabled: true}", result: live(workload("ms-sim-sim-decode", 1, 2), workload(pickerName, 1, 1)), want: map[string]string{
			simv1alpha1.ConditionDecodeReady: "False Progressing waiting for 2 pods",
			simv1alpha1.ConditionPickerReady: "True Serving 1/1 pods ready; can route to 1 decode pods",
		}},
		"a picker without decode": {spec: "prefill: {enabled: true, replicas: 1}\nepp: {enabled: true}",
			result: live(workload(prefillName, 1, 1), workload(pickerName, 1, 1)), want: map[string]string{
				simv1alpha1.ConditionPrefillReady: "True Serving 1/1 pods ready", simv1alpha1.ConditionPickerReady: "False NoDecodeStage " + noDecode,
			}},
		"who scales is told that decode has its own number": {spec: "replicas: 5\ndecode: {enabled: true, replicas: 1}",
			result: live(workload(decodeName, 1, 1)), want: map[string]string{
				simv1alpha1.ConditionDecodeReady: "True Serving 1/1 pods ready; spec.decode.replicas (1) counts and not spec.replicas (5): remove it to scale with kubectl scale",
			}},
		"the default of replicas is nobody's wish": {spec: "replicas: 2\ndecode: {enabled: true, replicas: 1}", result: live(workload(decodeName, 1, 1)),
			want: map[string]string{simv1alpha1.ConditionDecodeReady: "True Serving 1/1 pods ready"}},
		"balanced": {spec: istio, result: live(workload("ms-sim-sim-decode", 2, 2)), want: map[string]string{
			simv1alpha1.ConditionDecodeReady: "True Serving 2/2 pods ready", simv1alpha1.ConditionLoadBalancingReady: "True Ready the DestinationRule is there",
		}},
		"no Istio": {spec: istio, served: &simulatordeployment.Served{}, result: live(workload("ms-sim-sim-decode", 2, 2)), want: map[string]string{
			simv1alpha1.ConditionDecodeReady: "True Serving 2/2 pods ready", simv1alpha1.ConditionLoadBalancingReady: "False APINotServed " + noIstio,
		}},
		"nothing to balance": {spec: "prefill: {enabled: true, replicas: 1}\n" + istio, result: live(workload(prefillName, 1, 1)), want: map[string]string{
			simv1alpha1.ConditionPrefillReady: "True Serving 1/1 pods ready", simv1alpha1.ConditionLoadBalancingReady: "False NoDecodeStage " + noTarget,
		}},
		"no Gateway API": {spec: "gateway: {enabled: true}", served: &simulatordeployment.Served{}, result: live(workload("ms-sim-sim-decode", 2, 2)), want: map[string]string{
			simv1alpha1.ConditionDecodeReady: "True Serving 2/2 pods ready", simv1alpha1.ConditionGatewayProgrammed: "False APINotServed " + noGatewayAPI,
		}},
		"a Gateway that nobody takes": {spec: "gateway: {enabled: true, className: nobodys}", result: live(workload("ms-sim-sim-decode", 2, 2), gatewayWith()), want: map[string]string{
			simv1alpha1.ConditionDecodeReady: "True Serving 2/2 pods ready",
			simv1alpha1.ConditionGatewayProgrammed: "False DependencyNotReady no controller has programmed the Gateway of class nobodys; " +
				"install one for it, or change spec.gateway.className",
		}},
		"a Gateway": {spec: "gateway: {enabled: true}", result: live(workload("ms-sim-sim-decode", 2, 2), gatewayWith("10.0.0.1")), want: map[string]string{
			simv1alpha1.ConditionDecodeReady: "True Serving 2/2 pods ready", simv1alpha1.ConditionGatewayProgrammed: "True Ready the Gateway is programmed",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(t, test.spec)
			if test.served != nil {
				facts.served = *test.served
			}
			for _, kind := range partConditions { // of parts that were there before
				facts.deployment.Status.Conditions = append(facts.deployment.Status.Conditions,
					metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Old"})
			}
			got := map[string]string{}
			for _, c := range report(facts, test.result, done, test.found, now).Conditions {
				switch c.Type {
				case condition.Ready, condition.Reconciling, condition.Stalled:
				default:
					got[c.Type] = string(c.Status) + " " + c.Reason + " " + c.Message
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// gatewayWith is a Gateway, programmed with addresses; nobody's without one.
func gatewayWith(addresses ...string) *unstructured.Unstructured {
	gateway := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": map[string]any{"name": standardName},
	}}
	if len(addresses) == 0 {
		return gateway
	}
	var list []any
	for _, address := range addresses {
		list = append(list, map[string]any{"value": address})
	}
	gateway.Object["status"] = map[string]any{"addresses": list, "conditions": []any{
		map[string]any{"type": "Accepted", "status": "True"}, map[string]any{"type": "Programmed", "status": "True"},
	}}
	return gateway
}

// TestGatewayURL: the first Envoy gateway, then the Gateway's first address.
func TestGatewayURL(t *testing.T) {
	api := "gateway: {enabled: true, className: other}\n"
	for name, test := range map[string]struct {
		spec   string
		result apply.Result
		want   string
	}{
		"none":           {"{}", live(), ""},
		"standard first": {whole, wholeStack(), "http://infra-sim-inference-gateway.team.svc:8080"},
		"Istio's alone":  {"inferenceGateway: {enabled: true, istio: {enabled: true, port: 81}}", live(), "http://infra-sim-inference-gateway-istio.team.svc:81"},
		"Envoy before a Gateway": {api + "inferenceGateway: {enabled: true, standard: {enabled: true}}", live(gatewayWith("10.0.0.1")),
			"http://infra-sim-inference-gateway.team.svc:8080"},
		"nobody's Gateway":   {api, live(gatewayWith()), ""},
		"an address":         {api, live(gatewayWith("10.0.0.1", "10.0.0.2")), "http://10.0.0.1"},
		"a host":             {api, live(gatewayWith("gw.example.com")), "http://gw.example.com"},
		"an address of IPv6": {api, live(gatewayWith("2001:db8::1")), "http://[2001:db8::1]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := gatewayURL(factsOf(t, test.spec), test.result); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestCounts: every part is counted, those that went aren't, and what was known
// stays when nothing could be looked at.
func TestCounts(t *testing.T) {
	facts := factsOf(t, whole+"service: {name: front, port: 9000}")
	status := report(facts, wholeStack(workload(decodeName, 1, 2)), done, nil, now)
	if status.Replicas != 6 || status.ReadyReplicas != 5 {
		t.Errorf("%d of %d ready, want 5 of 6", status.ReadyReplicas, status.Replicas)
	}
	if diff := cmp.Diff(&simv1alpha1.PartStatus{Name: decodeName, Replicas: 2, ReadyReplicas: 1}, status.Decode); diff != "" {
		t.Errorf("decode (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"http://front.team.svc:9000", "http://" + decodeName + ".team.svc:8200", "http://" + prefillName + ".team.svc:8200",
	}, status.Endpoints); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	facts.deployment.Status = status
	refused := report(facts, apply.Result{}, condition.Classify(condition.Retry(condition.ReasonApplyFailed, "no answer")), nil, now)
	if refused.ReadyReplicas != 5 || refused.Decode == nil {
		t.Error("an apply that saw nothing wiped the counts")
	}
	facts.deployment.Spec = factsOf(t, "decode: {enabled: true, replicas: 2}").deployment.Spec
	fewer := report(facts, live(workload(decodeName, 2, 2)), done, nil, now)
	if fewer.Replicas != 2 || fewer.EPP != nil || fewer.Prefill != nil || fewer.StandardGateway != nil || fewer.IstioGateway != nil {
		t.Errorf("parts that went are still counted: %+v", fewer)
	}
	if condition.Find(fewer.Conditions, simv1alpha1.ConditionPickerReady) != nil {
		t.Error("a picker that went still has a condition")
	}
}

// TestStarting: a new resource is under way, with every part to wait for.
func TestStarting(t *testing.T) {
	status := starting(factsOf(t, stages), now)
	ready := condition.Find(status.Conditions, condition.Ready)
	if ready.Reason != condition.ReasonProgressing || ready.Message != "waiting for prefill and decode to become ready" {
		t.Errorf("got %s: %s", ready.Reason, ready.Message)
	}
	if !condition.IsTrue(status.Conditions, condition.Reconciling) {
		t.Error("a new resource isn't Reconciling")
	}
}
