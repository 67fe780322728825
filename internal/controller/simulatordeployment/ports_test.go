package simulatordeployment

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// TestServicesThatLeadElsewhere: a part whose pods are ready doesn't serve while
// its Service leads to a port on which nobody listens.
func TestServicesThatLeadElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		service string
		change  func(port map[string]any)
		kind    string
		told    string
	}{
		"the gateway's": {standardName, func(port map[string]any) { port["targetPort"] = int64(8080) }, simv1alpha1.ConditionStandardGatewayReady,
			"Service infra-sim-inference-gateway leads from port 8080 to port 8080 of the pods, and was written to lead from port 8080 to port 80 of the pods; find what changes it"},
		"the picker's": {pickerName, func(port map[string]any) { port["port"] = int64(9002) }, simv1alpha1.ConditionPickerReady,
			"Service gaie-sim-epp leads from port 9002 to port grpc of the pods, and was written to lead from port 8100"},
		"no such port":    {decodeName, func(port map[string]any) { port["name"] = "other" }, simv1alpha1.ConditionDecodeReady, "Service " + decodeName + " has no port http"},
		"another is more": {decodeName, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(t, whole)
			var err error
			if facts.wanted, err = simulatordeployment.Objects(facts.input()); err != nil {
				t.Fatal(err)
			}
			result := wholeStack()
			for _, each := range facts.wanted {
				if each.GetKind() != "Service" {
					continue
				}
				live := each.DeepCopy()
				if each.GetName() == test.service {
					changePorts(t, live, test.change)
				}
				result.Live = append(result.Live, live)
			}
			status := report(facts, result, done, nil, now)
			ready := condition.Find(status.Conditions, condition.Ready)
			if test.told == "" {
				if ready.Reason != reasonServing {
					t.Errorf("got %s: %s", ready.Reason, ready.Message)
				}
				return
			}
			part := condition.Find(status.Conditions, test.kind)
			if part.Reason != reasonServicePort || !strings.HasPrefix(part.Message, test.told) {
				t.Errorf("got %s: %s\nwant %s", part.Reason, part.Message, test.told)
			}
			if ready.Reason != reasonServicePort || !strings.Contains(ready.Message, test.told) {
				t.Errorf("Ready says %s: %s", ready.Reason, ready.Message)
			}
		})
	}
}

// changePorts changes the first port, or puts another one before it.
func changePorts(t *testing.T, service *unstructured.Unstructured, change func(map[string]any)) {
	t.Helper()
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	if change != nil {
		change(ports[0].(map[string]any))
	} else {
		ports = append([]any{map[string]any{"name": "added", "port": int64(1), "targetPort": int64(2)}}, ports...)
	}
	if err := unstructured.SetNestedSlice(service.Object, ports, "spec", "ports"); err != nil {
		t.Fatal(err)
	}
}

// TestLeft: what isn't gone yet is named.
func TestLeft(t *testing.T) {
	facts := factsOf(t, "{}")
	facts.deployment.Status = holder("x", services("a", "b", "c")).Status
	if got := left(facts); got != "waiting until Service team/a and 2 more of the former spec are gone" {
		t.Errorf("got %q", got)
	}
	facts.deployment.Status = holder("x", services("a")).Status
	if got := left(facts); got != "waiting until Service team/a of the former spec is gone" {
		t.Errorf("got %q", got)
	}
	facts.deployment.Status = holder("x", nil).Status
	if got := left(facts); got != "" {
		t.Errorf("got %q", got)
	}
}
