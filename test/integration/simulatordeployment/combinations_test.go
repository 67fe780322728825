package simulatordeployment

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
	"github.com/slipway-dev/slipway/test/definitions"
)

// choices are the options of a stack that may be on or off, each in any company.
var choices = []func(*simv1alpha1.SimulatorDeploymentSpec){
	func(s *simv1alpha1.SimulatorDeploymentSpec) {
		s.Prefill = &simv1alpha1.StageConfig{Enabled: true, Replicas: new(int32(2)), Args: []string{"--max-num-seqs", "8"}}
	},
	func(s *simv1alpha1.SimulatorDeploymentSpec) {
		s.Decode = &simv1alpha1.StageConfig{Enabled: true, Replicas: new(int32(2))}
	},
	func(s *simv1alpha1.SimulatorDeploymentSpec) {
		s.EPP = &simv1alpha1.EPPConfig{Enabled: true, Replicas: new(int32(2))}
	},
	func(s *simv1alpha1.SimulatorDeploymentSpec) {
		s.InferenceGateway.Standard = &simv1alpha1.GatewayInstanceConfig{Enabled: true, Replicas: new(int32(2))}
	},
	func(s *simv1alpha1.SimulatorDeploymentSpec) {
		s.InferenceGateway.Istio = &simv1alpha1.GatewayInstanceConfig{Enabled: true}
	},
	func(s *simv1alpha1.SimulatorDeploymentSpec) {
		s.Gateway = &simv1alpha1.GatewayConfig{Enabled: true, ClassName: "someones"}
	},
	func(s *simv1alpha1.SimulatorDeploymentSpec) {
		s.Service = &simv1alpha1.ServiceConfig{Name: "front", Port: 9000, Type: corev1.ServiceTypeNodePort}
	},
	func(s *simv1alpha1.SimulatorDeploymentSpec) { s.NamePrefix = "blue-" },
}

// balancings are the ways to spread requests.
var balancings = []*simv1alpha1.LoadBalancingConfig{
	nil,
	{Enabled: true},
	{Enabled: true, Algorithm: simv1alpha1.AlgorithmRoundRobin},
	{Enabled: true, Algorithm: simv1alpha1.AlgorithmLeastRequest},
	{Enabled: true, Algorithm: simv1alpha1.AlgorithmRandom},
	{Enabled: true, Algorithm: simv1alpha1.AlgorithmLeastConn},
	{Enabled: true, ConnectionPool: &simv1alpha1.ConnectionPoolConfig{HTTP1MaxPendingRequests: 1, MaxRequestsPerConnection: 1}},
}

// clusters serve each optional API that a spec asks for, in each version, or
// don't. A prefix has nothing to do with that: one cluster is enough for it.
func clusters(spec simv1alpha1.SimulatorDeploymentSpec) []simulatordeployment.Served {
	if spec.NamePrefix != "" {
		return []simulatordeployment.Served{{Pool: "v1", Objectives: true, DestinationRule: "v1", Gateway: "v1"}}
	}
	pools, rules, gateways := []string{""}, []string{""}, []string{""}
	if spec.EPP != nil {
		pools = append(pools, "v1", "v1alpha2")
	}
	if spec.LoadBalancing != nil {
		rules = append(rules, "v1beta1", "v1")
	}
	if spec.Gateway != nil {
		gateways = append(gateways, "v1")
	}
	var all []simulatordeployment.Served
	for _, pool := range pools {
		for _, rule := range rules {
			for _, gateway := range gateways {
				served := simulatordeployment.Served{Pool: pool, DestinationRule: rule, Gateway: gateway}
				all = append(all, served)
				if served.Objectives = true; pool != "" {
					all = append(all, served)
				}
			}
		}
	}
	return all
}

