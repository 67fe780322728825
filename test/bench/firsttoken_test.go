package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/cluster"
	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/internal/render/llmdeployment"
)

// tries is how often the time to the first token is taken; the median counts.
const tries = 5

// BenchmarkFirstToken: from the creation of an LLMDeployment to its first token,
// through its Service, on a real node with the image present; beside a client
// that creates the same objects itself.
func BenchmarkFirstToken(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("a local cluster with a real node needs root")
	}
	path := binary(b)
	for b.Loop() {
		w := newLocalWorld(b, path)
		w.namespace("first")
		if err := w.client.Create(context.Background(), model("first")); err != nil {
			b.Fatal(err)
		}
		var bare, ours []time.Duration
		for i := range tries {
			bare = append(bare, w.firstToken(b, 2*i, w.createBare))
			ours = append(ours, w.firstToken(b, 2*i+1, w.createDeployment))
		}
		slices.Sort(bare)
		slices.Sort(ours)
		b.ReportMetric(bare[tries/2].Seconds(), "s-first-token-bare")
		b.ReportMetric(ours[tries/2].Seconds(), "s-first-token(<3)")
		b.ReportMetric(ours[tries-1].Seconds(), "s-first-token-worst")
		b.ReportMetric(ours[tries/2].Seconds()/bare[tries/2].Seconds(), "ratio-to-bare")
	}
}

// localWorld is a world with a real node and the operator installed.
type localWorld struct {
	*world
	kube *kubernetes.Clientset
}

func newLocalWorld(b *testing.B, path string) *localWorld {
	b.Helper()
	b.Setenv("SLIPWAY_STATE", b.TempDir())
	name := fmt.Sprintf("bench-%d", os.Getpid())
	b.Cleanup(func() { _ = cluster.Down(context.Background(), name) })
	up := exec.Command(path, "up", "--name", name)
	up.Stderr = os.Stderr
	if err := up.Run(); err != nil {
		b.Fatalf("slipway up: %v", err)
	}
	file, err := cluster.Kubeconfig(name)
	if err != nil {
		b.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		b.Fatal(err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := controller.AddToScheme(scheme); err != nil {
		b.Fatal(err)
	}
	made, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	return &localWorld{world: &world{tb: b, config: config, client: made}, kube: kube}
}

func (w *localWorld) createDeployment(ctx context.Context, i int) (client.Object, error) {
	made := deployment("first", i)
	made.Spec.Replicas = 1
	return made, w.client.Create(ctx, made)
}

// createBare makes the objects of the same deployment without the operator.
func (w *localWorld) createBare(ctx context.Context, i int) (client.Object, error) {
	wanted := deployment("first", i)
	wanted.Spec.Replicas = 1
	objects, err := llmdeployment.Objects(llmdeployment.Input{Deployment: wanted, Model: model("first")})
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := w.client.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "first", Name: wanted.Name}}, nil
}

// firstToken creates a deployment, waits for its pod, asks its Service, and
// times how long the first token took from the beginning.
func (w *localWorld) firstToken(b *testing.B, i int, create func(context.Context, int) (client.Object, error)) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := deployment("first", i).Name
	watcher, err := w.client.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace("first"), client.MatchingFields{"metadata.name": name})
	if err != nil {
		b.Fatal(err)
	}
	defer watcher.Stop()
	begin := time.Now()
	made, err := create(ctx, i)
	if err != nil {
		b.Fatal(err)
	}
	for event := range watcher.ResultChan() {
		if d, is := event.Object.(*appsv1.Deployment); is && deploymentReady(d) {
			break
		}
	}
	w.ask(ctx, b, name)
	took := time.Since(begin)
	if err := w.client.Delete(context.Background(), made, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		b.Fatal(err)
	}
	w.clean(b, name)
	return took
}

// ask streams a completion through the Service and returns at the first token.
// A Service takes a moment to learn of its pod, so a refusal is asked again.
func (w *localWorld) ask(ctx context.Context, b *testing.B, name string) {
	b.Helper()
	eventually(b, "the first token", func() bool {
		stream, err := w.kube.CoreV1().RESTClient().Post().Namespace("first").Resource("services").Name(name+":http").
			SubResource("proxy").Suffix("v1/completions").
			Body([]byte(`{"model": "GPT-Small", "prompt": "Hello", "max_tokens": 4, "stream": true}`)).
			SetHeader("Content-Type", "application/json").Stream(ctx)
		if err != nil {
			return false
		}
		defer stream.Close()
		line, err := bufio.NewReader(stream).ReadString('\n')
		return err == nil && strings.HasPrefix(line, "data: ")
	})
}

// clean waits until the pods are gone, and removes what a bare client left.
func (w *localWorld) clean(b *testing.B, name string) {
	b.Helper()
	ctx := context.Background()
	meta := metav1.ObjectMeta{Namespace: "first", Name: name}
	for _, left := range []client.Object{&corev1.Service{ObjectMeta: meta}, &corev1.ServiceAccount{ObjectMeta: meta}} {
		if err := client.IgnoreNotFound(w.client.Delete(ctx, left)); err != nil {
			b.Fatal(err)
		}
	}
	eventually(b, "the pods are gone", func() bool {
		var pods corev1.PodList
		err := w.client.List(ctx, &pods, client.InNamespace("first"))
		return err == nil && len(pods.Items) == 0
	})
}
