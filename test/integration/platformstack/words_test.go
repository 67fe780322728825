package platformstack

import (
	"context"
	"os"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/install"
)

const good = `
components:
- name: operator
  source: {bundle: {image: "registry.example.com/operator-bundle:1.0", exclude: ['.kind == "ConsoleCLIDownload"']}}
- name: gateway
  dependsOn: [operator]
  source: {chart: {repository: {url: "oci://registry.example.com/charts"}, name: gateway, version: 1.0.0}}
  hooks:
    before:
    - name: crds
      apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}]}
    after:
    - name: up
      wait: {apiVersion: apps/v1, kind: Deployment, namespace: there, name: target, condition: Available}
    - name: ignore
      annotate: {apiVersion: v1, kind: Service, namespace: there, name: target, annotations: {a: "true"}, keep: true}
    - name: scale
      patch: {apiVersion: apps/v1, kind: Deployment, namespace: there, name: target, patch: {spec: {replicas: 2}}}
- name: crds
  source: {manifests: {url: "https://example.com/crds.yaml", digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}
`

// TestBadInputIsToldInAWord demands that the API server refuses what means
// nothing, and says what to write instead.
func TestBadInputIsToldInAWord(t *testing.T) {
	accept := func(spec string) (*unstructured.Unstructured, error) {
		content := map[string]any{}
		if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
			t.Fatal(err)
		}
		stack := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
		stack.SetGroupVersionKind(platformv1alpha1.GroupVersion.WithKind(platformv1alpha1.KindPlatformStack))
		stack.SetName("words")
		return stack, kube.Create(t.Context(), stack, client.DryRunAll)
	}
	made, err := accept(good)
	if err != nil {
		t.Fatalf("a good stack is refused: %v", err)
	}
	stack := &platformv1alpha1.PlatformStack{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, stack); err != nil {
		t.Fatal(err)
	}
	gateway := stack.Spec.Components[1]
	if gateway.Timeout != "5m" || gateway.Approval != platformv1alpha1.ApprovalManual || gateway.Existing != platformv1alpha1.ExistingLeave {
		t.Errorf("defaults: %+v", gateway)
	}
	if !strings.Contains(string(gateway.Hooks.Before[0].Apply.Objects[0].Raw), `"a":"b"`) || !strings.Contains(string(gateway.Hooks.After[2].Patch.Patch.Raw), "replicas") {
		t.Errorf("objects were pruned: %s, %s", gateway.Hooks.Before[0].Apply.Objects[0].Raw, gateway.Hooks.After[2].Patch.Patch.Raw)
	}
	for _, each := range []struct{ name, old, with, say string }{
		{"no components", good, "components: []", "should have at least 1"},
		{"twice the same name", "name: gateway\n  depends", "name: operator\n  depends", "two components have the same name"},
		{"a name that is none", "- name: operator", "- name: Operator", "lower-case letters"},
		{"two sources", "source: {bundle: {", "source: {manifests: {path: /x}, bundle: {", "exactly one of bundle, chart and manifests"},
		{"no source", `manifests: {url: "https://example.com/crds.yaml", digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}`, "", "exactly one of bundle, chart and manifests"},
		{"a url without digest", `, digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"`, "", "need their digest"},
		{"a hook of two sorts", "wait: {", "apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]}\n      wait: {", "exactly one of apply, wait, patch and annotate"},
		{"twice the same hook", "- name: scale", "- name: up", "two hooks have the same name"},
		{"a timeout that is none", "dependsOn: [operator]", "timeout: 3 weeks", "timeout must be"},
	} {
		t.Run(each.name, func(t *testing.T) {
			changed := strings.Replace(good, each.old, each.with, 1)
			if changed == good {
				t.Fatal("nothing was changed")
			}
			_, err := accept(changed)
			if err == nil || !strings.Contains(err.Error(), each.say) {
				t.Errorf("it says: %v", err)
			}
		})
	}
}

// TestTheSampleIsAccepted as it is, and what it grants is what the operator needs.
func TestTheSampleIsAccepted(t *testing.T) {
	text, err := os.ReadFile("../../../config/samples/platform_v1alpha1_platformstack.yaml")
	if err != nil {
		t.Fatal(err)
	}
	may := func() bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + install.Namespace + ":" + install.Release,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "impersonate", Resource: "serviceaccounts", Name: "installer", Namespace: "slipway-platform",
			},
		}}
		if err := kube.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	again := kube.Get(t.Context(), client.ObjectKey{Name: "slipway-platform"}, &corev1.Namespace{}) == nil
	if may() && !again {
		t.Error("it may impersonate the account without the sample")
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			t.Fatal(err)
		}
		options := []client.CreateOption{client.FieldValidation("Strict")}
		if object.GetKind() == platformv1alpha1.KindPlatformStack {
			options = append(options, client.DryRunAll)
		}
		if err := kube.Create(t.Context(), object, options...); err != nil && !(again && apierrors.IsAlreadyExists(err)) {
			t.Errorf("%s: %v", object.GetKind(), err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if !polled(ctx, may) { // the authorizer reads roles from a watch
		t.Error("it may not impersonate the account")
	}
}
