package nvidiagpullm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/ollama"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// running is a pod that is ready and has a GPU.
func running() *corev1.Pod {
	gpu := corev1.ResourceList{nvidiagpullm.ResourceGPU: resource.MustParse("1")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "team"},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: gpu}}}},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				AllocatedResourcesStatus: []corev1.ResourceStatus{{
					Name: nvidiagpullm.ResourceGPU, Resources: []corev1.ResourceHealth{{ResourceID: "GPU-1"}},
				}},
			}},
		},
	}
}

func ended(phase corev1.PodPhase) *corev1.Pod {
	pod := running()
	pod.Status.Phase = phase
	return pod
}

func someFacts(action infrav1.Action, change func(*facts)) *facts {
	f := &facts{
		resource: &infrav1.NvidiaGpuLlm{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "demo", Generation: 3, UID: "us"},
			Spec:       infrav1.NvidiaGpuLlmSpec{Action: action, LLMName: "pod", Model: "phi"},
		},
		nodes: []diagnosis.Node{{Name: "node", Ready: true, Allocatable: corev1.ResourceList{nvidiagpullm.ResourceGPU: resource.MustParse("2")}}},
	}
	change(f)
	return f
}

func TestReport(t *testing.T) {
	const install, status, uninstall = infrav1.ActionInstall, infrav1.ActionStatus, infrav1.ActionUninstall
	serving := server{answers: true, stored: []string{"phi:latest"}, loaded: []string{"phi:latest"}}
	done := condition.Outcome{Verdict: condition.Done}
	for name, test := range map[string]struct {
		action  infrav1.Action
		change  func(*facts)
		outcome condition.Outcome
		phase   infrav1.Phase
		reason  string
		message string
	}{
		"serving": {install, func(f *facts) { f.pod, f.server = running(), serving }, done,
			infrav1.PhaseReady, reasonServing, "phi:latest is loaded and answers in pod pod"},
		"nothing there": {install, func(*facts) {}, done,
			infrav1.PhasePending, reasonStarting, "pod pod is starting"},
		"starting": {install, func(f *facts) { f.pod = running() }, done,
			infrav1.PhaseInProgress, reasonStarting, "pod pod is starting"},
		"pulling": {install, func(f *facts) {
			f.pod, f.job = running(), &job{step: step{kind: stepPull, model: "phi:latest"}, percent: 47}
		}, done, infrav1.PhaseInProgress, reasonPulling, "model phi:latest is being fetched: 40 %"},
		"prompting": {install, func(f *facts) {
			f.pod, f.server, f.job = running(), serving, &job{step: step{kind: stepPrompt, model: "phi:latest"}}
			f.resource.Spec.Prompts, f.answers = []string{"a", "b"}, []nvidiagpullm.Answer{{Text: "x"}}
		}, done, infrav1.PhaseInProgress, reasonPrompting, "prompt 2 of 2 is being answered"},
		"a wrong image": {install, func(f *facts) {
			f.pod = ended(corev1.PodPending)
			f.finding = &diagnosis.Finding{Reason: diagnosis.ReasonImageNotFound, Message: "no such image; correct spec.image", Terminal: true}
		}, done, infrav1.PhaseFailed, diagnosis.ReasonImageNotFound, "no such image; correct spec.image"},
		"no such model": {install, func(f *facts) { f.pod = running() }, condition.Classify(condition.Stop(reasonModelNotFound, "no such model")),
			infrav1.PhaseFailed, reasonModelNotFound, "no such model"},
		"completed": {install, func(f *facts) {
			f.pod, f.finished = ended(corev1.PodSucceeded), true
			f.resource.Spec.KeepAlive, f.resource.Spec.Prompts = new(false), []string{"a"}
			f.answers = []nvidiagpullm.Answer{{Text: "x"}}
		}, done, infrav1.PhaseReady, reasonCompleted, "the prompt has run; the answers are in ConfigMap pod-answers"},
		"a status of nothing": {status, func(*facts) {}, done,
			infrav1.PhasePending, reasonNotInstalled, "there is no pod pod in namespace team; apply a NvidiaGpuLlm with action install and that llmName"},
		"a status": {status, func(f *facts) { f.pod, f.server = running(), serving }, done,
			infrav1.PhaseReady, reasonServing, "pod pod serves phi:latest"},
		"a status of a pod that has ended": {status, func(f *facts) { f.pod = ended(corev1.PodSucceeded) }, done,
			infrav1.PhaseReady, reasonCompleted, "pod pod has ended (Succeeded)"},
		"an uninstall": {uninstall, func(f *facts) { f.resource.Spec.StorageRetentionPolicy = infrav1.RetentionDelete }, done,
			infrav1.PhaseReady, reasonUninstalled, "nothing of pod is left"},
	} {
		t.Run(name, func(t *testing.T) {
			f := someFacts(test.action, test.change)
			got := report(f, test.outcome, now)
			ready := condition.Find(got.Conditions, condition.Ready)
			if got.Phase != test.phase || ready.Reason != test.reason || got.Message != test.message {
				t.Errorf("got %s, %s: %s\nwant %s, %s: %s", got.Phase, ready.Reason, got.Message, test.phase, test.reason, test.message)
			}
			if f.pod != nil && f.pod.Status.Phase == corev1.PodRunning && (!got.GPUAssigned || len(got.GPUDevices) != 1 || got.GPUDevices[0] != "GPU-1") {
				t.Errorf("GPUs: %v %v", got.GPUAssigned, got.GPUDevices)
			}
			f.resource.Status = got
			if diff := cmp.Diff(got, report(f, test.outcome, metav1.NewTime(now.Add(time.Hour)))); diff != "" {
				t.Errorf("the same world gives another status later:\n%s", diff)
			}
		})
	}
}

