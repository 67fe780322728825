package simulatordeployment

import (
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
)

// TestTwoInANamespace: the second says which names are taken and by whom, and
// makes nothing; a prefix lets both live; without one it proceeds as soon as the
// first is gone.
func TestTwoInANamespace(t *testing.T) {
	ns := namespace(t)
	first, second := sample(t, "_full", ns), sample(t, "_prefill_decode", ns)
	create(t, first)
	await(t, ns, first.Name, isReady)
	create(t, second)
	waiting := await(t, ns, second.Name, says(condition.Ready, "NamesTaken",
		"the names ms-sim-llm-d-modelservice-decode and ms-sim-llm-d-modelservice-prefill are taken by SimulatorDeployment llm-sim-full; write spec.namePrefix"))
	if len(waiting.Status.Inventory) != 0 {
		t.Errorf("who waits has taken %v", waiting.Status.Inventory)
	}
	patch(t, ns, second.Name, `{"spec":{"namePrefix":"blue-"}}`)
	await(t, ns, second.Name, isReady)
	if got := await(t, ns, first.Name, isReady); got.Status.ReadyReplicas != 7 {
		t.Errorf("the first has %d ready pods, want its own 7", got.Status.ReadyReplicas)
	}
	patch(t, ns, second.Name, `{"spec":{"namePrefix":""}}`)
	await(t, ns, second.Name, says(condition.Ready, "NamesTaken", first.Name))
	if err := kube.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	await(t, ns, second.Name, isReady)
	if made, want := names(t, ns, "Deployment"), "ms-sim-llm-d-modelservice-decode ms-sim-llm-d-modelservice-prefill"; made != want {
		t.Errorf("Deployments %s, want %s", made, want)
	}
}

// TestReleasedNameIsTaken: a part that is switched off frees its names for who
// waits.
func TestReleasedNameIsTaken(t *testing.T) {
	ns := namespace(t)
	first, second := sample(t, "_full", ns), sample(t, "_minimal", ns)
	second.Spec.EPP = &simv1alpha1.EPPConfig{Enabled: true}
	create(t, first)
	await(t, ns, first.Name, isReady)
	create(t, second)
	await(t, ns, second.Name, says(condition.Ready, "NamesTaken", "the name gaie-sim-epp is taken"))
	patch(t, ns, first.Name, `{"spec":{"epp":{"enabled":false}}}`)
	await(t, ns, second.Name, isReady)
	await(t, ns, first.Name, isReady)
}

