// Package nvidiagpullm tests NvidiaGpuLlm against a real API server, with the
// controllers running in the test and pods on a simulated node that has GPUs. Where
// a pod needs an Ollama server, test/ollama/pods gives it a real one; most of what
// needs one is in the end-to-end tests.
package nvidiagpullm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/test/controlplane"
)

const deadline = 60 * time.Second

var (
	config *rest.Config
	kube   client.WithWatch
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run starts one control plane and one operator for all tests of the package.
func run(m *testing.M) (int, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	plane, err := controlplane.New(ctx, controlplane.WithNodes(1))
	if err != nil {
		return 1, err
	}
	defer plane.Stop()
	config = plane.Config()
	if kube, err = newClient(config); err != nil {
		return 1, err
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{"../../../config/crd"}, ErrorIfPathMissing: true,
	}); err != nil {
		return 1, err
	}
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx, config, options()) }()
	code := m.Run()
	cancel()
	return code, errors.Join(err, <-done)
}

func options() manager.Options {
	return manager.Options{
		MetricsAddress: "0", HealthAddress: "0", Concurrency: 8, ShutdownGrace: 10 * time.Second,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := controller.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// namespace makes one that goes with the test.
func namespace(t *testing.T) string {
	t.Helper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "gpu-"}}
	create(t, made)
	t.Cleanup(func() {
		// The test's context has ended.
		if err := kube.Delete(context.Background(), made); err != nil {
			t.Errorf("delete the namespace: %v", err)
		}
	})
	return made.Name
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func resource(namespace, name string, action infrav1.Action) *infrav1.NvidiaGpuLlm {
	return &infrav1.NvidiaGpuLlm{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       infrav1.NvidiaGpuLlmSpec{Action: action, LLMName: "gpu-llm-pod"},
	}
}

// await watches a resource until it is as wanted, and returns it so; nil waits
// until it is gone.
func await(t *testing.T, namespace, name string, missing func(*infrav1.NvidiaGpuLlm) string) *infrav1.NvidiaGpuLlm {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	watcher, err := kube.Watch(ctx, &infrav1.NvidiaGpuLlmList{}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	last := "it never appeared"
	if missing == nil {
		found := &infrav1.NvidiaGpuLlm{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found); apierrors.IsNotFound(err) {
			return nil
		}
	}
	for {
		select {
		case event := <-watcher.ResultChan():
			found, ok := event.Object.(*infrav1.NvidiaGpuLlm)
			if !ok {
				continue
			}
			if missing == nil {
				if event.Type == watch.Deleted {
					return found
				}
				last = "it is still there"
				continue
			}
			if last = missing(found); last == "" {
				return found
			}
		case <-ctx.Done():
			t.Fatalf("%s after %s: %s", name, deadline, last)
		}
	}
}

// says waits for a Ready condition of the current spec with a reason and a text.
func says(reason, text string) func(*infrav1.NvidiaGpuLlm) string {
	return func(d *infrav1.NvidiaGpuLlm) string {
		ready := condition.Find(d.Status.Conditions, condition.Ready)
		if ready == nil {
			return "no Ready condition"
		}
		if ready.Reason == reason && ready.ObservedGeneration == d.Generation && strings.Contains(ready.Message, text) {
			return ""
		}
		return fmt.Sprintf("%s: %s", ready.Reason, ready.Message)
	}
}

// awaitPod watches the pod of the name until it is as wanted, nil meaning gone.
func awaitPod(t *testing.T, namespace string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	watcher, err := kube.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for {
		pod := &corev1.Pod{}
		err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "gpu-llm-pod"}, pod)
		switch {
		case err == nil && wanted(pod):
			return pod
		case err != nil && wanted(nil):
			return nil
		}
		select {
		case <-watcher.ResultChan():
		case <-ctx.Done():
			t.Fatalf("the pod after %s: not as wanted", deadline)
		}
	}
}

func there(pod *corev1.Pod) bool { return pod != nil && pod.DeletionTimestamp == nil }

func unstructuredOf(t *testing.T, text, namespace string) *unstructured.Unstructured {
	t.Helper()
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	made.SetNamespace(namespace)
	return made
}
