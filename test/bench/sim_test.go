package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

const (
	// stacks is the size of the budget for many full stacks.
	stacks = 300
	// stackNamespaces hold them, each under name prefixes.
	stackNamespaces = 10
	// partsOfStack is how many Deployments a full stack has.
	partsOfStack = 5
)

// fullStack is the specification's full sample as one of many.
func fullStack(b testing.TB, n int) *simv1alpha1.SimulatorDeployment {
	b.Helper()
	text, err := os.ReadFile("../../config/samples/sim_v1alpha1_simulatordeployment_full.yaml")
	if err != nil {
		b.Fatal(err)
	}
	made := &simv1alpha1.SimulatorDeployment{}
	if err := yaml.UnmarshalStrict(text, made); err != nil {
		b.Fatal(err)
	}
	made.Name = fmt.Sprintf("stack-%03d", n)
	made.Namespace = fmt.Sprintf("stacks-%d", n%stackNamespaces)
	made.Spec.NamePrefix = fmt.Sprintf("s%03d-", n)
	return made
}

func stackReady(d *simv1alpha1.SimulatorDeployment) bool {
	return condition.IsTrue(d.Status.Conditions, condition.Ready)
}

// stackObjects are what the operator makes of a stack where none of the optional
// APIs is served, each with its owner, in the order in which it makes them.
func stackObjects(owner *simv1alpha1.SimulatorDeployment) ([]*unstructured.Unstructured, error) {
	objects, err := simulatordeployment.Objects(simulatordeployment.Input{Deployment: owner})
	if err != nil {
		return nil, err
	}
	controller := metav1.NewControllerRef(owner, simv1alpha1.GroupVersion.WithKind(simv1alpha1.KindSimulatorDeployment))
	for _, object := range objects {
		object.SetOwnerReferences([]metav1.OwnerReference{*controller})
	}
	inOrder(objects)
	return objects, nil
}

func stackWorld(b *testing.B) *world {
	b.Helper()
	w := newWorld(b)
	for n := range stackNamespaces {
		w.namespace(fmt.Sprintf("stacks-%d", n))
	}
	return w
}

// bareStacks writes the resources and all that the operator would make of them.
func bareStacks(b *testing.B) time.Duration {
	b.Helper()
	w := stackWorld(b)
	defer w.plane.Stop()
	begin := time.Now()
	written := aside(b, stacks, func(ctx context.Context, i int) error {
		owner := fullStack(b, i)
		if err := w.client.Create(ctx, owner); err != nil {
			return err
		}
		objects, err := stackObjects(owner)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := w.client.Create(ctx, object); err != nil {
				return err
			}
		}
		return nil
	})
	ready(w, &appsv1.DeploymentList{}, "", stacks*partsOfStack, deploymentReady)
	written()
	return time.Since(begin)
}

// BenchmarkStacks: 300 full stacks from nothing to Ready on simulated nodes,
// against a bare client; then a minute at rest.
func BenchmarkStacks(b *testing.B) {
	path := binary(b)
	for b.Loop() {
		base := bareStacks(b)
		w := stackWorld(b)
		operator := startOperator(w, path)
		begin := time.Now()
		aside(b, stacks, func(ctx context.Context, i int) error { return w.client.Create(ctx, fullStack(b, i)) })
		ready(w, &simv1alpha1.SimulatorDeploymentList{}, "", stacks, stackReady)
		ours := time.Since(begin)
		_, writes := operator.requests()
		b.ReportMetric(operator.passes()/stacks, "passes/stack")
		b.ReportMetric(operator.cpu().Seconds(), "s-cpu-operator")
		b.ReportMetric(base.Seconds(), "s/bare")
		b.ReportMetric(ours.Seconds(), "s/operator")
		b.ReportMetric(ours.Seconds()/base.Seconds(), "ratio(<=1.25)")
		b.ReportMetric(float64(writes)/stacks, "writes/stack")
		b.ReportMetric(operator.peakMemory(), "MiB-peak")
		atRest(b, operator, "writes-at-rest(0)", "reads-and-watches-at-rest")
		w.plane.Stop()
	}
}

// BenchmarkFirstAnswer: from the creation of a full stack to the first answer
// through its gateway, on a real node with the images present: the real picker,
// the real sidecar, a stand-in for Envoy; beside a client that creates the same
// objects itself.
func BenchmarkFirstAnswer(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("a local cluster with a real node needs root")
	}
	path := binary(b)
	for b.Loop() {
		w := newLocalWorld(b, path)
		w.namespace("stacks-0")
		w.firstAnswer(b, w.createStack) // the node pulls the images
		var bare, ours []time.Duration
		for range tries {
			bare = append(bare, w.firstAnswer(b, w.createBareStack))
			ours = append(ours, w.firstAnswer(b, w.createStack))
		}
		slices.Sort(bare)
		slices.Sort(ours)
		b.ReportMetric(bare[tries/2].Seconds(), "s-first-answer-bare")
		b.ReportMetric(ours[tries/2].Seconds(), "s-first-answer(<10)")
		b.ReportMetric(ours[tries-1].Seconds(), "s-first-answer-worst")
		b.ReportMetric(ours[tries/2].Seconds()/bare[tries/2].Seconds(), "ratio-to-bare")
	}
}

func (w *localWorld) createStack(ctx context.Context, b *testing.B) []client.Object {
	b.Helper()
	made := fullStack(b, 0)
	if err := w.client.Create(ctx, made); err != nil {
		b.Fatal(err)
	}
	return []client.Object{made}
}

func (w *localWorld) createBareStack(ctx context.Context, b *testing.B) []client.Object {
	b.Helper()
	objects, err := simulatordeployment.Objects(simulatordeployment.Input{Deployment: fullStack(b, 0)})
	if err != nil {
		b.Fatal(err)
	}
	var made []client.Object
	for _, object := range objects {
		if err := w.client.Create(ctx, object); err != nil {
			b.Fatal(err)
		}
		made = append(made, object)
	}
	return made
}

// firstAnswer creates a stack, asks its gateway until a decode pod answers, and
// removes the stack.
func (w *localWorld) firstAnswer(b *testing.B, create func(context.Context, *testing.B) []client.Object) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	begin := time.Now()
	made := create(ctx, b)
	eventually(b, "an answer through the gateway", func() bool {
		answer, err := w.kube.CoreV1().RESTClient().Post().Namespace("stacks-0").Resource("services").
			Name("s000-infra-sim-inference-gateway:http").SubResource("proxy").Suffix("v1/completions").
			Body([]byte(`{"model": "random", "prompt": "Hello", "max_tokens": 4}`)).
			SetHeader("Content-Type", "application/json").DoRaw(ctx)
		return err == nil && strings.Contains(string(answer), `"completion_tokens":4`)
	})
	took := time.Since(begin)
	for _, object := range made {
		if err := w.client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			b.Fatal(err)
		}
	}
	eventually(b, "the pods are gone", func() bool {
		var pods corev1.PodList
		err := w.client.List(ctx, &pods, client.InNamespace("stacks-0"))
		return err == nil && len(pods.Items) == 0
	})
	return took
}
