package tunnel

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// podReady makes a pod that is ready, or isn't, since a second of the day.
func podReady(name string, status corev1.ConditionStatus, second int64) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Unix(second, 0)},
		}},
	}
}

func TestChoose(t *testing.T) {
	leaving := podReady("leaving", corev1.ConditionTrue, 1)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(5, 0)}
	old, young, unready := podReady("old", corev1.ConditionTrue, 2), podReady("young", corev1.ConditionTrue, 3), podReady("unready", corev1.ConditionFalse, 1)
	for _, test := range []struct {
		name string
		pods []corev1.Pod
		want string
	}{
		{"none", nil, ""},
		{"none ready", []corev1.Pod{unready, {}}, ""},
		{"a leaving one", []corev1.Pod{leaving}, ""},
		{"the oldest", []corev1.Pod{unready, young, old, leaving}, "old"},
		{"by name", []corev1.Pod{podReady("b", corev1.ConditionTrue, 2), podReady("a", corev1.ConditionTrue, 2)}, "a"},
	} {
		got := ""
		if pod := choose(test.pods); pod != nil {
			got = pod.Name
		}
		if got != test.want {
			t.Errorf("%s: chose %q, want %q", test.name, got, test.want)
		}
	}
}

func TestTargetPort(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9090}}},
		{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8081}}},
	}}}
	for _, test := range []struct {
		name  string
		ports []corev1.ServicePort
		want  int
		fault string
	}{
		{"number", []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}, 8080, ""},
		{"name", []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}, 8081, ""},
		{"the same", []corev1.ServicePort{{Port: 80}}, 80, ""},
		{"unknown name", []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("grpc")}}, 0, `port "grpc"`},
		{"no port", nil, 0, "has no port"},
	} {
		service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: test.ports}}
		got, err := targetPort(service, pod)
		if got != test.want || (err == nil) != (test.fault == "") || (err != nil && !strings.Contains(err.Error(), test.fault)) {
			t.Errorf("%s: %d, %v", test.name, got, err)
		}
	}
}

func TestNotReady(t *testing.T) {
	deployment := func(conditions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"kind": "LLMDeployment", "metadata": map[string]any{"name": "chat", "namespace": "ns"},
			"status": map[string]any{"conditions": conditions},
		}}
	}
	for _, test := range []struct {
		deployment *unstructured.Unstructured
		want       string
	}{
		{deployment(map[string]any{"type": "Reconciling", "status": "True", "message": "no"}, map[string]any{"type": "Ready", "status": "False", "message": "0 of 2 replicas are ready"}), "chat is not ready: 0 of 2 replicas are ready"},
		{deployment(map[string]any{"type": "Ready", "status": "True", "message": "all is well"}), "chat has no ready pod yet; `slipway status llmdeployment/chat -n ns` tells why"},
		{deployment("nonsense"), "chat has no ready pod yet; `slipway status llmdeployment/chat -n ns` tells why"},
		{&unstructured.Unstructured{Object: map[string]any{"kind": "LLMDeployment", "metadata": map[string]any{"name": "chat", "namespace": "ns"}}}, "chat has no ready pod yet; `slipway status llmdeployment/chat -n ns` tells why"},
	} {
		if got := notReady(test.deployment).Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// TestMissing: what a user reads depends on whether the cluster serves any of the
// kinds.
func TestMissing(t *testing.T) {
	resource := kinds[0].resource.GroupResource()
	unknownKind := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "chat", "404 page not found", 0, true)
	for name, test := range map[string]struct {
		served bool
		want   string
	}{
		"no such object": {true, "nothing that serves a model is called \"chat\" in namespace \"ns\"; `kubectl get llm-all -A` lists what there is"},
		"no such kinds":  {false, "this cluster knows no kind that serves models; `slipway install` installs the operator"},
	} {
		if got := missing(test.served, "ns", "chat").Error(); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	if isServed(unknownKind) || !isServed(apierrors.NewNotFound(resource, "chat")) {
		t.Error("a kind that isn't served isn't told from an object that isn't there")
	}
}

// TestPlaces: where each kind's model answers.
func TestPlaces(t *testing.T) {
	made := func(content map[string]any) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: content}
		object.SetNamespace("ns")
		object.SetName("chat")
		return object
	}
	gateway := map[string]any{"gatewayURL": "http://gate.ns.svc:8080", "endpoints": []any{"http://decode.ns.svc:8200"}}
	outside := map[string]any{"gatewayURL": "http://203.0.113.7", "endpoints": []any{"http://decode.ns.svc:8200"}}
	for name, test := range map[string]struct{ got, want place }{
		"deployment":        {ofDeployment(made(map[string]any{})), place{namespace: "ns", service: "chat"}},
		"stack":             {ofStack(made(map[string]any{"status": gateway})), place{namespace: "ns", service: "gate"}},
		"stack, outer gate": {ofStack(made(map[string]any{"status": outside})), place{namespace: "ns", service: "decode"}},
		"ollama":            {ofOllama(made(map[string]any{"spec": map[string]any{"llmName": "pod"}})), place{namespace: "ns", pod: "pod", port: 11434}},
		"ollama elsewhere":  {ofOllama(made(map[string]any{"spec": map[string]any{"llmName": "pod", "namespace": "gpus"}})), place{namespace: "gpus", pod: "pod", port: 11434}},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, test.got, test.want)
		}
	}
}
