package simulatordeployment_test

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// inputs are resources with every part on, off or absent, in clusters that serve
// any of the optional APIs.
func inputs() *rapid.Generator[simulatordeployment.Input] {
	return rapid.Custom(func(t *rapid.T) simulatordeployment.Input {
		enabled := rapid.Bool()
		stage := func(name string) *simv1alpha1.StageConfig {
			if !rapid.Bool().Draw(t, name) {
				return nil
			}
			return &simv1alpha1.StageConfig{Enabled: enabled.Draw(t, name+" enabled"), Replicas: new(rapid.Int32Range(0, 3).Draw(t, name+" replicas"))}
		}
		gateway := func(name string) *simv1alpha1.GatewayInstanceConfig {
			return &simv1alpha1.GatewayInstanceConfig{Enabled: enabled.Draw(t, name)}
		}
		spec := simv1alpha1.SimulatorDeploymentSpec{
			NamePrefix:       rapid.SampledFrom([]string{"", "blue-"}).Draw(t, "prefix"),
			Prefill:          stage("prefill"),
			Decode:           stage("decode"),
			EPP:              &simv1alpha1.EPPConfig{Enabled: enabled.Draw(t, "epp")},
			InferenceGateway: &simv1alpha1.InferenceGatewayConfig{Enabled: true, Standard: gateway("standard"), Istio: gateway("istio")},
			LoadBalancing:    &simv1alpha1.LoadBalancingConfig{Enabled: enabled.Draw(t, "balancing")},
			Gateway:          &simv1alpha1.GatewayConfig{Enabled: enabled.Draw(t, "gateway")},
		}
		if rapid.Bool().Draw(t, "service") {
			spec.Service = &simv1alpha1.ServiceConfig{Name: "front", Port: 9000}
		}
		pools := rapid.SampledFrom([][2]string{{}, {"v1"}, {"v1alpha2"}, {"v1", "v1alpha2"}}).Draw(t, "pools")
		return simulatordeployment.Input{
			Deployment: &simv1alpha1.SimulatorDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "sim"}, Spec: spec},
			Served: simulatordeployment.Served{
				Pool:            pools[0],
				OlderPool:       pools[1],
				Objectives:      rapid.Bool().Draw(t, "objectives"),
				DestinationRule: rapid.SampledFrom([]string{"", "v1beta1", "v1"}).Draw(t, "istio"),
				Gateway:         rapid.SampledFrom([]string{"", "v1"}).Draw(t, "gateway API"),
			},
		}
	})
}

// TestEveryStackHolds: whatever is combined, names are unique, every Service
// leads to a port that the pods it selects have, and what the gateways read is
// safe.
func TestEveryStackHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs().Draw(t, "input")
		objects, err := simulatordeployment.Objects(in)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, each := range objects {
			ref := object.Of(each)
			if seen[ref.Identity().String()] {
				t.Errorf("%s is rendered twice", ref.Display())
			}
			seen[ref.Identity().String()] = true
			if !strings.HasPrefix(ref.Name, in.Deployment.Spec.NamePrefix) {
				t.Errorf("%s has no prefix %q", ref.Display(), in.Deployment.Spec.NamePrefix)
			}
		}
		for _, service := range of(objects, "Service") {
			checkService(t, service, of(objects, "Deployment"))
		}
		for _, config := range of(objects, "ConfigMap") {
			checkBootstrap(t, config)
		}
		for _, route := range of(objects, "HTTPRoute") {
			checkRoute(t, route)
		}
		again, err := simulatordeployment.Objects(in)
		if err != nil || object.Hash(unwrap(objects)) != object.Hash(unwrap(again)) {
			t.Errorf("the same input renders another stack")
		}
	})
}

// TestPartsAreTheDeployments: what the status counts is what is made.
func TestPartsAreTheDeployments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := inputs().Draw(t, "input")
		objects, err := simulatordeployment.Objects(in)
		if err != nil {
			t.Fatal(err)
		}
		made := map[string]bool{}
		for _, each := range of(objects, "Deployment") {
			made[each.GetName()] = true
		}
		for _, part := range simulatordeployment.Parts(in.Deployment) {
			if !made[part.Name] {
				t.Errorf("%s is a part and isn't made", part.Name)
			}
			delete(made, part.Name)
		}
		if len(made) > 0 {
			t.Errorf("made, but no parts: %v", made)
		}
	})
}

func of(objects []*unstructured.Unstructured, kind string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, each := range objects {
		if each.GetKind() == kind {
			found = append(found, each)
		}
	}
	return found
}

func unwrap(objects []*unstructured.Unstructured) []any {
	var all []any
	for _, each := range objects {
		all = append(all, each.Object)
	}
	return all
}

// checkService finds the one Deployment that a Service selects, and in it the
// container port that the Service leads to.
func checkService(t *rapid.T, service *unstructured.Unstructured, deployments []*unstructured.Unstructured) {
	selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector")
	var pods []*unstructured.Unstructured
	for _, each := range deployments {
		labels, _, _ := unstructured.NestedStringMap(each.Object, "spec", "template", "metadata", "labels")
		if contains(labels, selector) {
			pods = append(pods, each)
		}
	}
	if len(pods) != 1 {
		t.Fatalf("Service %s selects the pods of %d Deployments, want 1", service.GetName(), len(pods))
	}
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, port := range ports {
		if target := port.(map[string]any)["targetPort"]; !listens(pods[0], target) {
			t.Errorf("Service %s leads to port %v, where no container of %s listens", service.GetName(), target, pods[0].GetName())
		}
	}
}

func contains(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

func listens(deployment *unstructured.Unstructured, target any) bool {
	for _, list := range []string{"containers", "initContainers"} {
		containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", list)
		for _, container := range containers {
			ports, _, _ := unstructured.NestedSlice(container.(map[string]any), "ports")
			for _, port := range ports {
				if p := port.(map[string]any); p["name"] == target || p["containerPort"] == target {
					return true
				}
			}
		}
	}
	return false
}

// checkBootstrap: no template, and never a cluster that goes wherever a header
// says without the picker that writes the header.
func checkBootstrap(t *rapid.T, config *unstructured.Unstructured) {
	text, found, _ := unstructured.NestedString(config.Object, "data", "envoy.yaml")
	if !found {
		return
	}
	if strings.Contains(text, "{{") {
		t.Errorf("%s holds {{, which kgateway's envoyinit takes for a template", config.GetName())
	}
	if strings.Contains(text, "ORIGINAL_DST") && !bytes.Contains([]byte(text), []byte("envoy.filters.http.ext_proc")) {
		t.Errorf("%s has an ORIGINAL_DST cluster and no picker before it", config.GetName())
	}
}

// checkRoute: the API server takes no route to port 0.
func checkRoute(t *rapid.T, route *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules")
	for _, rule := range rules {
		backends, _, _ := unstructured.NestedSlice(rule.(map[string]any), "backendRefs")
		for _, backend := range backends {
			if port := backend.(map[string]any)["port"].(int64); port < 1 {
				t.Errorf("HTTPRoute %s leads to port %d", route.GetName(), port)
			}
		}
	}
}