// TestScale: kubectl scale and an autoscaler reach the decode pods.
func TestScale(t *testing.T) {
	ns := namespace(t)
	applied := sample(t, "_minimal", ns)
	applied.Spec.Decode = &simv1alpha1.StageConfig{Enabled: true}
	create(t, applied)
	await(t, ns, applied.Name, isReady)
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	if err := kube.SubResource("scale").Update(t.Context(), applied, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	await(t, ns, applied.Name, func(d *simv1alpha1.SimulatorDeployment) string {
		if d.Status.Decode == nil || d.Status.Decode.ReadyReplicas != 3 {
			return told(d, condition.Ready)
		}
		return isReady(d)
	})
	if err := kube.SubResource("scale").Get(t.Context(), applied, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Status.Replicas != 3 || !strings.Contains(scale.Status.Selector, "app.kubernetes.io/component=decode") {
		t.Errorf("the scale is %d of %q", scale.Status.Replicas, scale.Status.Selector)
	}
	patch(t, ns, applied.Name, `{"spec":{"decode":{"replicas":1}}}`)
	await(t, ns, applied.Name, says(simv1alpha1.ConditionDecodeReady, "Serving", "spec.decode.replicas (1) counts and not spec.replicas (3)"))
}

// TestDriftIsPutBack: ports, the rights of the picker, and whatever else someone
// changes or deletes.
func TestDriftIsPutBack(t *testing.T) {
	ns := namespace(t)
	applied := sample(t, "_full", ns)
	create(t, applied)
	await(t, ns, applied.Name, isReady)
	service := one(t, ns, made[2], "infra-sim-inference-gateway")
	if err := kube.Patch(t.Context(), service.DeepCopy(), client.RawPatch("application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/spec/ports/0/targetPort","value":8080}]`))); err != nil {
		t.Fatal(err)
	}
	awaitState(t, service, func(found *unstructured.Unstructured) bool {
		if found == nil {
			return false
		}
		ports, _, _ := unstructured.NestedSlice(found.Object, "spec", "ports")
		return ports[0].(map[string]any)["targetPort"] == int64(80)
	})
	for _, kind := range made {
		for _, each := range ours(t.Context(), t, ns, kind) {
			awaitMadeAgain(t, &each)
		}
	}
	await(t, ns, applied.Name, isReady)
}

// TestPickerWithoutRights: what forbids the picker's rights is told where the user
// looks, and nothing else stops for it.
func TestPickerWithoutRights(t *testing.T) {
	ns := namespace(t)
	// Someone else's binding of that name.
	taken := &unstructured.Unstructured{Object: map[string]any{
		"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"},
	}}
	taken.SetGroupVersionKind(made[6])
	taken.SetNamespace(ns)
	taken.SetName("gaie-sim-epp")
	create(t, taken)
	applied := sample(t, "_full", ns)
	create(t, applied)
	await(t, ns, applied.Name, says(condition.Ready, condition.ReasonOwnedByAnother, "RoleBinding "+ns+"/gaie-sim-epp exists"))
	if err := kube.Delete(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	await(t, ns, applied.Name, isReady)
}

// TestWrongSpecs: bad input gets one clear line that says what to do instead.
func TestWrongSpecs(t *testing.T) {
	ns := namespace(t)
	for text, want := range map[string]string{
		`{"spec":{"replicas":-1}}`:                                                                           "replicas must be a whole number from 0 to 10000",
		`{"spec":{"image":"https://x/y"}}`:                                                                   "without a scheme like https://",
		`{"spec":{"service":{"port":70000}}}`:                                                                "service.port must be a whole number from 1 to 65535",
		`{"spec":{"service":{"name":"Bad_Name"}}}`:                                                           "service.name must be a Service's name",
		`{"spec":{"epp":{"enabled":true,"port":9003}}}`:                                                      "neither 9003 (health) nor 9090 (metrics)",
		`{"spec":{"decode":{"enabled":true,"args":["--port","1"]}}}`:                                         "args must not hold --port",
		`{"spec":{"decode":{"enabled":true,"replicas":-2}}}`:                                                 "replicas of a stage must be a whole number",
		`{"spec":{"loadBalancing":{"enabled":true,"algorithm":"BEST"}}}`:                                     `supported values: "ROUND_ROBIN", "LEAST_REQUEST", "RANDOM", "LEAST_CONN"`,
		`{"spec":{"namePrefix":"Blue"}}`:                                                                     "namePrefix must begin with a lower-case letter",
		`{"spec":{"gateway":{"enabled":true},"inferenceGateway":{"enabled":true,"istio":{"enabled":true}}}}`: "disable one of them",
	} {
		wrong := sample(t, "_minimal", ns)
		if err := kube.Create(t.Context(), wrong, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		body := &unstructured.Unstructured{}
		if err := body.UnmarshalJSON([]byte(`{"apiVersion":"sim.llm-d.io/v1alpha1","kind":"SimulatorDeployment","metadata":{"name":"wrong"},` + text[1:])); err != nil {
			t.Fatal(err)
		}
		body.SetNamespace(ns)
		if err := kube.Create(t.Context(), body, client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant a message with %q", text, err, want)
		}
	}
}

// TestColumns: kubectl get prints what the specification prints.
func TestColumns(t *testing.T) {
	var columns []string
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "simulatordeployments.sim.llm-d.io"}, definition); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	printed, _, _ := unstructured.NestedSlice(versions[0].(map[string]any), "additionalPrinterColumns")
	for _, each := range printed {
		if column := each.(map[string]any); column["priority"] == nil {
			columns = append(columns, column["name"].(string))
		}
	}
	if got := strings.Join(columns, " "); got != "Replicas Ready Age" {
		t.Errorf("columns %s", got)
	}
}
