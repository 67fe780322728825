package platformstack

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
)

// fields are those of Thing, as the definition of a group says.
func fields(t *testing.T, group string) string {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(platformDefinition)
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "things." + group}, live); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(live.Object, "spec", "versions")
	properties, _, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties")
	var names []string
	for _, name := range []string{"a", "b", "c"} {
		if properties[name] != nil {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// TestWhatIsLostIsApproved has an upgrade wait that takes a field away, and only
// that one.
func TestWhatIsLostIsApproved(t *testing.T) {
	const group = "orca.example.com"
	first, wider, narrower := operator(t, "orca", "1.0.0", group, "b"), operator(t, "orca", "1.1.0", group, "b", "c"), operator(t, "orca", "2.0.0", group, "c")
	gone(t, defined(group))
	create(t, "approve", "components:\n- name: orca\n  namespace: approve-orca\n  source: {bundle: {image: "+first+"}}\n")
	await(t, "approve", isReady)
	use := func(dir string) {
		change(t, "approve", func(s *platformv1alpha1.PlatformStack) { s.Spec.Components[0].Source.Bundle.Image = dir })
	}
	runs := func(version string) func(*platformv1alpha1.PlatformStack) string {
		return func(s *platformv1alpha1.PlatformStack) string {
			if component(s, "orca").Version != version {
				return "another version"
			}
			return isReady(s)
		}
	}
	use(wider)
	await(t, "approve", runs("1.1.0"))
	use(narrower)
	waits := component(await(t, "approve", isIn("orca AwaitingApproval")), "orca")
	if waits.Approval == nil || len(waits.Approval.Changes) != 1 || !strings.Contains(waits.Approval.Changes[0], "b") || waits.Version != "1.1.0" {
		t.Fatalf("%+v", waits)
	}
	if got := fields(t, group); got != "a b c" {
		t.Errorf("it has the fields %s before anyone has approved", got)
	}
	approve := func(value string) {
		change(t, "approve", func(s *platformv1alpha1.PlatformStack) {
			s.Annotations = map[string]string{platformv1alpha1.AnnotationApprove: value}
		})
	}
	wire.Take()
	approve("orca=another, other=" + waits.Approval.Digest)
	awaitPass(t)
	await(t, "approve", isIn("orca AwaitingApproval"))
	approve("other=x, orca=" + waits.Approval.Digest)
	if done := component(await(t, "approve", runs("2.0.0")), "orca"); done.Approval != nil || done.Revision != 3 {
		t.Errorf("%+v", done)
	}
	if got := fields(t, group); got != "a c" {
		t.Errorf("it has the fields %s", got)
	}
}

// TestAFailureStopsOnlyWhatDependsOnIt, and an upgrade that fails goes back.
func TestAFailureStopsOnlyWhatDependsOnIt(t *testing.T) {
	good, other := t.TempDir(), written(t, t.TempDir(), "all.yaml", deployment("other", "example.com/other:1"))
	written(t, good, "all.yaml", deployment("base", "example.com/base:1"))
	create(t, "fails", `
components:
- {name: base, namespace: fails-base, source: {manifests: {path: `+good+`}}}
- {name: above, namespace: fails-above, dependsOn: [base], source: {manifests: {path: `+other+`}}}
- {name: beside, namespace: fails-beside, source: {manifests: {path: `+other+`}}}
`)
	await(t, "fails", isReady)
	// One that can't be applied goes back; what depends on it isn't upgraded, what
	// doesn't is.
	bad := written(t, t.TempDir(), "all.yaml", strings.Replace(deployment("base", "example.com/base:2"), "app: base}", "app: another}", 1))
	newer := written(t, t.TempDir(), "all.yaml", deployment("other", "example.com/other:2"))
	change(t, "fails", func(s *platformv1alpha1.PlatformStack) {
		s.Spec.Components[0].Source.Manifests.Path = bad
		s.Spec.Components[1].Source.Manifests.Path = newer
		s.Spec.Components[2].Source.Manifests.Path = newer
	})
	stopped := await(t, "fails", isIn("base RolledBack", "above Waiting", "beside Ready"))
	if ready := condition.Find(stopped.Status.Conditions, condition.Ready); !strings.HasPrefix(ready.Message, "base: revision 2 failed: ") || !strings.HasSuffix(ready.Message, "1 of 3 components are ready") {
		t.Errorf("it says %s", ready.Message)
	}
	for namespace, image := range map[string]string{"fails-base": "example.com/base:1", "fails-above": "example.com/other:1", "fails-beside": "example.com/other:2"} {
		name := "other"
		if namespace == "fails-base" {
			name = "base"
		}
		live := &appsv1.Deployment{}
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, live); err != nil || live.Spec.Template.Spec.Containers[0].Image != image {
			t.Errorf("%s: %v %v", namespace, live.Spec.Template.Spec.Containers, err)
		}
	}
	change(t, "fails", func(s *platformv1alpha1.PlatformStack) { s.Spec.Components[0].Source.Manifests.Path = good })
	await(t, "fails", isReady)
	// A ring is told, and nothing is touched.
	change(t, "fails", func(s *platformv1alpha1.PlatformStack) { s.Spec.Components[0].DependsOn = []string{"above"} })
	await(t, "fails", func(s *platformv1alpha1.PlatformStack) string {
		ready := condition.Find(s.Status.Conditions, condition.Ready)
		if ready == nil || ready.Message != "components: above -> base -> above: these need one another in a ring; remove one of the dependencies" {
			return "the ring isn't told"
		}
		return ""
	})
	if got := records(t, "fails-beside"); len(got) != 2 {
		t.Errorf("%v", got)
	}
	// A component that the spec no longer has goes, its namespace stays.
	change(t, "fails", func(s *platformv1alpha1.PlatformStack) { s.Spec.Components = s.Spec.Components[2:] })
	await(t, "fails", func(s *platformv1alpha1.PlatformStack) string {
		if len(s.Status.Components) != 1 || len(s.Status.Releases) != 1 {
			return "more is there"
		}
		return isReady(s)
	})
	err := kube.Get(t.Context(), client.ObjectKey{Namespace: "fails-base", Name: "base"}, &appsv1.Deployment{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("base is still there: %v", err)
	}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "fails-base"}, &corev1.Namespace{}); err != nil {
		t.Error(err)
	}
}

