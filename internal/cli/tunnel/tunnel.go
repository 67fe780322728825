// Package tunnel reaches a served model through the Kubernetes API server. It
// finds a ready pod of an LLMDeployment and forwards a local port to it; it
// changes nothing in the cluster.
package tunnel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// deployments is the resource that names a served model.
var deployments = schema.GroupVersionResource{Group: "llm.example.com", Version: "v1alpha1", Resource: "llmdeployments"}

// maxPods is how many pods of a Service are looked at for a ready one.
const maxPods = 500

// Target is a port of a ready pod.
type Target struct {
	Namespace, Pod string
	Port           int
}

// Find returns a ready pod of the LLMDeployment of that name. When none is
// ready, the error is the message of the resource's Ready condition.
func Find(ctx context.Context, config *rest.Config, namespace, name string) (Target, error) {
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return Target{}, fmt.Errorf("use the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Target{}, fmt.Errorf("use the kubeconfig: %w", err)
	}
	deployment, err := dynamicClient.Resource(deployments).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Target{}, explainMissing(err, namespace, name)
	}
	service, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Target{}, notReady(deployment)
	}
	if err != nil {
		return Target{}, fmt.Errorf("read Service %s/%s: %w", namespace, name, err)
	}
	if len(service.Spec.Selector) == 0 {
		return Target{}, fmt.Errorf("the Service %s/%s selects no pods; is it another's?", namespace, name)
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String(),
		Limit:         maxPods,
	})
	if err != nil {
		return Target{}, fmt.Errorf("list the pods of Service %s/%s: %w", namespace, name, err)
	}
	pod := choose(pods.Items)
	if pod == nil {
		return Target{}, notReady(deployment)
	}
	port, err := targetPort(service, pod)
	if err != nil {
		return Target{}, err
	}
	return Target{Namespace: namespace, Pod: pod.Name, Port: port}, nil
}

// explainMissing says what to do where the resource, or its kind, isn't there.
func explainMissing(err error, namespace, name string) error {
	switch {
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read LLMDeployment %s/%s: %w", namespace, name, err)
	case apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse): // A plain page: the path isn't served.
		return errors.New("this cluster knows no LLMDeployments; `slipway install` installs the operator")
	}
	return fmt.Errorf("there is no LLMDeployment %q in namespace %q; `kubectl get llmdeployments -A` lists them", name, namespace)
}

// notReady says why a deployment has no ready pod, in its own words.
func notReady(deployment *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(deployment.Object, "status", "conditions")
	for _, item := range conditions {
		condition, ok := item.(map[string]any)
		if !ok || condition["type"] != "Ready" || condition["status"] == "True" {
			continue
		}
		if message, ok := condition["message"].(string); ok && message != "" {
			return fmt.Errorf("%s is not ready: %s", deployment.GetName(), message)
		}
	}
	return fmt.Errorf("%s has no ready pod yet; `slipway status llmdeployment/%s -n %s` tells why",
		deployment.GetName(), deployment.GetName(), deployment.GetNamespace())
}

// choose returns the pod that has been ready longest, which is the least likely
// to go away during a chat, or nil.
func choose(pods []corev1.Pod) *corev1.Pod {
	var best *corev1.Pod
	var since metav1.Time
	for i := range pods {
		pod := &pods[i]
		at, ready := readySince(pod)
		if !ready || pod.DeletionTimestamp != nil {
			continue
		}
		if best == nil || at.Before(&since) || (at.Equal(&since) && pod.Name < best.Name) {
			best, since = pod, at
		}
	}
	return best
}

func readySince(pod *corev1.Pod) (metav1.Time, bool) {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodReady {
			return condition.LastTransitionTime, condition.Status == corev1.ConditionTrue
		}
	}
	return metav1.Time{}, false
}

// targetPort returns the pod's port behind the Service's first port.
func targetPort(service *corev1.Service, pod *corev1.Pod) (int, error) {
	if len(service.Spec.Ports) == 0 {
		return 0, fmt.Errorf("the Service %s/%s has no port", service.Namespace, service.Name)
	}
	port := service.Spec.Ports[0]
	if port.TargetPort.StrVal == "" {
		if port.TargetPort.IntVal != 0 {
			return int(port.TargetPort.IntVal), nil
		}
		return int(port.Port), nil
	}
	for _, container := range pod.Spec.Containers {
		i := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.StrVal })
		if i >= 0 {
			return int(container.Ports[i].ContainerPort), nil
		}
	}
	return 0, fmt.Errorf("the Service %s/%s leads to port %q, which pod %s doesn't have",
		service.Namespace, service.Name, port.TargetPort.StrVal, pod.Name)
}
