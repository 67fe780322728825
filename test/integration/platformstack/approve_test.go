package platformstack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/reconcile/stack"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// raw is a manifest as a hook has it.
func raw(t *testing.T, manifest string) runtime.RawExtension {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

// applies is a stack of one bundle with a hook that applies a definition.
func applies(t *testing.T, dir, manifest string) string {
	t.Helper()
	object, err := json.Marshal(raw(t, manifest))
	if err != nil {
		t.Fatal(err)
	}
	return "components: [{name: ray, namespace: lost-ray, source: {bundle: {image: " + dir + "}}, " +
		"hooks: {before: [{name: crds, apply: {objects: [" + string(object) + "]}}]}}]\n"
}

// TestWhatAHookLosesIsApproved has a hook's definitions compared as a source's are:
// alone, together with those of the component, and with one that holds objects.
func TestWhatAHookLosesIsApproved(t *testing.T) {
	const own, hooked = "ray.example.com", "skate.example.com"
	wide, narrow := operator(t, "ray", "1.0.0", own, "b"), operator(t, "ray", "2.0.0", own)
	gone(t, defined(own), defined(hooked))
	create(t, "lost", applies(t, wide, definition(hooked, "b", "c")))
	await(t, "lost", isReady)
	use := func(dir, manifest string) {
		t.Helper()
		change(t, "lost", func(s *platformv1alpha1.PlatformStack) {
			s.Spec.Components[0].Source.Bundle.Image = dir
			s.Spec.Components[0].Hooks.Before[0].Apply.Objects[0] = raw(t, manifest)
		})
	}
	waits := func(changes int) string {
		t.Helper()
		got := component(await(t, "lost", isIn("ray AwaitingApproval")), "ray")
		if got.Approval == nil || len(got.Approval.Changes) != changes {
			t.Fatalf("%+v", got)
		}
		return got.Approval.Digest
	}
	approve := func(digest string) {
		t.Helper()
		change(t, "lost", func(s *platformv1alpha1.PlatformStack) {
			s.Annotations = map[string]string{platformv1alpha1.AnnotationApprove: "ray=" + digest}
		})
	}
	has := func(group, wanted string) {
		t.Helper()
		if got := fields(t, group); got != wanted {
			t.Errorf("%s has the fields %s, not %s", group, got, wanted)
		}
	}

	use(wide, definition(hooked, "c"))
	digest := waits(1)
	has(hooked, "a b c")
	approve(digest)
	await(t, "lost", isReady)
	has(hooked, "a c")

	use(narrow, definition(hooked))
	digest = waits(2)
	has(own, "a b")
	has(hooked, "a c")
	approve(digest)
	await(t, "lost", isReady)
	has(own, "a")
	has(hooked, "a")

	use(narrow, strings.Replace(definition(hooked), "name: v1\n", "name: v2\n", 1))
	refused := component(await(t, "lost", isIn("ray Failed")), "ray")
	if refused.Reason != stack.ReasonLosesData || !strings.Contains(refused.Message, "things."+hooked) {
		t.Errorf("%+v", refused)
	}
	has(hooked, "a")
	use(narrow, definition(hooked))
	await(t, "lost", isReady)
}

// TestAChartsDefinitionsAreOurs installs a chart that brings a definition in crds/, and
// beside it a bundle with the same one, which isn't there from elsewhere.
func TestAChartsDefinitionsAreOurs(t *testing.T) {
	const group = "squid.example.com"
	charts, bundle := t.TempDir(), operator(t, "squid", "1.0.0", group)
	packed(t, filepath.Join(charts, "squid-crds-1.0.0.tgz"), map[string]string{
		"squid-crds/Chart.yaml":    "apiVersion: v2\nname: squid-crds\nversion: 1.0.0\n",
		"squid-crds/crds/all.yaml": definition(group),
	})
	gone(t, defined(group))
	create(t, "ours", `
components:
- name: squid-crds
  namespace: ours-crds
  source: {chart: {repository: {url: `+charts+`}, name: squid-crds, version: 1.0.0}}
- name: squid
  namespace: ours-squid
  dependsOn: [squid-crds]
  source: {bundle: {image: `+bundle+`}}
`)
	await(t, "ours", isIn("squid-crds Ready", "squid Ready"))
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(platformDefinition)
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "things." + group}, live); err != nil || live.GetLabels()[platformstack.LabelStack] != "ours" {
		t.Errorf("%v %v", live.GetLabels(), err)
	}
}

// packed writes a chart's archive.
func packed(t *testing.T, file string, files map[string]string) {
	t.Helper()
	var text bytes.Buffer
	zipped := gzip.NewWriter(&text)
	archive := tar.NewWriter(zipped)
	for name, content := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
