package simulatordeployment

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/test/definitions"
)

// sample reads one of the specification's manifests into a namespace.
func sample(t *testing.T, name, namespace string) *simv1alpha1.SimulatorDeployment {
	t.Helper()
	text, err := os.ReadFile("../../../config/samples/sim_v1alpha1_simulatordeployment" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	read := &simv1alpha1.SimulatorDeployment{}
	if err := yaml.UnmarshalStrict(text, read); err != nil {
		t.Fatal(err)
	}
	read.Namespace = namespace
	return read
}

// TestSamples: each manifest of the specification from its creation to its
// deletion; what it makes is there, and after it nothing is.
func TestSamples(t *testing.T) {
	for name, want := range map[string]struct {
		deployments string
		services    string
		replicas    int32
	}{
		"":         {"ms-sim-llm-sim-decode", "gaie-inference-scheduling-proxy", 2},
		"_minimal": {"ms-sim-llm-sim-minimal-decode", "gaie-inference-scheduling-proxy", 2},
		"_istio":   {"ms-sim-llm-sim-istio-decode", "gaie-inference-scheduling-proxy", 2},
		"_full": {"gaie-sim-epp infra-sim-inference-gateway infra-sim-inference-gateway-istio ms-sim-llm-d-modelservice-decode ms-sim-llm-d-modelservice-prefill",
			"gaie-sim-epp infra-sim-inference-gateway infra-sim-inference-gateway-istio ms-sim-llm-d-modelservice-decode ms-sim-llm-d-modelservice-prefill", 7},
		"_prefill_decode": {"ms-sim-llm-d-modelservice-decode ms-sim-llm-d-modelservice-prefill",
			"ms-sim-llm-d-modelservice-decode ms-sim-llm-d-modelservice-prefill", 6},
	} {
		t.Run("sample"+name, func(t *testing.T) {
			ns := namespace(t)
			applied := sample(t, name, ns)
			create(t, applied)
			got := await(t, ns, applied.Name, isReady)
			if got.Status.Replicas != want.replicas || got.Status.ReadyReplicas != want.replicas {
				t.Errorf("%d replicas of which %d are ready, want %d", got.Status.Replicas, got.Status.ReadyReplicas, want.replicas)
			}
			if made := names(t, ns, "Deployment"); made != want.deployments {
				t.Errorf("Deployments %s\nwant        %s", made, want.deployments)
			}
			if made := names(t, ns, "Service"); made != want.services {
				t.Errorf("Services %s\nwant     %s", made, want.services)
			}
			if err := kube.Delete(t.Context(), got); err != nil {
				t.Fatal(err)
			}
			awaitNothing(t, ns)
		})
	}
}

// TestPatches: the two patches of the specification.
func TestPatches(t *testing.T) {
	ns := namespace(t)
	create(t, sample(t, "_minimal", ns))
	await(t, ns, "llm-sim-minimal", isReady)
	patch(t, ns, "llm-sim-minimal", `{"spec":{"replicas":4}}`)
	await(t, ns, "llm-sim-minimal", func(d *simv1alpha1.SimulatorDeployment) string {
		if d.Status.ReadyReplicas != 4 {
			return told(d, condition.Ready)
		}
		return isReady(d)
	})
	patch(t, ns, "llm-sim-minimal", `{"spec":{"loadBalancing":{"enabled":true,"algorithm":"LEAST_REQUEST"}}}`)
	got := await(t, ns, "llm-sim-minimal", says(simv1alpha1.ConditionLoadBalancingReady, condition.ReasonAPINotServed, "install Istio"))
	if isReady(got) != "" {
		t.Errorf("without Istio the stack should serve all the same: %s", isReady(got))
	}
}

// TestPullPolicyFollowsTheImage: Kubernetes' default is that of the first image,
// and stays; what a new resource would have comes with another one.
func TestPullPolicyFollowsTheImage(t *testing.T) {
	ns := namespace(t)
	create(t, sample(t, "_minimal", ns))
	await(t, ns, "llm-sim-minimal", isReady)
	deployment := one(t, ns, made[3], "ms-sim-llm-sim-minimal-decode")
	for image, policy := range map[string]string{"example.com/a:1": "IfNotPresent", "example.com/a:latest": "Always"} {
		patch(t, ns, "llm-sim-minimal", `{"spec":{"image":"`+image+`"}}`)
		awaitState(t, deployment, func(found *unstructured.Unstructured) bool {
			if found == nil {
				return false
			}
			containers, _, _ := unstructured.NestedSlice(found.Object, "spec", "template", "spec", "containers")
			container := containers[0].(map[string]any)
			return container["image"] == image && container["imagePullPolicy"] == policy
		})
	}
}

// TestIstioArrives: the rule is made when the cluster begins to serve its kind,
// kept while it does, and nothing breaks when it no longer does.
func TestIstioArrives(t *testing.T) {
	ns := namespace(t)
	create(t, sample(t, "_istio", ns))
	await(t, ns, "llm-sim-istio", says(simv1alpha1.ConditionLoadBalancingReady, condition.ReasonAPINotServed, "DestinationRules"))
	serve(t, definitions.DestinationRules)
	await(t, ns, "llm-sim-istio", says(simv1alpha1.ConditionLoadBalancingReady, condition.ReasonReady, ""))
	rule := one(t, ns, schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "DestinationRule"}, "gaie-inference-scheduling-proxy-lb")
	host, _, _ := unstructured.NestedString(rule.Object, "spec", "host")
	algorithm, _, _ := unstructured.NestedString(rule.Object, "spec", "trafficPolicy", "loadBalancer", "simple")
	if host != "gaie-inference-scheduling-proxy."+ns+".svc.cluster.local" || algorithm != "ROUND_ROBIN" {
		t.Errorf("the rule is for %s with %s", host, algorithm)
	}
	awaitMadeAgain(t, rule)
	unserve(t, definitions.DestinationRules)
	got := await(t, ns, "llm-sim-istio", says(simv1alpha1.ConditionLoadBalancingReady, condition.ReasonAPINotServed, ""))
	if isReady(got) != "" {
		t.Errorf("after Istio went: %s", isReady(got))
	}
}

