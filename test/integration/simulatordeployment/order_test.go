package simulatordeployment

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/definitions"
)

// histories is how many random histories are lived.
const histories = 20

// look is the time between two looks at a world, which no one watch shows.
const look = 50 * time.Millisecond

// wish is one change of a spec, and whether the stack settles before the next.
type wish struct {
	change  func(*simv1alpha1.SimulatorDeploymentSpec)
	settles bool
}

// history is a random list of wishes: each switches a part on, changes it or
// switches it off.
var history = rapid.Custom(func(t *rapid.T) []wish {
	return rapid.SliceOfN(rapid.Custom(drawWish), 3, 8).Draw(t, "history")
})

func drawWish(t *rapid.T) wish {
	on := rapid.IntRange(0, 2).Draw(t, "on") > 0
	count := rapid.Int32Range(0, 2).Draw(t, "replicas")
	image := rapid.SampledFrom([]string{"example.com/a:1", "example.com/b:2"}).Draw(t, "image")
	port := rapid.Int32Range(9100, 9102).Draw(t, "port")
	stage := func() *simv1alpha1.StageConfig {
		return &simv1alpha1.StageConfig{Enabled: on, Replicas: &count, Image: image, Port: port}
	}
	gateway := func() *simv1alpha1.GatewayInstanceConfig {
		return &simv1alpha1.GatewayInstanceConfig{Enabled: on, Replicas: &count, Image: image, Port: port}
	}
	algorithm := rapid.SampledFrom([]simv1alpha1.Algorithm{simv1alpha1.AlgorithmRandom, simv1alpha1.AlgorithmLeastConn}).Draw(t, "algorithm")
	name := rapid.SampledFrom([]string{"front", "entry"}).Draw(t, "name")
	kind := rapid.SampledFrom([]corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort}).Draw(t, "type")
	prefix := rapid.SampledFrom([]string{"", "blue-", "green-"}).Draw(t, "prefix")
	change := rapid.SampledFrom([]func(*simv1alpha1.SimulatorDeploymentSpec){
		func(s *simv1alpha1.SimulatorDeploymentSpec) { s.Prefill = stage() },
		func(s *simv1alpha1.SimulatorDeploymentSpec) { s.Decode = stage() },
		func(s *simv1alpha1.SimulatorDeploymentSpec) {
			s.EPP = &simv1alpha1.EPPConfig{Enabled: on, Replicas: &count, Image: image}
		},
		func(s *simv1alpha1.SimulatorDeploymentSpec) { s.InferenceGateway.Standard = gateway() },
		func(s *simv1alpha1.SimulatorDeploymentSpec) { s.InferenceGateway.Istio = gateway() },
		func(s *simv1alpha1.SimulatorDeploymentSpec) {
			s.Gateway = &simv1alpha1.GatewayConfig{Enabled: on, ClassName: "someones", RouteName: name}
		},
		func(s *simv1alpha1.SimulatorDeploymentSpec) {
			s.LoadBalancing = &simv1alpha1.LoadBalancingConfig{Enabled: on, Algorithm: algorithm}
		},
		func(s *simv1alpha1.SimulatorDeploymentSpec) {
			if s.Service = nil; on {
				s.Service = &simv1alpha1.ServiceConfig{Name: name, Port: port, Type: kind}
			}
		},
		func(s *simv1alpha1.SimulatorDeploymentSpec) { s.NamePrefix = prefix },
		func(s *simv1alpha1.SimulatorDeploymentSpec) { s.Replicas, s.Image = &count, image },
	}).Draw(t, "what")
	return wish{change, rapid.Bool().Draw(t, "settles")}
}

// TestHistoryLeavesNoTrace: whatever parts came, changed and went before, the
// world is that of a new resource with the last spec; and after the end nothing
// is left.
func TestHistoryLeavesNoTrace(t *testing.T) {
	serve(t, definitions.InferencePools, definitions.InferenceObjectives, definitions.DestinationRules,
		definitions.Gateways, definitions.HTTPRoutes)
	for _, name := range []string{definitions.InferencePools, definitions.DestinationRules, definitions.Gateways, definitions.HTTPRoutes} {
		awaitEstablished(t, name)
	}
	t.Run("histories", func(t *testing.T) { // ends before the definitions go
		for seed := range histories {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				live(t, history.Example(seed))
			})
		}
	})
}

