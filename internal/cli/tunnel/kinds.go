package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// ollamaPort is where Ollama listens in the pod of a NvidiaGpuLlm.
const ollamaPort = 11434

// place is where a resource's model answers: behind a Service, or in a pod.
type place struct {
	namespace, service string
	pod                string
	port               int
}

// kinds are those that serve models, in the order in which a name is looked for.
var kinds = []struct {
	resource schema.GroupVersionResource
	where    func(*unstructured.Unstructured) place
}{
	{schema.GroupVersionResource{Group: "llm.example.com", Version: "v1alpha1", Resource: "llmdeployments"}, ofDeployment},
	{schema.GroupVersionResource{Group: "sim.llm-d.io", Version: "v1alpha1", Resource: "simulatordeployments"}, ofStack},
	{schema.GroupVersionResource{Group: "infra.example.com", Version: "v1", Resource: "nvidiagpullms"}, ofOllama},
}

// find looks for a resource of the name, of each kind in turn.
func find(ctx context.Context, client dynamic.Interface, namespace, name string) (*unstructured.Unstructured, place, error) {
	served := false
	for _, kind := range kinds {
		found, err := client.Resource(kind.resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			return found, kind.where(found), nil
		case !apierrors.IsNotFound(err):
			return nil, place{}, fmt.Errorf("look for %s/%s among %s: %w", namespace, name, kind.resource.Resource, err)
		case isServed(err):
			served = true
		}
	}
	return nil, place{}, missing(served, namespace, name)
}

// isServed tells an object that isn't there from a kind that isn't served: that
// gets a plain page.
func isServed(notFound error) bool {
	return !apierrors.HasStatusCause(notFound, metav1.CauseTypeUnexpectedServerResponse)
}

// missing says what to do where the resource, or every kind, isn't there.
func missing(served bool, namespace, name string) error {
	if !served {
		return errors.New("this cluster knows no kind that serves models; `slipway install` installs the operator")
	}
	return fmt.Errorf("nothing that serves a model is called %q in namespace %q; `kubectl get llm-all -A` lists what there is", name, namespace)
}

func ofDeployment(deployment *unstructured.Unstructured) place {
	return place{namespace: deployment.GetNamespace(), service: deployment.GetName()}
}

// ofStack is the gateway of a stack, or else the Service of its simulators.
func ofStack(stack *unstructured.Unstructured) place {
	address, _, _ := unstructured.NestedString(stack.Object, "status", "gatewayURL")
	if endpoints, _, _ := unstructured.NestedStringSlice(stack.Object, "status", "endpoints"); !strings.Contains(address, ".svc:") && len(endpoints) > 0 {
		address = endpoints[0]
	}
	service := ""
	if parsed, err := url.Parse(address); err == nil {
		service, _, _ = strings.Cut(parsed.Hostname(), ".")
	}
	return place{namespace: stack.GetNamespace(), service: service}
}

func ofOllama(resource *unstructured.Unstructured) place {
	namespace, _, _ := unstructured.NestedString(resource.Object, "spec", "namespace")
	if namespace == "" {
		namespace = resource.GetNamespace()
	}
	pod, _, _ := unstructured.NestedString(resource.Object, "spec", "llmName")
	return place{namespace: namespace, pod: pod, port: ollamaPort}
}