// TestPoolArrives: the picker follows its flags, then the pool in the version
// that the cluster serves.
func TestPoolArrives(t *testing.T) {
	ns := namespace(t)
	create(t, sample(t, "_full", ns))
	await(t, ns, "llm-sim-full", isReady)
	if args := pickerArgs(t, ns); !strings.Contains(args, "--endpoint-selector=app.kubernetes.io/instance=llm-sim-full,llm-d.ai/inferenceServing=true") {
		t.Errorf("without InferencePools the picker has %s", args)
	}
	serve(t, definitions.InferencePoolsX, definitions.InferenceObjectives)
	awaitArgs(t, ns, "--pool-group=inference.networking.x-k8s.io")
	pool := awaitThere(t, ns, schema.GroupVersionKind{Group: "inference.networking.x-k8s.io", Version: "v1alpha2", Kind: "InferencePool"}, "gaie-sim")
	if port, _, _ := unstructured.NestedInt64(pool.Object, "spec", "targetPortNumber"); port != 8000 {
		t.Errorf("the pool's port is %d, want the sidecar's 8000", port)
	}
	serve(t, definitions.InferencePools)
	awaitArgs(t, ns, "--pool-group=inference.networking.k8s.io")
	awaitMadeAgain(t, awaitThere(t, ns, schema.GroupVersionKind{Group: "inference.networking.k8s.io", Version: "v1", Kind: "InferencePool"}, "gaie-sim"))
	await(t, ns, "llm-sim-full", isReady)
	// A picker that followed the older pool needs it until it is replaced.
	one(t, ns, pool.GroupVersionKind(), "gaie-sim")
	unserve(t, definitions.InferencePoolsX)
	awaitState(t, one(t, ns, made[5], "gaie-sim-epp"), func(found *unstructured.Unstructured) bool {
		return found != nil && !grants(found, "inference.networking.x-k8s.io", "inferencepools")
	})
	await(t, ns, "llm-sim-full", isReady)
}

// grants tells whether a Role has a rule for a resource of a group.
func grants(role *unstructured.Unstructured, group, resource string) bool {
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	for _, each := range rules {
		groups, _, _ := unstructured.NestedStringSlice(each.(map[string]any), "apiGroups")
		resources, _, _ := unstructured.NestedStringSlice(each.(map[string]any), "resources")
		if slices.Contains(groups, group) && slices.Contains(resources, resource) {
			return true
		}
	}
	return false
}