func live(t *testing.T, wishes []wish) {
	ns, other := namespace(t), namespace(t)
	lived := stack(ns)
	create(t, lived)
	for _, each := range wishes {
		before := lived.DeepCopy()
		each.change(&lived.Spec)
		if err := kube.Patch(t.Context(), lived, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		if each.settles {
			await(t, ns, lived.Name, unsettled)
		}
	}
	fresh := stack(other)
	fresh.Spec = *lived.Spec.DeepCopy()
	create(t, fresh)
	eventually(t, func() string {
		if missing := settledNow(t, lived) + settledNow(t, fresh); missing != "" {
			return missing
		}
		return cmp.Diff(picture(t, fresh), picture(t, lived))
	})
	for _, each := range []*simv1alpha1.SimulatorDeployment{lived, fresh} {
		if err := kube.Delete(t.Context(), each); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() string {
			if left := picture(t, each); len(left) > 0 {
				return fmt.Sprintf("left after the end: %v", left)
			}
			return ""
		})
	}
}

func stack(namespace string) *simv1alpha1.SimulatorDeployment {
	return &simv1alpha1.SimulatorDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "stack"},
		Spec: simv1alpha1.SimulatorDeploymentSpec{
			Replicas: new(int32(1)), InferenceGateway: &simv1alpha1.InferenceGatewayConfig{Enabled: true},
		},
	}
}

// unsettled tells what is still under way. A stack that can't answer for want of
// decode pods won't get ready, and has settled all the same.
func unsettled(d *simv1alpha1.SimulatorDeployment) string {
	ready := condition.Find(d.Status.Conditions, condition.Ready)
	switch {
	case ready == nil || ready.ObservedGeneration != d.Generation:
		return "nothing is told yet"
	case ready.Status != metav1.ConditionTrue && ready.Reason != "NoDecodeStage":
		return told(d, condition.Ready)
	case d.Status.Replicas != d.Status.ReadyReplicas:
		return "pods come or go"
	default:
		return ""
	}
}

func settledNow(t *testing.T, d *simv1alpha1.SimulatorDeployment) string {
	t.Helper()
	found := &simv1alpha1.SimulatorDeployment{}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(d), found); err != nil {
		t.Fatal(err)
	}
	return unsettled(found)
}

// optionalKinds are those that the cluster of these tests serves beside its own.
var optionalKinds = []schema.GroupVersionKind{
	simv1alpha1.GroupVersion.WithKind("SimulatorDeployment"),
	{Group: "inference.networking.k8s.io", Version: "v1", Kind: "InferencePool"},
	{Group: "networking.istio.io", Version: "v1", Kind: "DestinationRule"},
	{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"},
	{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"},
}

// picture is the world of a resource, without the count of its specs and without
// the node ports that the cluster draws.
func picture(t *testing.T, d *simv1alpha1.SimulatorDeployment) bed.World {
	t.Helper()
	world := bed.Picture(t, kube, d.Namespace, d, optionalKinds...)
	forget(map[string]any(world), "observedGeneration", "nodePort")
	for name := range world {
		if strings.HasPrefix(name, "SimulatorDeployment/") { // whose fields the test itself manages
			delete(world[name].(map[string]any)["metadata"].(map[string]any), "managedFields")
		}
	}
	return world
}

func forget(value any, fields ...string) {
	switch v := value.(type) {
	case map[string]any:
		for _, field := range fields {
			delete(v, field)
		}
		for _, each := range v {
			forget(each, fields...)
		}
	case []any:
		for _, each := range v {
			forget(each, fields...)
		}
	}
}

// eventually looks again and again until nothing is missing.
func eventually(t *testing.T, missing func() string) {
	t.Helper()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	late := time.After(deadline)
	for {
		told := missing()
		if told == "" {
			return
		}
		select {
		case <-ticker.C:
		case <-late:
			t.Fatalf("after %s: %s", deadline, told)
		}
	}
}
