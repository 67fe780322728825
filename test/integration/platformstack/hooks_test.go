package platformstack

import (
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestHooks does hooks of every sort in their order, and keeps what is to be kept.
func TestHooks(t *testing.T) {
	bundle := operator(t, "seal", "1.0.0", "seal.example.com")
	plain := written(t, t.TempDir(), "all.yaml", deployment("after", "example.com/after:1"))
	gone(t, bed.ConfigMap("hooks-seal", "given", ""), injectorOf("hooks-injector"))
	create(t, "hooks", `
components:
- name: seal
  namespace: hooks-seal
  source: {bundle: {image: `+bundle+`}}
  hooks:
    before:
    - name: config
      apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {a: b}}]}
    after:
    - name: thing
      apply: {objects: [{apiVersion: seal.example.com/v1, kind: Thing, metadata: {name: one}, spec: {a: b}}]}
    - name: up
      wait: {apiVersion: apps/v1, kind: Deployment, namespace: hooks-seal, name: seal, condition: Available}
    - name: scale
      patch: {apiVersion: v1, kind: ConfigMap, namespace: hooks-seal, name: given, patch: {data: {once: "1"}}}
    - name: ignore
      annotate: {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, name: hooks-injector, annotations: {sailoperator.io/ignore: "true"}, keep: true}
- name: after
  namespace: hooks-after
  dependsOn: [seal]
  source: {manifests: {path: `+plain+`}}
`)
	// The object to patch isn't there: what depends on the component waits, too.
	waiting := await(t, "hooks", func(s *platformv1alpha1.PlatformStack) string {
		if c := component(s, "seal"); c.Reason != "HookNotDone" || c.Message != "hook scale: ConfigMap hooks-seal/given isn't there yet" {
			return "the hook isn't waited for"
		}
		return isIn("seal Waiting", "after Waiting")(s)
	})
	if waits := component(waiting, "after").WaitsFor; len(waits) != 1 || waits[0] != "seal" {
		t.Errorf("after waits for %v", waits)
	}
	given := bed.ConfigMap("hooks-seal", "given", "x")
	if err := kube.Create(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	await(t, "hooks", func(s *platformv1alpha1.PlatformStack) string {
		if component(s, "seal").Message != "hook ignore: MutatingWebhookConfiguration hooks-injector isn't there yet" {
			return "the next hook isn't waited for"
		}
		return ""
	})
	injector := injectorOf("hooks-injector")
	if err := kube.Create(t.Context(), injector); err != nil {
		t.Fatal(err)
	}
	await(t, "hooks", isReady)
	awaitValue(t, client.ObjectKeyFromObject(given), "once", "1")

	// What is kept is written again when it is taken away, and when the object comes
	// back; what isn't kept stays as someone made it.
	awaitAnnotated(t, injector.Name)
	patch(t, injector, `{"metadata":{"annotations":null}}`)
	awaitAnnotated(t, injector.Name)
	if err := kube.Delete(t.Context(), injector); err != nil {
		t.Fatal(err)
	}
	if err := kube.Create(t.Context(), injectorOf("hooks-injector")); err != nil {
		t.Fatal(err)
	}
	awaitAnnotated(t, injector.Name)
	patch(t, given, `{"data":{"once":"2"}}`)
	// An object of a hook is put back as one of a component is.
	first := bed.ConfigMap("hooks-seal", "first", "")
	patch(t, first, `{"data":{"a":"c"}}`)
	awaitValue(t, client.ObjectKeyFromObject(first), "a", "b")
	awaitValue(t, client.ObjectKeyFromObject(given), "once", "2")
	await(t, "hooks", isReady)
	rests(t, "hooks")
}

func injectorOf(name string) *admissionv1.MutatingWebhookConfiguration {
	made := &admissionv1.MutatingWebhookConfiguration{}
	made.Name = name
	return made
}

func patch(t *testing.T, object client.Object, text string) {
	t.Helper()
	if err := kube.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatal(err)
	}
}

func awaitAnnotated(t *testing.T, name string) {
	t.Helper()
	made := injectorOf(name)
	bed.Await(t, kube, made, &admissionv1.MutatingWebhookConfigurationList{}, func(w *admissionv1.MutatingWebhookConfiguration) string {
		if w.Annotations["sailoperator.io/ignore"] == "true" {
			return ""
		}
		return "it isn't annotated"
	})
}

func awaitValue(t *testing.T, key client.ObjectKey, name, value string) {
	t.Helper()
	bed.Await(t, kube, bed.ConfigMap(key.Namespace, key.Name, ""), &corev1.ConfigMapList{}, func(c *corev1.ConfigMap) string {
		if c.Data[name] == value {
			return ""
		}
		return "it holds " + c.Data[name]
	})
}

// TestPullSecrets are copied, attached, kept in step and told nowhere.
func TestPullSecrets(t *testing.T) {
	bundle := operator(t, "crab", "1.0.0", "crab.example.com")
	source := bed.Namespace(t, kube)
	secret := &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, StringData: map[string]string{corev1.DockerConfigJsonKey: login("first")}}
	secret.Namespace, secret.Name = source, "redhat"
	create(t, "pull", `
pullSecrets: [{name: redhat, namespace: `+source+`}]
components:
- name: crab
  namespace: pull-crab
  source: {bundle: {image: `+bundle+`}}
`)
	await(t, "pull", func(s *platformv1alpha1.PlatformStack) string {
		if c := component(s, "crab"); c.Message != "Secret redhat in namespace "+source+" doesn't exist; create it, or remove it from spec.pullSecrets" {
			return "the Secret isn't missed"
		}
		return ""
	})
	if err := kube.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	ready := await(t, "pull", isReady)
	account := &corev1.ServiceAccount{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "pull-crab", Name: "crab"}, account); err != nil || len(account.ImagePullSecrets) != 1 || account.ImagePullSecrets[0].Name != "redhat" {
		t.Errorf("%v %v", account.ImagePullSecrets, err)
	}
	awaitCopy := func(value string) {
		t.Helper()
		copied := &corev1.Secret{}
		copied.Namespace, copied.Name = "pull-crab", "redhat"
		bed.Await(t, kube, copied, &corev1.SecretList{}, func(s *corev1.Secret) string {
			if string(s.Data[corev1.DockerConfigJsonKey]) == login(value) && s.Type == corev1.SecretTypeDockerConfigJson {
				return ""
			}
			return "it is another one"
		})
	}
	awaitCopy("first")
	patch(t, secret, `{"stringData":{".dockerconfigjson":`+strconv.Quote(login("second"))+`}}`)
	awaitCopy("second")
	if text := told(ready); strings.Contains(text, "first") || strings.Contains(text, "c2Vjb25k") {
		t.Errorf("the status tells %s", text)
	}
	// One that the spec no longer names goes.
	change(t, "pull", func(s *platformv1alpha1.PlatformStack) { s.Spec.PullSecrets = nil })
	copied := &corev1.Secret{}
	copied.Namespace, copied.Name = "pull-crab", "redhat"
	bed.AwaitGone(t, kube, copied, &corev1.SecretList{})
	await(t, "pull", isReady)
}

// login is what docker login writes.
func login(password string) string {
	return `{"auths":{"registry.example.com":{"username":"me","password":"` + password + `"}}}`
}
