package nvidiagpullm

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
)

// TestWithoutGPUs: what is there and what is free is told, nothing is made, and
// it goes on as soon as a node has GPUs.
func TestWithoutGPUs(t *testing.T) {
	ns := namespace(t)
	create(t, resource(ns, "demo", infrav1.ActionInstall))
	waiting := await(t, ns, "demo", says("InsufficientGPU", "no node has nvidia.com/gpu"))
	if waiting.Status.Phase != infrav1.PhasePending || len(waiting.Status.Inventory) != 0 {
		t.Errorf("phase %s, inventory %v", waiting.Status.Phase, waiting.Status.Inventory)
	}
	gpus(t, 2)
	pod := awaitPod(t, ns, there)
	if limit := pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]; limit.Value() != 1 {
		t.Errorf("the pod asks for %s GPUs", limit.String())
	}
	await(t, ns, "demo", func(d *infrav1.NvidiaGpuLlm) string {
		if d.Status.Phase != infrav1.PhaseInProgress || !d.Status.GPUAssigned || d.Status.PodName != "gpu-llm-pod" {
			return d.Status.Message
		}
		return ""
	})
	many := resource(ns, "many", infrav1.ActionInstall)
	many.Spec.LLMName, many.Spec.GPUCount = "many", new(int32(2))
	create(t, many)
	await(t, ns, "many", says("InsufficientGPU", "free"))
}

// gpus gives the simulated node GPUs, and takes them away after the test.
func gpus(t *testing.T, n int64) {
	t.Helper()
	set := func(n int64) {
		var nodes corev1.NodeList
		if err := kube.List(t.Context(), &nodes); err != nil {
			t.Fatal(err)
		}
		node := &nodes.Items[0]
		changed := node.DeepCopy()
		amount := *quantity.NewQuantity(n, quantity.DecimalSI)
		changed.Status.Capacity["nvidia.com/gpu"], changed.Status.Allocatable["nvidia.com/gpu"] = amount, amount
		if err := kube.Status().Patch(t.Context(), changed, client.MergeFrom(node)); err != nil {
			t.Fatal(err)
		}
	}
	set(n)
}

// cpu asks for no GPU, so that the test needs none.
func cpu(namespace, name string) *infrav1.NvidiaGpuLlm {
	made := resource(namespace, name, infrav1.ActionInstall)
	made.Spec.GPUCount = new(int32(0))
	return made
}

// TestPodComesBack: a pod that is killed, and one whose spec must change, is made
// again under the same name.
func TestPodComesBack(t *testing.T) {
	ns := namespace(t)
	create(t, cpu(ns, "demo"))
	first := awaitPod(t, ns, there)
	if err := kube.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second := awaitPod(t, ns, func(p *corev1.Pod) bool { return there(p) && p.UID != first.UID })
	patch(t, ns, "demo", `{"spec":{"memory":"1Gi"}}`)
	awaitPod(t, ns, func(p *corev1.Pod) bool {
		return there(p) && p.UID != second.UID && p.Spec.Containers[0].Resources.Limits.Memory().String() == "1Gi"
	})
	if err := kube.Delete(t.Context(), cpu(ns, "demo")); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, ns, func(p *corev1.Pod) bool { return p == nil })
}

// TestModelNeedsNoOtherPod: a change of the model leaves the pod alone.
func TestModelNeedsNoOtherPod(t *testing.T) {
	ns := namespace(t)
	create(t, cpu(ns, "demo"))
	before := awaitPod(t, ns, there)
	patch(t, ns, "demo", `{"spec":{"model":"llama2:7b"}}`)
	await(t, ns, "demo", func(d *infrav1.NvidiaGpuLlm) string {
		if d.Status.ObservedGeneration != d.Generation {
			return "not seen yet"
		}
		return ""
	})
	if after := awaitPod(t, ns, there); after.UID != before.UID {
		t.Error("the pod was made again for another model")
	}
}

// TestTwoInstalls: the older one has the name; the other says so, and takes over
// when the first is gone.
func TestTwoInstalls(t *testing.T) {
	ns := namespace(t)
	create(t, cpu(ns, "first"))
	awaitPod(t, ns, there)
	create(t, cpu(ns, "second"))
	await(t, ns, "second", says("Contested", "pod gpu-llm-pod in namespace "+ns+" is installed by NvidiaGpuLlm first"))
	if err := kube.Delete(t.Context(), cpu(ns, "first")); err != nil {
		t.Fatal(err)
	}
	taken := await(t, ns, "second", func(d *infrav1.NvidiaGpuLlm) string {
		if len(d.Status.Inventory) == 0 {
			return d.Status.Message
		}
		return ""
	})
	awaitPod(t, ns, func(p *corev1.Pod) bool { return there(p) && metav1.IsControlledBy(p, taken) })
}