// TestWhatIsThereFromElsewhere is left alone, or adopted.
func TestWhatIsThereFromElsewhere(t *testing.T) {
	const group = "tuna.example.com"
	bundle := operator(t, "tuna", "1.0.0", group, "b")
	plain := written(t, t.TempDir(), "all.yaml", deployment("above", "example.com/above:1"))
	foreign := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(definition(group)), &foreign.Object); err != nil {
		t.Fatal(err)
	}
	if err := kube.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	gone(t, defined(group))
	create(t, "elsewhere", `
components:
- {name: tuna, namespace: elsewhere-tuna, source: {bundle: {image: `+bundle+`}}}
- {name: above, namespace: elsewhere-above, dependsOn: [tuna], source: {manifests: {path: `+plain+`}}}
`)
	left := await(t, "elsewhere", isReady)
	if why := isIn("tuna Left", "above Ready")(left); why != "" {
		t.Error(why)
	}
	want := "CustomResourceDefinition things." + group + ": there from elsewhere and left alone; set existing: Adopt to take it over"
	if c := component(left, "tuna"); c.Message != want {
		t.Errorf("it says %s", c.Message)
	}
	if got := fields(t, group); got != "a" || len(records(t, "elsewhere-tuna")) > 0 {
		t.Errorf("it was touched: %s", got)
	}
	change(t, "elsewhere", func(s *platformv1alpha1.PlatformStack) {
		s.Spec.Components[0].Existing = platformv1alpha1.ExistingAdopt
	})
	await(t, "elsewhere", isIn("tuna Ready", "above Ready"))
	if got := fields(t, group); got != "a b" {
		t.Errorf("it wasn't adopted: %s", got)
	}
	// What belongs to another stack is told before it is touched.
	create(t, "second", "components:\n- {name: above, namespace: elsewhere-above, source: {manifests: {path: "+plain+"}}}\n")
	await(t, "second", func(s *platformv1alpha1.PlatformStack) string {
		if component(s, "above").Message != "release above in namespace elsewhere-above is of PlatformStack elsewhere; give this component another name or namespace" {
			return "it isn't told"
		}
		return ""
	})
	if got := records(t, "elsewhere-above"); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
