package nvidiagpullm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
)

// allow lets other namespaces act in one; nobody if from is empty.
func allow(t *testing.T, namespace, from string) {
	t.Helper()
	target := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	text := `{"metadata":{"annotations":{"slipway.dev/allow-from":"` + from + `"}}}`
	if err := kube.Patch(t.Context(), target, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatal(err)
	}
}

// TestOtherNamespace: the pod is where the spec says once that namespace allows it,
// and goes with the resource.
func TestOtherNamespace(t *testing.T) {
	home, target := namespace(t), namespace(t)
	made := cpu(home, "demo")
	made.Spec.Namespace = target
	create(t, made)
	refused := await(t, home, "demo", says("NamespaceNotAllowed",
		"namespace "+target+" doesn't let NvidiaGpuLlms of namespace "+home+" act in it; whoever administers it writes "+home+" among the names in its annotation slipway.dev/allow-from"))
	if refused.Status.Phase != infrav1.PhasePending || len(refused.Finalizers) != 0 {
		t.Errorf("phase %s, finalizers %v", refused.Status.Phase, refused.Finalizers)
	}
	allow(t, target, "somebody,"+home)
	awaitPod(t, target, func(p *corev1.Pod) bool { return p != nil })
	if err := kube.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, target, func(p *corev1.Pod) bool { return p == nil })
}

// TestStrangers: without consent nobody reads, holds up or removes anything in
// another namespace, whatever action is asked for.
func TestStrangers(t *testing.T) {
	home, target := namespace(t), namespace(t)
	for _, action := range []infrav1.Action{infrav1.ActionInstall, infrav1.ActionStatus, infrav1.ActionUninstall} {
		stranger := resource(home, string(action), action)
		stranger.Spec.Namespace, stranger.Spec.GPUCount = target, new(int32(0))
		stranger.Spec.StorageRetentionPolicy = infrav1.RetentionDelete
		create(t, stranger)
		await(t, home, string(action), says("NamespaceNotAllowed", "namespace "+target))
	}
	own := cpu(target, "own")
	own.Spec.PersistentStorage = true
	create(t, own)
	awaitPod(t, target, there)
	seen := await(t, target, "own", func(d *infrav1.NvidiaGpuLlm) string {
		if d.Status.PodName == "" {
			return "no pod is told: " + d.Status.Message
		}
		return ""
	})
	for _, c := range seen.Status.Conditions {
		if c.Type == infrav1.ConditionContested {
			t.Errorf("a stranger contests: %s", c.Message)
		}
	}
	patch(t, home, "status", `{"spec":{"gpuCount":1}}`)
	told := await(t, home, "status", func(d *infrav1.NvidiaGpuLlm) string {
		if d.Status.ObservedGeneration != d.Generation {
			return "not seen yet"
		}
		return ""
	})
	if told.Status.PodName != "" || told.Status.GPUAssigned {
		t.Errorf("a stranger is told of pod %q", told.Status.PodName)
	}
	for _, action := range []infrav1.Action{infrav1.ActionInstall, infrav1.ActionUninstall} {
		stranger := resource(home, string(action), action)
		if err := kube.Delete(t.Context(), stranger); err != nil {
			t.Fatal(err)
		}
		await(t, home, string(action), nil)
	}
	key := client.ObjectKey{Namespace: target, Name: "gpu-llm-pod-storage"}
	if err := kube.Get(t.Context(), key, &corev1.PersistentVolumeClaim{}); err != nil {
		t.Errorf("the claim of the namespace's own resource: %v", err)
	}
	awaitPod(t, target, there)
}

// TestConsentTakenBack: what is there stays, and nothing is done to it any more;
// it goes with its resource, but for the claim.
func TestConsentTakenBack(t *testing.T) {
	home, target := namespace(t), namespace(t)
	allow(t, target, "*")
	made := cpu(home, "demo")
	made.Spec.Namespace, made.Spec.PersistentStorage, made.Spec.StorageRetentionPolicy = target, true, infrav1.RetentionDelete
	create(t, made)
	first := awaitPod(t, target, there)
	allow(t, target, "")
	patch(t, home, "demo", `{"spec":{"memory":"1Gi"}}`)
	await(t, home, "demo", says("NamespaceNotAllowed", "namespace "+target))
	if now := awaitPod(t, target, there); now.UID != first.UID {
		t.Error("the pod was made again without consent")
	}
	if err := kube.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, target, func(p *corev1.Pod) bool { return p == nil })
	key := client.ObjectKey{Namespace: target, Name: "gpu-llm-pod-storage"}
	if err := kube.Get(t.Context(), key, &corev1.PersistentVolumeClaim{}); err != nil {
		t.Errorf("the claim went without consent: %v", err)
	}
}

// TestAHalfGoneCluster: a pod that doesn't end, in a namespace that is on its way
// out, holds up no deletion of the resource that made it.
func TestAHalfGoneCluster(t *testing.T) {
	home, target := namespace(t), namespace(t)
	allow(t, target, home)
	made := cpu(home, "demo")
	made.Spec.Namespace, made.Spec.PersistentStorage, made.Spec.StorageRetentionPolicy = target, true, infrav1.RetentionDelete
	create(t, made)
	pod := awaitPod(t, target, there)
	hold := func(text string) {
		if err := kube.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	hold(`{"metadata":{"finalizers":["example.com/held"]}}`)
	if err := kube.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target}}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, target, func(p *corev1.Pod) bool { return p != nil && p.DeletionTimestamp != nil })
	if err := kube.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	await(t, home, "demo", nil)
	awaitPod(t, target, func(p *corev1.Pod) bool { return p != nil && p.DeletionTimestamp != nil })
	hold(`{"metadata":{"finalizers":null}}`)
}
