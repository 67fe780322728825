// Package llm tests LLMModel and LLMDeployment against a real API server, with
// the controllers running in the test and pods on a simulated node.
package llm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
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
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "llm-"}}
	if err := kube.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's context has ended.
		if err := kube.Delete(context.Background(), made); err != nil {
			t.Errorf("delete the namespace: %v", err)
		}
	})
	return made.Name
}

func model(namespace string) *llmv1alpha1.LLMModel {
	return &llmv1alpha1.LLMModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gpt-small"},
		Spec:       llmv1alpha1.LLMModelSpec{ModelName: "GPT-Small", Image: "your-registry/gpt-small:v1"},
	}
}

func deployment(namespace string) *llmv1alpha1.LLMDeployment {
	return &llmv1alpha1.LLMDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chat-service"},
		Spec:       llmv1alpha1.LLMDeploymentSpec{ModelRef: "gpt-small", Replicas: 2, Port: 8080},
	}
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// await watches an object until it is as wanted, and returns it so. Why it isn't
// yet is what the function returns; empty means that it is.
func await[T client.Object](t *testing.T, object T, list client.ObjectList, missing func(T) string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	watcher, err := kube.Watch(ctx, list, client.InNamespace(object.GetNamespace()))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if err := kube.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	} else if err == nil && missing(object) == "" {
		return object
	}
	last := "it never appeared"
	for {
		select {
		case event := <-watcher.ResultChan():
			found, ok := event.Object.(T)
			if !ok || found.GetName() != object.GetName() {
				continue
			}
			if last = missing(found); last == "" {
				return found
			}
		case <-ctx.Done():
			t.Fatalf("%s after %s: %s", object.GetName(), deadline, last)
		}
	}
}

// awaitGone waits until an object isn't there any more.
func awaitGone(t *testing.T, object client.Object, list client.ObjectList) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	watcher, err := kube.Watch(ctx, list, client.InNamespace(object.GetNamespace()))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-watcher.ResultChan():
		case <-ctx.Done():
			t.Fatalf("%s is still there after %s", object.GetName(), deadline)
		}
	}
}
