// Package llm tests LLMModel and LLMDeployment against a real API server, with
// the controllers running in the test and pods on a simulated node.
package llm

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/test/bed"
)

var kube client.WithWatch

func TestMain(m *testing.M) {
	os.Exit(bed.Operated(m, &bed.Wire{}, func(config *rest.Config) (err error) {
		kube, err = bed.NewClient(config)
		return err
	}))
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
