package install

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/internal/diagnosis"
)

// TestOwnWords: while the operator starts, and when it never answers, nobody is
// told to change a port that is the operator's own.
func TestOwnWords(t *testing.T) {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8081)}}}
	facts := func(restarts int32, event string) diagnosis.Facts {
		return diagnosis.Facts{
			Workload: diagnosis.Workload{Namespace: "llm-system", Name: "llm-operator", Replicas: 1},
			Pods: []corev1.Pod{{
				ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"},
				Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "manager", Image: "i:v1", ReadinessProbe: probe, LivenessProbe: probe}}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
					Name: "manager", RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				}}},
			}},
			Events: []corev1.Event{{InvolvedObject: corev1.ObjectReference{UID: "p", Name: "p"}, Reason: "Unhealthy", Message: event}},
			Levers: levers,
		}
	}
	const refused = " probe failed: Get \"http://10.0.0.1:8081/readyz\": dial tcp 10.0.0.1:8081: connect: connection refused"
	for name, test := range map[string]struct {
		facts diagnosis.Facts
		want  string
	}{
		"it starts":          {facts(0, "Readiness"+refused), "the operator has started and isn't ready yet"},
		"it isn't ready yet": {facts(0, "Readiness probe failed: HTTP probe failed with statuscode: 503"), "the operator has started and isn't ready yet"},
		"it never answers":   {facts(3, "Liveness"+refused), "the operator doesn't answer its probes; its log says why"},
	} {
		finding, found := diagnosis.Diagnose(test.facts)
		if got := ownWords(finding); !found || got.Message != test.want || !strings.Contains(got.Next, "logs") {
			t.Errorf("%s: %v, %+v; from %s", name, found, got, finding.Message)
		}
	}
	other := diagnosis.Finding{Reason: diagnosis.ReasonImageNotFound, Message: "image i:v1 can't be pulled: not found; correct --image"}
	if got := ownWords(other); got != other {
		t.Errorf("it changes %q to %q", other.Message, got.Message)
	}
}