// specs are all combinations of choices and balancings.
func specs() []simv1alpha1.SimulatorDeploymentSpec {
	var all []simv1alpha1.SimulatorDeploymentSpec
	for chosen := range 1 << len(choices) {
		for _, balancing := range balancings {
			spec := simv1alpha1.SimulatorDeploymentSpec{
				InferenceGateway: &simv1alpha1.InferenceGatewayConfig{Enabled: true}, LoadBalancing: balancing,
			}
			for i, choose := range choices {
				if chosen&(1<<i) != 0 {
					choose(&spec)
				}
			}
			all = append(all, spec)
		}
	}
	return all
}

// TestEveryCombinationIsAccepted renders every combination of options in every
// kind of cluster, and has the API server check each object that differs, with no
// field unknown to it: an object is accepted or not whatever stands beside it.
// The pods are held to the restricted Pod Security Standard.
func TestEveryCombinationIsAccepted(t *testing.T) {
	serve(t, definitions.InferencePools, definitions.InferencePoolsX, definitions.InferenceObjectives,
		definitions.DestinationRules, definitions.Gateways, definitions.HTTPRoutes)
	for _, name := range []string{definitions.InferencePools, definitions.InferencePoolsX, definitions.DestinationRules, definitions.Gateways, definitions.HTTPRoutes} {
		awaitEstablished(t, name)
	}
	ns := restricted(t)
	strict := client.WithFieldValidation(kube, "Strict")
	distinct := map[object.Digest]*unstructured.Unstructured{}
	for _, spec := range specs() {
		wanted := &simv1alpha1.SimulatorDeployment{Spec: spec}
		wanted.Namespace, wanted.Name = ns, "sim"
		distinct[object.Hash(spec)] = untyped(t, wanted)
		for _, served := range clusters(spec) {
			objects, err := simulatordeployment.Objects(simulatordeployment.Input{Deployment: wanted, Served: served})
			if err != nil {
				t.Fatal(err)
			}
			for _, each := range objects {
				distinct[object.Hash(each.Object)] = each
			}
		}
	}
	kinds := map[string]int{}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for _, each := range distinct {
		kinds[each.GetKind()]++
		group.Go(func() error { return accepted(ctx, strict, each) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("accepted: %v", kinds)
	for _, kind := range []string{"Deployment", "Service", "ConfigMap", "InferencePool", "DestinationRule", "Gateway", "HTTPRoute", "PodDisruptionBudget"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was checked", kind)
		}
	}
}

// restricted makes a namespace that lets in only restricted pods, with the
// accounts that they name.
func restricted(t *testing.T) string {
	t.Helper()
	ns := namespace(t)
	labelled := &corev1.Namespace{}
	labelled.Name = ns
	enforce := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
	if err := kube.Patch(t.Context(), labelled, enforce); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gaie-sim-epp", "blue-gaie-sim-epp", "default"} {
		account := &corev1.ServiceAccount{}
		account.Namespace, account.Name = ns, name
		if err := kube.Create(t.Context(), account); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	return ns
}

func untyped(t *testing.T, typed *simv1alpha1.SimulatorDeployment) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	delete(content, "status")
	made := &unstructured.Unstructured{Object: content}
	made.SetGroupVersionKind(simv1alpha1.GroupVersion.WithKind("SimulatorDeployment"))
	return made
}

// accepted asks the API server whether it would take an object, and a pod of it.
func accepted(ctx context.Context, strict client.Client, object *unstructured.Unstructured) error {
	err := strict.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()),
		client.FieldOwner("combinations"), client.ForceOwnership, client.DryRunAll)
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%v", object.GetKind(), object.GetName(), err, object.Object)
	}
	if object.GetKind() != "Deployment" {
		return nil
	}
	template, _, err := unstructured.NestedMap(object.Object, "spec", "template")
	if err != nil {
		return err
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetNamespace(object.GetNamespace())
	pod.SetGenerateName(object.GetName() + "-")
	if err := strict.Create(ctx, pod, client.DryRunAll); err != nil {
		return fmt.Errorf("a pod of %s: %w", object.GetName(), err)
	}
	return nil
}