// TestGatewayAPIArrives: a Gateway and an HTTPRoute, and what is told as long as
// nobody programs them.
func TestGatewayAPIArrives(t *testing.T) {
	ns := namespace(t)
	applied := sample(t, "_minimal", ns)
	applied.Spec.Gateway = &simv1alpha1.GatewayConfig{Enabled: true}
	create(t, applied)
	await(t, ns, applied.Name, says(simv1alpha1.ConditionGatewayProgrammed, condition.ReasonAPINotServed, "install the Gateway API"))
	serve(t, definitions.Gateways, definitions.HTTPRoutes)
	await(t, ns, applied.Name, says(simv1alpha1.ConditionGatewayProgrammed, condition.ReasonDependencyNotReady, "class istio"))
	gateway := one(t, ns, schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}, "infra-sim-inference-gateway")
	one(t, ns, schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}, "infra-sim-inference-gateway")
	program(t, gateway)
	got := await(t, ns, applied.Name, says(simv1alpha1.ConditionGatewayProgrammed, condition.ReasonReady, ""))
	if got.Status.GatewayURL != "http://203.0.113.7" {
		t.Errorf("the gateway's URL is %q, want the address that the Gateway got", got.Status.GatewayURL)
	}
}

// program does to a Gateway what its controller would.
func program(t *testing.T, gateway *unstructured.Unstructured) {
	t.Helper()
	status := `{"status":{"addresses":[{"type":"IPAddress","value":"203.0.113.7"}],"conditions":[
		{"type":"Accepted","status":"True","reason":"Accepted","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},
		{"type":"Programmed","status":"True","reason":"Programmed","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	if err := kube.Status().Patch(t.Context(), gateway, client.RawPatch(types.MergePatchType, []byte(status))); err != nil {
		t.Fatal(err)
	}
}

func patch(t *testing.T, namespace, name, text string) {
	t.Helper()
	target := &simv1alpha1.SimulatorDeployment{}
	target.Namespace, target.Name = namespace, name
	if err := kube.Patch(t.Context(), target, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatal(err)
	}
}

// says waits for a condition with a reason and a text in its message, told of the
// current spec.
func says(kind, reason, text string) func(*simv1alpha1.SimulatorDeployment) string {
	return func(d *simv1alpha1.SimulatorDeployment) string {
		c := condition.Find(d.Status.Conditions, kind)
		if c != nil && c.Reason == reason && c.ObservedGeneration == d.Generation && strings.Contains(c.Message, text) {
			return ""
		}
		return told(d, kind)
	}
}

func one(t *testing.T, namespace string, kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	t.Helper()
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(kind)
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, found); err != nil {
		t.Fatal(err)
	}
	return found
}

func blankLike(like *unstructured.Unstructured) (*unstructured.Unstructured, *unstructured.UnstructuredList) {
	single, list := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	single.SetGroupVersionKind(like.GroupVersionKind())
	list.SetGroupVersionKind(like.GroupVersionKind().GroupVersion().WithKind(like.GetKind() + "List"))
	return single, list
}

// awaitState watches an object until it is there or not, as wanted.
func awaitState(t *testing.T, like *unstructured.Unstructured, wanted func(found *unstructured.Unstructured) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	single, list := blankLike(like)
	watcher, err := kube.Watch(ctx, list, client.InNamespace(like.GetNamespace()))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for {
		err := kube.Get(ctx, client.ObjectKeyFromObject(like), single)
		switch {
		case err == nil && wanted(single), err != nil && wanted(nil):
			return
		}
		select {
		case <-watcher.ResultChan():
		case <-ctx.Done():
			t.Fatalf("%s after %s: not as wanted", object.Of(like).Display(), deadline)
		}
	}
}

// awaitMadeAgain deletes an object and waits for its return.
func awaitMadeAgain(t *testing.T, gone *unstructured.Unstructured) {
	t.Helper()
	if err := kube.Delete(t.Context(), gone.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	awaitState(t, gone, func(found *unstructured.Unstructured) bool { return found != nil && found.GetUID() != gone.GetUID() })
}

// awaitThere waits until an object is made.
func awaitThere(t *testing.T, namespace string, kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	t.Helper()
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(kind)
	like.SetNamespace(namespace)
	like.SetName(name)
	awaitState(t, like, func(found *unstructured.Unstructured) bool { return found != nil })
	return one(t, namespace, kind, name)
}

func awaitAbsent(t *testing.T, gone *unstructured.Unstructured) {
	t.Helper()
	awaitState(t, gone, func(found *unstructured.Unstructured) bool { return found == nil })
}
