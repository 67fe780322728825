// Package tunnel reaches a served model through the Kubernetes API server. It
// finds a ready pod of a resource and forwards a local port to it; it
// changes nothing in the cluster.
package tunnel

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// maxPods is how many pods of a Service are looked at for a ready one.
const maxPods = 500

// Target is a port of a ready pod.
type Target struct {
	Namespace, Pod string
	Port           int
}

// Find returns a ready pod of the resource of that name, of any of the kinds that
// serve models. When none is ready, the error is the message of the resource's
// Ready condition.
func Find(ctx context.Context, config *rest.Config, namespace, name string) (Target, error) {
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return Target{}, fmt.Errorf("use the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Target{}, fmt.Errorf("use the kubeconfig: %w", err)
	}
	resource, where, err := find(ctx, dynamicClient, namespace, name)
	if err != nil {
		return Target{}, err
	}
	if where.pod != "" {
		return ofPod(ctx, client, resource, where)
	}
	return ofService(ctx, client, resource, where)
}

// ofPod is the target of a kind that names its pod.
func ofPod(ctx context.Context, client kubernetes.Interface, resource *unstructured.Unstructured, where place) (Target, error) {
	pod, err := client.CoreV1().Pods(where.namespace).Get(ctx, where.pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Target{}, notReady(resource)
	}
	if err != nil {
		return Target{}, fmt.Errorf("read pod %s/%s: %w", where.namespace, where.pod, err)
	}
	if _, ready := readySince(pod); !ready || pod.DeletionTimestamp != nil {
		return Target{}, notReady(resource)
	}
	return Target{Namespace: where.namespace, Pod: where.pod, Port: where.port}, nil
}

// ofService is the target of a kind that is reached through a Service.
func ofService(ctx context.Context, client kubernetes.Interface, resource *unstructured.Unstructured, where place) (Target, error) {
	namespace, name := where.namespace, where.service
	service, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Target{}, notReady(resource)
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
		return Target{}, notReady(resource)
	}
	port, err := targetPort(service, pod)
	if err != nil {
		return Target{}, err
	}
	return Target{Namespace: namespace, Pod: pod.Name, Port: port}, nil
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
	return fmt.Errorf("%s has no ready pod yet; `slipway status %s/%s -n %s` tells why",
		deployment.GetName(), strings.ToLower(deployment.GetKind()), deployment.GetName(), deployment.GetNamespace())
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
