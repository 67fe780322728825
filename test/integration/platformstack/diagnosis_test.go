package platformstack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/cli/stack"
	clistatus "github.com/slipway-dev/slipway/internal/cli/status"
	"github.com/slipway-dev/slipway/internal/condition"
)

// TestAPodsFaultIsTold has the status of a stack say what ails a pod of it, and
// which value mends it: an operator that finds no place, and then one whose bundle
// was published without an image.
func TestAPodsFaultIsTold(t *testing.T) {
	const group = "eel.example.com"
	dir := operator(t, "eel", "1.0.0", group)
	file := filepath.Join(dir, "manifests/csv.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	written(t, dir, "manifests/csv.yaml", strings.ReplaceAll(string(text), "example.com/eel:1.0.0", "${OPERATOR_IMAGE}"))
	gone(t, defined(group))
	create(t, "fault", `
components:
- name: eel
  namespace: fault-eel
  source: {bundle: {image: `+dir+`}}
  values: {deployments: {eel: {containers: {manager: {resources: {requests: {cpu: "9999"}}}}}}}
`)
	says := func(message string) {
		t.Helper()
		await(t, "fault", func(s *platformv1alpha1.PlatformStack) string {
			eel, ready := component(s, "eel"), condition.Find(s.Status.Conditions, condition.Ready)
			if eel.Message != message || ready.Reason == condition.ReasonProgressing || !strings.HasPrefix(ready.Message, "eel: "+message+"; ") {
				return "it doesn't say " + message
			}
			return ""
		})
	}
	says("waiting until revision 1 is ready: Deployment/eel: 0/1 nodes have 9999 cpu (largest node: 64); " +
		"lower deployments.eel.containers.manager.resources.requests.cpu in the values of component eel or add larger nodes")

	// A revision that has failed by then says so as well.
	change(t, "fault", func(s *platformv1alpha1.PlatformStack) {
		s.Spec.Components[0].Timeout = "1s"
		s.Spec.Components[0].Values.Raw = []byte(`{"deployments":{"eel":{"containers":{"manager":{"resources":{"requests":{"cpu":"8888"}}}}}}}`)
	})
	await(t, "fault", func(s *platformv1alpha1.PlatformStack) string {
		eel := component(s, "eel")
		if eel.Phase != platformv1alpha1.PhaseFailed || !strings.HasPrefix(eel.Message, "revision 2 failed: not ready in 1s: Deployment/eel: ") ||
			!strings.Contains(eel.Message, "Deployment/eel: 0/1 nodes have 8888 cpu (largest node: 64); lower deployments.eel.") {
			return "it hasn't failed as it should"
		}
		return ""
	})

	if printed := tree(t, "fault"); !strings.Contains(printed, "✗ Component/eel (fault-eel)") || strings.Contains(printed, "Component eel: revision 2 failed") {
		t.Errorf("slipway status tells of the component what the stack tells:\n%s", printed)
	}

	// A simulated node runs every image. A kubelet would say this of the pod.
	change(t, "fault", func(s *platformv1alpha1.PlatformStack) {
		s.Spec.Components[0].Values, s.Spec.Components[0].Timeout = nil, ""
	})
	await(t, "fault", isReady)
	pod := podOf(t, "fault-eel")
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodPending
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type != corev1.PodScheduled {
			pod.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager", Image: "${OPERATOR_IMAGE}", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: "couldn't parse image name"},
	}}}
	if err := kube.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	const mend = `Deployment/eel: image "${OPERATOR_IMAGE}" isn't a valid image name; correct deployments.eel.containers.manager.image in the values of component eel`
	says(mend)
	if printed := status(t, "fault"); !strings.Contains(printed, mend) {
		t.Errorf("slipway stack status says\n%s", printed)
	}
	printed := tree(t, "fault")
	for _, each := range []string{"… PlatformStack/fault", "└── … Component/eel (fault-eel)", "    └── ✗ Deployment/eel (fault-eel)", "Pod/eel-", mend, "next: kubectl -n fault-eel describe deployment eel"} {
		if !strings.Contains(printed, each) {
			t.Errorf("slipway status says no %q:\n%s", each, printed)
		}
	}

	change(t, "fault", func(s *platformv1alpha1.PlatformStack) {
		s.Spec.Components[0].Values = &runtime.RawExtension{Raw: []byte(`{"deployments":{"eel":{"containers":{"manager":{"image":"example.com/eel:1"}}}}}`)}
	})
	await(t, "fault", isReady)
}

