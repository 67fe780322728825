package diagnosis

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/slipway-dev/slipway/internal/condition"
)

// sayings are texts that kubelets, schedulers and controllers write; %s is the
// pod's name.
var sayings = []string{
	"", "back-off 5m0s restarting failed container=model pod=%s_team(0c6a8a3e-6a3e-4d3f-9d1c-2f5b8f0f2b11)",
	image404, image401, imageNoHost, quotaSays, securitySays,
	"0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
	"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) didn't match Pod's node affinity/selector.",
	`container has runAsNonRoot and image will run as root (pod: "%s_team(0c6a8a3e-6a3e-4d3f-9d1c-2f5b8f0f2b11)", container: model)`,
	"Readiness probe failed: HTTP probe failed with statuscode: 404", "Container model failed liveness probe, will be restarted",
	`Liveness probe failed: Get "http://10.244.1.7:8080/health": dial tcp 10.244.1.7:8080: connect: connection refused`,
	`MountVolume.SetUp failed for volume "config" : configmap "vllm" not found`,
	"panic in %s at 2026-11-20T16:00:01Z", "%s: cannot open /dev/nvidia0", `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) %s`,
	`Error creating: pods "%s" is forbidden: error looking up service account team/chat: serviceaccount "chat" not found`,
}

func drawSaying(t *rapid.T, pod string) string {
	text := rapid.SampledFrom(sayings).Draw(t, "said")
	if strings.Contains(text, "%s") {
		text = fmt.Sprintf(text, pod)
	}
	return text
}

func drawState(t *rapid.T, pod string) (state corev1.ContainerState) {
	switch rapid.IntRange(0, 3).Draw(t, "state") {
	case 0:
		state.Waiting = &corev1.ContainerStateWaiting{
			Reason: rapid.SampledFrom([]string{
				"ContainerCreating", "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff", "InvalidImageName",
				"ErrImageNeverPull", "CreateContainerConfigError", "RunContainerError",
			}).Draw(t, "waiting"),
			Message: drawSaying(t, pod),
		}
	case 1:
		state.Running = &corev1.ContainerStateRunning{}
	case 2:
		state.Terminated = &corev1.ContainerStateTerminated{
			Reason:   rapid.SampledFrom([]string{"Error", "Completed", "OOMKilled", "StartError"}).Draw(t, "ended"),
			ExitCode: rapid.SampledFrom([]int32{0, 1, 2, 126, 127, 128, 137, 139, 143, 255}).Draw(t, "code"),
			Message:  drawSaying(t, pod),
		}
	}
	return state
}

func drawPod(t *rapid.T, name string) corev1.Pod {
	ready := corev1.ConditionStatus(rapid.SampledFrom([]string{"True", "False"}).Draw(t, "ready"))
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			NodeName: rapid.SampledFrom([]string{"", "n1", "n2", "n9"}).Draw(t, "node"),
			Containers: []corev1.Container{{
				Name: "model", Image: "registry.example.com/gpt-small:v1",
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health"}}},
				Resources:      corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2"), "nvidia.com/gpu": resource.MustParse("4")}},
			}},
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "weights"}}}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodPhase(rapid.SampledFrom([]string{"Pending", "Running", "Failed", "Succeeded"}).Draw(t, "phase")),
			Reason:     rapid.SampledFrom([]string{"", "Evicted", "NodeLost", "UnexpectedAdmissionError", "OutOfcpu"}).Draw(t, "reason"),
			Message:    drawSaying(t, name),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "model", RestartCount: rapid.Int32Range(0, 2).Draw(t, "restarts"),
				State: drawState(t, name), LastTerminationState: drawState(t, name), Ready: ready == "True",
			}},
		},
	}
	if rapid.Bool().Draw(t, "unschedulable") {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: drawSaying(t, name),
		})
	}
	if rapid.IntRange(0, 5).Draw(t, "deleted") == 0 {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	}
	return pod
}