func TestLackingGPUs(t *testing.T) {
	node := func(name string, all, free string) diagnosis.Node {
		return diagnosis.Node{
			Name: name, Ready: true,
			Allocatable: corev1.ResourceList{nvidiagpullm.ResourceGPU: resource.MustParse(all)},
			Free:        corev1.ResourceList{nvidiagpullm.ResourceGPU: resource.MustParse(free)},
		}
	}
	dead := node("dead", "8", "8")
	dead.Ready = false
	for name, test := range map[string]struct {
		gpus  int32
		nodes []diagnosis.Node
		want  string
	}{
		"none at all":       {1, []diagnosis.Node{{Name: "node", Ready: true}}, "no node has nvidia.com/gpu; install NVIDIA's device plugin"},
		"on a dead node":    {1, []diagnosis.Node{dead}, "no node has nvidia.com/gpu"},
		"enough":            {2, []diagnosis.Node{node("a", "2", "0"), node("b", "2", "2")}, ""},
		"enough, but apart": {4, []diagnosis.Node{node("a", "2", "2"), node("b", "2", "2")}, "4 GPUs are asked for and no node has that many free: 4 of 4 are free in the cluster, at most 2 on one node"},
		"all taken":         {1, []diagnosis.Node{node("a", "2", "0")}, "1 GPU is asked for and no node has that many free: 0 of 2 are free"},
		"on the CPU":        {0, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := someFacts(infrav1.ActionInstall, func(f *facts) { f.nodes, f.resource.Spec.GPUCount = test.nodes, &test.gpus })
			err := f.lackingGPUs()
			if test.want == "" && err != nil || test.want != "" && (!condition.IsWait(err) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want to wait because %q", err, test.want)
			}
		})
	}
}

// TestExplain: a fault that only the user can mend isn't tried again, any other is.
func TestExplain(t *testing.T) {
	f := someFacts(infrav1.ActionInstall, func(*facts) {})
	pull := step{kind: stepPull, model: "phi:latest"}
	for name, test := range map[string]struct {
		step  step
		err   error
		final bool
		says  string
	}{
		"no such model":   {pull, fmt.Errorf("x: %w", ollama.ErrModelNotFound), true, "doesn't exist in its registry; correct spec.model"},
		"a full disk":     {pull, fmt.Errorf("x: %w", ollama.ErrNoSpace), false, "set spec.persistentStorage and spec.storageSize"},
		"a registry":      {pull, fmt.Errorf("500: %w", ollama.ErrRegistry), false, "it is tried again"},
		"no server":       {pull, fmt.Errorf("x: %w", ollama.ErrUnreachable), false, "stopped answering"},
		"another failure": {step{kind: stepLoad, model: "phi:latest"}, errors.New("out of memory"), false, "failed at load of phi:latest: out of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			err := explain(f.resource, &job{step: test.step, err: test.err})
			if condition.IsStop(err) != test.final || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v (final %v)", err, condition.IsStop(err))
			}
		})
	}
}

