// Package nvidiagpullm tests NvidiaGpuLlm against a real API server, with the
// controllers running in the test and pods on a simulated node that has GPUs. Where
// a pod needs an Ollama server, test/ollama/pods gives it a real one; most of what
// needs one is in the end-to-end tests.
package nvidiagpullm

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
)

const deadline = 2 * time.Minute

var (
	config *rest.Config
	kube   client.WithWatch
)

func TestMain(m *testing.M) {
	os.Exit(bed.Operated(m, &bed.Wire{}, func(given *rest.Config) (err error) {
		config = given
		kube, err = bed.NewClient(config)
		return err
	}))
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

// await waits until a resource is as wanted, and returns it so; nil waits until it
// is gone.
func await(t *testing.T, namespace, name string, missing func(*infrav1.NvidiaGpuLlm) string) *infrav1.NvidiaGpuLlm {
	t.Helper()
	found := &infrav1.NvidiaGpuLlm{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if missing == nil {
		bed.AwaitGone(t, kube, found, &infrav1.NvidiaGpuLlmList{})
		return nil
	}
	return bed.Await(t, kube, found, &infrav1.NvidiaGpuLlmList{}, missing)
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