// podOf is the one pod of a namespace that isn't on its way out.
func podOf(t *testing.T, namespace string) *corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	err := kube.List(t.Context(), list, client.InNamespace(namespace))
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods: %v", len(pods), err)
	}
	return &pods[0]
}

// status is what slipway stack status prints.
func status(t *testing.T, name string) string {
	t.Helper()
	answer, err := stack.Ask(t.Context(), kube, name)
	if err != nil {
		t.Fatal(err)
	}
	text := &strings.Builder{}
	if err := stack.Print(text, answer); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// tree is what slipway status prints of a stack.
func tree(t *testing.T, name string) string {
	t.Helper()
	reader := &clistatus.Reader{Client: kube, Mapper: kube.RESTMapper(), Now: time.Now, Notice: func(err error) { t.Error(err) }}
	answer, err := reader.Ask(t.Context(), clistatus.Target{Words: []string{"platformstack/" + name}})
	if err != nil {
		t.Fatal(err)
	}
	text := &strings.Builder{}
	if err := clistatus.Print(text, answer.Tree, clistatus.Style{}); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// large is a Deployment that finds no place, in the words of a hook.
const large = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: large, namespace: waits-one}
spec:
  selector: {matchLabels: {app: large}}
  template: {metadata: {labels: {app: large}}, spec: {containers: [{name: main, image: "example.com/large:1", resources: {requests: {cpu: "9999"}}}]}}
`

// TestAHookSaysWhyItWaits has a hook tell what ails what it applies, and another what
// ails the Deployment of someone else that it waits for.
func TestAHookSaysWhyItWaits(t *testing.T) {
	plain := written(t, t.TempDir(), "all.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n")
	object, err := yaml.YAMLToJSON([]byte(large))
	if err != nil {
		t.Fatal(err)
	}
	create(t, "waits", "components: [{name: one, namespace: waits-one, source: {manifests: {path: "+plain+"}},\n"+
		"  hooks: {after: [{name: made, apply: {objects: ["+string(object)+"]}}]}}]\n")
	says := func(fault string) {
		t.Helper()
		await(t, "waits", func(s *platformv1alpha1.PlatformStack) string {
			if component(s, "one").Message == fault {
				return ""
			}
			return "it doesn't say " + fault
		})
	}
	const nodes = "Deployment/large: 0/1 nodes have 9999 cpu (largest node: 64); lower resources.requests.cpu "
	says("hook made: waiting until revision 1 is ready: " + nodes + "in the objects of hook made of component one or add larger nodes")

	change(t, "waits", func(s *platformv1alpha1.PlatformStack) {
		wait := &platformv1alpha1.WaitHook{Timeout: "10m", ObjectReference: platformv1alpha1.ObjectReference{
			APIVersion: "apps/v1", Kind: "Deployment", Namespace: "waits-one", Name: "large",
		}}
		s.Spec.Components[0].Hooks.After = []platformv1alpha1.Hook{{Name: "other", Wait: wait}}
	})
	await(t, "waits", func(s *platformv1alpha1.PlatformStack) string {
		if len(s.Status.Releases) > 1 {
			return "the hook's release isn't gone"
		}
		return ""
	})
	other := &unstructured.Unstructured{}
	if err := other.UnmarshalJSON(object); err != nil {
		t.Fatal(err)
	}
	if err := kube.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	says("hook other: " + nodes + "or add larger nodes")
	if err := kube.Patch(t.Context(), other, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/template/spec/containers/0/resources"}]`))); err != nil {
		t.Fatal(err)
	}
	await(t, "waits", isReady)
	if err := kube.Delete(t.Context(), other); err != nil {
		t.Error(err)
	}
}