func drawFacts(t *rapid.T) Facts {
	facts := Facts{Workload: Workload{Namespace: "team", Name: "chat", Replicas: rapid.Int32Range(0, 4).Draw(t, "replicas")}}
	if rapid.Bool().Draw(t, "rejected") {
		facts.Workload.Conditions = []Condition{
			{Type: "ReplicaFailure", Status: "True", Message: drawSaying(t, "chat-6b7f9c4d5-zzzzz")},
			{Type: "Progressing", Reason: "ProgressDeadlineExceeded"},
		}
	}
	for _, suffix := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9]{5}`), 0, 4, rapid.ID).Draw(t, "pods") {
		name := "chat-6b7f9c4d5-" + suffix
		pod := drawPod(t, name)
		facts.Pods = append(facts.Pods, pod)
		if isReady(&pod) {
			facts.Workload.Ready++
		}
		for range rapid.IntRange(0, 2).Draw(t, "events") {
			facts.Events = append(facts.Events, corev1.Event{
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: name},
				Reason:         rapid.SampledFrom([]string{"Unhealthy", "Killing", "Failed", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "Pulling"}).Draw(t, "event"),
				Message:        drawSaying(t, name),
				LastTimestamp:  metav1.Unix(rapid.Int64Range(0, 3).Draw(t, "at"), 0),
			})
		}
	}
	for _, name := range []string{"n1", "n2"}[:rapid.IntRange(0, 2).Draw(t, "nodes")] {
		facts.Nodes = append(facts.Nodes, Node{
			Name: name, Ready: rapid.Bool().Draw(t, "node ready"),
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4")}, Taints: []corev1.Taint{{Key: "a", Effect: "NoSchedule"}},
		})
	}
	if rapid.Bool().Draw(t, "claim") {
		facts.Claims = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "weights"}}}
		facts.ClassesKnown = rapid.Bool().Draw(t, "classes")
	}
	return facts
}

// TestDiagnosisHolds: whatever the world, a finding names no pod, is bounded and
// whole, doesn't depend on the order of facts, and is there when a replica is
// missing or a pod isn't ready.
func TestDiagnosisHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := drawFacts(t)
		got, found := Diagnose(facts)
		again := facts
		again.Pods = rapid.Permutation(facts.Pods).Draw(t, "pods again")
		again.Events = rapid.Permutation(facts.Events).Draw(t, "events again")
		again.Nodes = rapid.Permutation(facts.Nodes).Draw(t, "nodes again")
		again.Workload.Conditions = rapid.Permutation(facts.Workload.Conditions).Draw(t, "conditions again")
		if other, _ := Diagnose(again); other != got {
			t.Fatalf("the order of facts matters:\n%s", cmp.Diff(got, other))
		}
		broken := facts.Workload.Ready < facts.Workload.Replicas
		for i := range facts.Pods {
			pod := &facts.Pods[i]
			broken = broken || !isReady(pod) && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded
		}
		if broken && !found {
			t.Fatal("something is wrong and nothing was found")
		}
		if found {
			check(t, facts, got)
		}
	})
}

func check(t *rapid.T, facts Facts, got Finding) {
	if got.Reason == "" || got.Message == "" || got.Next == "" || len(got.Message) > condition.MaxMessage || !utf8.ValidString(got.Message) {
		t.Fatalf("got %+v", got)
	}
	for _, text := range []string{got.Message, got.Next} {
		for i := range facts.Pods {
			if strings.Contains(text, facts.Pods[i].Name) {
				t.Fatalf("%q names a pod", text)
			}
		}
		for _, changing := range []string{"chat-6b7f9c4d5-", "5m0s", "0c6a8a3e", "10.244.1.7", "2026-11-20"} {
			if strings.Contains(text, changing) {
				t.Fatalf("%q holds %q, which changes", text, changing)
			}
		}
	}
}

// FuzzMessages: no text from a cluster breaks a parser or gets into a message
// unbounded.
func FuzzMessages(f *testing.F) {
	for _, said := range sayings {
		f.Add(said, "CreateContainerConfigError", int32(1))
		f.Add(said, "ErrImagePull", int32(137))
	}
	f.Add("exceeded quota: q, requested: =,, used: , limited: x", "CrashLoopBackOff", int32(-1))
	f.Add("0/99999999999999999999 nodes are available: 1 . . ,", "ImagePullBackOff", int32(159))
	f.Fuzz(func(t *testing.T, said, reason string, code int32) {
		pod := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: podName},
			Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "model", Image: "i:v1"}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "model", RestartCount: 1,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: said}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: said}},
			}}},
		}
		homeless := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: "Unschedulable", Message: said}}}}
		event := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: podName}, Reason: reason, Message: said}
		for _, facts := range []Facts{
			{Pods: []corev1.Pod{pod}}, {Pods: []corev1.Pod{homeless}}, {Pods: []corev1.Pod{pod}, Events: []corev1.Event{event}},
			{Workload: Workload{Replicas: 1, Conditions: []Condition{{Type: "ReplicaFailure", Status: "True", Message: said}}}},
		} {
			got, found := Diagnose(facts)
			if !found && (len(facts.Pods) > 0 || said != "") || len(got.Message) > condition.MaxMessage || !utf8.ValidString(got.Message) {
				t.Errorf("got %+v", got)
			}
		}
	})
}

func TestRegistryOf(t *testing.T) {
	for image, want := range map[string]string{
		"busybox": "docker.io", "library/busybox:1": "docker.io", "ghcr.io/a/b@sha256:0": "ghcr.io",
		"localhost/a": "localhost", "registry:5000/a": "registry:5000",
	} {
		if got := registryOf(image); got != want {
			t.Errorf("registryOf(%s) = %s, want %s", image, got, want)
		}
	}
}