// TestFailuresPause: each failure doubles the pause up to a bound, another spec
// and a success begin anew.
func TestFailuresPause(t *testing.T) {
	var f failures
	key := types.NamespacedName{Namespace: "team", Name: "demo"}
	at := now.Time
	pause := func() time.Duration { return f.of(key, 1).until.Sub(at) }
	fail := func() { f.note(key, failure{generation: 1, longest: longestPause, err: errors.New("x")}, at) }
	fail()
	first := pause()
	fail()
	if second := pause(); first != firstPause || second != 2*first {
		t.Errorf("pauses of %s and %s", first, second)
	}
	for range 40 {
		fail()
	}
	if last := pause(); last != longestPause {
		t.Errorf("after many failures a pause of %s, want %s", last, longestPause)
	}
	if f.of(key, 2) != nil {
		t.Error("another spec has the failures of the former one")
	}
	f.forget(key)
	if f.of(key, 1) != nil {
		t.Error("a success leaves failures")
	}
}

// TestStopped: what was told as final of this very spec stays so after a restart;
// another spec is tried.
func TestStopped(t *testing.T) {
	f := someFacts(infrav1.ActionInstall, func(f *facts) { f.pod = running() })
	f.resource.Status = report(f, condition.Classify(condition.Stop(reasonModelNotFound, "no such model")), now)
	if err := f.stopped(); !condition.IsStop(err) || err.Error() != "no such model" {
		t.Errorf("after a restart: %v", err)
	}
	f.resource.Generation++
	if err := f.stopped(); err != nil {
		t.Errorf("another spec: %v", err)
	}
}

func TestRivals(t *testing.T) {
	rival := func(action infrav1.Action, age time.Duration) *infrav1.NvidiaGpuLlm {
		return &infrav1.NvidiaGpuLlm{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "other", UID: "them", CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Spec:       infrav1.NvidiaGpuLlmSpec{Action: action, LLMName: "pod"},
		}
	}
	f := someFacts(infrav1.ActionInstall, func(f *facts) { f.resource.CreationTimestamp = now })
	for name, test := range map[string]struct {
		other   *infrav1.NvidiaGpuLlm
		waits   bool
		opposed string
	}{
		"an older install":   {rival(infrav1.ActionInstall, time.Hour), true, "installs pod too; the older one does it"},
		"a younger install":  {rival(infrav1.ActionInstall, -time.Hour), false, "installs pod too; the older one does it"},
		"an uninstall":       {rival(infrav1.ActionUninstall, time.Hour), false, "asks to uninstall pod, which this one installs"},
		"somebody who looks": {rival(infrav1.ActionStatus, time.Hour), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f.rivals = []*infrav1.NvidiaGpuLlm{test.other}
			if err := f.rivalInstall(); condition.IsWait(err) != test.waits {
				t.Errorf("waits: %v", err)
			}
			if got := f.opposition(); !strings.Contains(got, test.opposed) || (got == "") != (test.opposed == "") {
				t.Errorf("opposed: %q", got)
			}
		})
	}
}

// TestDamagedStore: a server that can't read its store is started once so that it
// clears it up, and not again for that.
func TestDamagedStore(t *testing.T) {
	r := &Reconciler{}
	pod := running()
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "OLLAMA_NOPRUNE", Value: "1"}}
	f := someFacts(infrav1.ActionInstall, func(f *facts) { f.pod = pod })
	key := types.NamespacedName{Namespace: "team", Name: "demo"}
	if r.prunes(f) {
		t.Error("a server that is well would be started anew")
	}
	r.jobs.running = map[types.NamespacedName]*job{key: {done: true, err: fmt.Errorf("EOF: %w", ollama.ErrStorage)}}
	r.collect(f)
	f.pod = nil // it is being replaced
	if !r.prunes(f) {
		t.Error("the server of a damaged store isn't told to clear it up")
	}
	f.pod = running() // as it was told
	if !r.prunes(f) || !r.prunes(f) {
		t.Error("the server would be started again for nothing")
	}
	f.pod = nil // killed for another reason
	if r.prunes(f) {
		t.Error("what was half fetched is given up at every start from then on")
	}
}