// TestUninstall: it doesn't fight with an install, and both say so; once the
// install is gone it removes what is left, but the claim.
func TestUninstall(t *testing.T) {
	ns := namespace(t)
	install := cpu(ns, "demo")
	install.Spec.PersistentStorage, install.Spec.ServiceEnabled = true, true
	create(t, install)
	awaitPod(t, ns, there)
	create(t, resource(ns, "cleanup", infrav1.ActionUninstall))
	await(t, ns, "cleanup", says("Contested", "NvidiaGpuLlm demo installs pod gpu-llm-pod"))
	await(t, ns, "demo", func(d *infrav1.NvidiaGpuLlm) string {
		if c := condition.Find(d.Status.Conditions, infrav1.ConditionContested); c == nil || !strings.Contains(c.Message, "cleanup asks to uninstall") {
			return "no Contested condition"
		}
		return ""
	})
	awaitPod(t, ns, there)
	if err := kube.Delete(t.Context(), install); err != nil {
		t.Fatal(err)
	}
	await(t, ns, "cleanup", says("Uninstalled", "nothing of gpu-llm-pod is left"))
	awaitPod(t, ns, func(p *corev1.Pod) bool { return p == nil })
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: ns, Name: "gpu-llm-pod-storage"}
	if err := kube.Get(t.Context(), key, claim); err != nil {
		t.Fatalf("the claim went: %v", err)
	}
	patch(t, ns, "cleanup", `{"spec":{"storageRetentionPolicy":"Delete"}}`)
	await(t, ns, "cleanup", func(d *infrav1.NvidiaGpuLlm) string {
		if err := kube.Get(t.Context(), key, claim); err == nil && claim.DeletionTimestamp == nil {
			return "the claim is still there"
		}
		return says("Uninstalled", "")(d)
	})
}

// TestStatusOfOthers: what runs under a name is told, whoever made it.
func TestStatusOfOthers(t *testing.T) {
	ns := namespace(t)
	create(t, resource(ns, "check-status", infrav1.ActionStatus))
	await(t, ns, "check-status", says("NotInstalled", "there is no pod gpu-llm-pod in namespace "+ns))
	create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gpu-llm-pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
	})
	// A change of the spec makes it look at once.
	patch(t, ns, "check-status", `{"spec":{"gpuCount":0}}`)
	await(t, ns, "check-status", says("ServerUnreachable", "no Ollama server answers in it on port 11434"))
}

// TestWrongSpecs: bad input gets one clear line that says what to do instead.
func TestWrongSpecs(t *testing.T) {
	ns := namespace(t)
	for text, want := range map[string]string{
		`{"action":"run","llmName":"a"}`:                              `supported values: "install", "status", "uninstall"`,
		`{"action":"install","llmName":"Bad_Name"}`:                   "llmName becomes a pod's name",
		`{"action":"install","llmName":"a","gpuCount":-1}`:            "gpuCount must be a whole number",
		`{"action":"install","llmName":"a","memory":"lots"}`:          "memory must be a positive quantity",
		`{"action":"install","llmName":"a","cpuCores":0}`:             "cpuCores must be a positive number",
		`{"action":"install","llmName":"a","model":"https://x/y"}`:    "model must be an Ollama model",
		`{"action":"install","llmName":"a","servicePort":0}`:          "servicePort must be a whole number",
		`{"action":"install","llmName":"a","storageSize":"-1Gi"}`:     "storageSize must be a positive quantity",
		`{"action":"install","llmName":"a","promptTimeoutSeconds":0}`: "promptTimeoutSeconds must be between",
		`{"llmName":"a"}`: "spec.action: Required value",
	} {
		wrong := unstructuredOf(t, `{"apiVersion":"infra.example.com/v1","kind":"NvidiaGpuLlm","metadata":{"name":"wrong"},"spec":`+text+`}`, ns)
		if err := kube.Create(t.Context(), wrong, client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant a message with %q", text, err, want)
		}
	}
	for _, model := range []string{"tinyllama", "llama2:7b", "team/model:tag", "registry.example.com:5000/team/model:tag", "localhost:5000/library/x"} {
		right := cpu(ns, "right")
		right.Spec.Model = model
		if err := kube.Create(t.Context(), right, client.DryRunAll); err != nil {
			t.Errorf("model %s: %v", model, err)
		}
	}
}

// TestStorageOnlyGrows: smaller is refused with what to write instead.
func TestStorageOnlyGrows(t *testing.T) {
	ns := namespace(t)
	made := cpu(ns, "demo")
	made.Spec.PersistentStorage, made.Spec.StorageSize = true, new(intstr.FromString("2Gi"))
	create(t, made)
	awaitPod(t, ns, there)
	err := kube.Patch(t.Context(), cpu(ns, "demo"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"storageSize":"1Gi"}}`)))
	if err == nil || !strings.Contains(err.Error(), "storageSize can't be made smaller") {
		t.Errorf("made smaller: %v", err)
	}
	patch(t, ns, "demo", `{"spec":{"storageSize":"3Gi"}}`)
	await(t, ns, "demo", says("CannotExpand", "create it again with storageSize: 2Gi"))
}

func patch(t *testing.T, namespace, name, text string) {
	t.Helper()
	target := &infrav1.NvidiaGpuLlm{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := kube.Patch(t.Context(), target, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatal(err)
	}
}
