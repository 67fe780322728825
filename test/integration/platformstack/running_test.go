package platformstack

import (
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/test/bed"
)

// kserve is a chart as KServe's are: it takes no pull secrets, and its controller has a
// ServiceAccount.
func kserve(t *testing.T, version string) string {
	t.Helper()
	return chartDir(t, "kserve", version, "kserve: {mode: Knative, word: none}\n", map[string]string{
		"account.yaml":  "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: controller}\n",
		"settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mode: {{ .Values.kserve.mode }}, word: {{ .Values.kserve.word }}, version: {{ .Chart.Version }}}\n",
		"controller.yaml": strings.Replace(deployment("controller", "example.com/controller:{{ .Chart.Version }}"),
			"spec: {containers", "spec: {serviceAccountName: controller, containers", 1),
	})
}

// secretOf is a Secret of logins.
func secretOf(namespace, name, logins string) *corev1.Secret {
	made := &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, StringData: map[string]string{corev1.DockerConfigJsonKey: logins}}
	made.Namespace, made.Name = namespace, name
	return made
}

// awaitSecret waits for what a pull secret holds.
func awaitSecret(t *testing.T, namespace, name, want string) {
	t.Helper()
	bed.Await(t, kube, secretOf(namespace, name, ""), &corev1.SecretList{}, func(s *corev1.Secret) string {
		if string(s.Data[corev1.DockerConfigJsonKey]) == want {
			return ""
		}
		return "it is another one"
	})
}

// awaitAttached waits for the only pull secret of a ServiceAccount.
func awaitAttached(t *testing.T, namespace, name, want string) {
	t.Helper()
	account := bed.Account(namespace, name)
	bed.Await(t, kube, account, &corev1.ServiceAccountList{}, func(a *corev1.ServiceAccount) string {
		if len(a.ImagePullSecrets) == 1 && a.ImagePullSecrets[0].Name == want {
			return ""
		}
		return "its pull secrets are others"
	})
}

// TestAChartFromARegistryWithALogin installs a chart like KServe's with the logins of
// the pull secret, which comes into the component's namespace, onto the ServiceAccounts
// of a chart that takes none, follows its source, and goes with the stack.
func TestAChartFromARegistryWithALogin(t *testing.T) {
	host, source := hub(t), bed.Namespace(t, kube)
	pushChart(t, host+"/charts/kserve:0.17.1", kserve(t, "0.17.1"))
	secret := secretOf(source, "redhat", hubLogin(host, "wrong"))
	if err := kube.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	made := create(t, "login", `
pullSecrets: [{name: redhat, namespace: `+source+`}]
components:
- name: kserve
  namespace: login-kserve
  source: {chart: {repository: {url: "oci://`+host+`/charts"}, name: kserve, version: 0.17.1}}
`)
	refused := await(t, "login", isIn("kserve Failed"))
	if c := component(refused, "kserve"); !strings.Contains(c.Message, "redentials") || strings.Contains(told(refused), "wrong") {
		t.Errorf("it says %s", told(refused))
	}
	// The operator looks again as soon as the Secret is another.
	patch(t, secret, `{"stringData":{".dockerconfigjson":`+strconv.Quote(hubLogin(host, "hunter2"))+`}}`)
	ready := await(t, "login", isReady)
	if strings.Contains(told(ready), "hunter2") {
		t.Errorf("the status tells %s", told(ready))
	}
	awaitAttached(t, "login-kserve", "controller", "redhat")
	awaitSecret(t, "login-kserve", "redhat", hubLogin(host, "hunter2"))
	// Who takes it off, or changes the copy, finds it there again.
	patch(t, bed.Account("login-kserve", "controller"), `{"imagePullSecrets":null}`)
	awaitAttached(t, "login-kserve", "controller", "redhat")
	patch(t, secretOf("login-kserve", "redhat", ""), `{"stringData":{".dockerconfigjson":"{}"}}`)
	changed := `{"auths":{"` + host + `":{"username":"me","password":"hunter2"},"other.example.com":{"username":"you","password":"x"}}}`
	patch(t, secret, `{"stringData":{".dockerconfigjson":`+strconv.Quote(changed)+`}}`)
	awaitSecret(t, "login-kserve", "redhat", changed)
	remove(t, made)
	err := kube.Get(t.Context(), types.NamespacedName{Namespace: "login-kserve", Name: "redhat"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the copy is left: %v", err)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Errorf("the user's own Secret: %v", err)
	}
}

// TestValuesOfARunningStack come from a ConfigMap and a Secret, and change with them.
func TestValuesOfARunningStack(t *testing.T) {
	charts, source := kserve(t, "0.17.1"), bed.Namespace(t, kube)
	plain := bed.ConfigMap(source, "values", "")
	plain.Data = map[string]string{"values.yaml": "kserve: {mode: Standard, word: plain}"}
	secret := &corev1.Secret{StringData: map[string]string{"word": "first"}}
	secret.Namespace, secret.Name = source, "word"
	for _, each := range []client.Object{plain, secret} {
		if err := kube.Create(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
	create(t, "values", `
components:
- name: kserve
  namespace: values-kserve
  source: {chart: {repository: {url: `+charts+`}, name: kserve, version: 0.17.1}}
  valuesFrom:
  - {kind: ConfigMap, name: values, namespace: `+source+`}
  - {kind: Secret, name: word, namespace: `+source+`, key: word, targetPath: kserve.word}
`)
	await(t, "values", isReady)
	settings := client.ObjectKey{Namespace: "values-kserve", Name: "settings"}
	awaitValue(t, settings, "mode", "Standard")
	awaitValue(t, settings, "word", "first") // later ones win
	patch(t, secret, `{"stringData":{"word":"second"}}`)
	awaitValue(t, settings, "word", "second")
	patch(t, plain, `{"data":{"values.yaml":"kserve: {mode: Raw}"}}`)
	awaitValue(t, settings, "mode", "Raw")
	ready := await(t, "values", func(s *platformv1alpha1.PlatformStack) string {
		if component(s, "kserve").Revision != 3 {
			return "it has another revision"
		}
		return isReady(s)
	})
	if strings.Contains(told(ready), "second") {
		t.Errorf("the status tells %s", told(ready))
	}
	// What goes away leaves what runs as it is, and is missed.
	if err := kube.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	await(t, "values", func(s *platformv1alpha1.PlatformStack) string {
		if c := component(s, "kserve"); !strings.Contains(c.Message, "Secret word in namespace "+source+" doesn't exist") {
			return "the Secret isn't missed"
		}
		return ""
	})
	awaitValue(t, settings, "word", "second")
}

// TestASignedBundle: a bundle is installed if it is signed with the key that the stack
// names, and not if it isn't signed, or by another.
func TestASignedBundle(t *testing.T) {
	const group = "sole.example.com"
	host, source := hub(t), bed.Namespace(t, kube)
	signer, key := newSigner(t)
	stranger, _ := newSigner(t)
	gone(t, defined(group))
	digest := pushBundle(t, host+"/sole:1.0.0", operator(t, "sole", "1.0.0", group))
	if err := kube.Create(t.Context(), secretOf(source, "redhat", hubLogin(host, "hunter2"))); err != nil {
		t.Fatal(err)
	}
	create(t, "signed", `
pullSecrets: [{name: redhat, namespace: `+source+`}]
components:
- name: sole
  namespace: signed-sole
  source: {bundle: {image: "`+host+`/sole:1.0.0", key: `+strconv.Quote(key)+`}}
`)
	says := func(want string) {
		t.Helper()
		change(t, "signed", func(s *platformv1alpha1.PlatformStack) { // have it look again
			s.Annotations = map[string]string{"example.com/look": want}
		})
		await(t, "signed", func(s *platformv1alpha1.PlatformStack) string {
			if c := component(s, "sole"); c.Phase != platformv1alpha1.PhaseFailed || !strings.Contains(c.Message, want) {
				return "it says something else"
			}
			return ""
		})
		err := kube.Get(t.Context(), client.ObjectKey{Namespace: "signed-sole", Name: "sole"}, &appsv1.Deployment{})
		if !apierrors.IsNotFound(err) || len(records(t, "signed-sole")) > 0 {
			t.Errorf("it was installed: %v", err)
		}
	}
	says("it isn't signed in the way that can be checked")
	sign(t, host+"/sole", digest, stranger)
	says("it isn't signed with this key")
	sign(t, host+"/sole", digest, signer)
	change(t, "signed", func(s *platformv1alpha1.PlatformStack) {
		s.Annotations = map[string]string{"example.com/look": "signed"}
	})
	if c := component(await(t, "signed", isReady), "sole"); c.Digest != digest || c.Version != "1.0.0" {
		t.Errorf("%+v", c)
	}
}

// TestTheSecondFails: of a chain that is upgraded, the second component fails and goes
// back; the first stays upgraded, and what depends on the second stays as it was.
func TestTheSecondFails(t *testing.T) {
	at := func(name, version string) string {
		return written(t, t.TempDir(), "all.yaml", deployment(name, "example.com/"+name+":"+version))
	}
	create(t, "chain", `
components:
- {name: one, namespace: chain, source: {manifests: {path: `+at("one", "1")+`}}}
- {name: two, namespace: chain, dependsOn: [one], source: {manifests: {path: `+at("two", "1")+`}}}
- {name: three, namespace: chain, dependsOn: [two], source: {manifests: {path: `+at("three", "1")+`}}}
- {name: four, namespace: chain, dependsOn: [three], source: {manifests: {path: `+at("four", "1")+`}}}
`)
	await(t, "chain", isReady)
	// No node has what it asks for, so that it doesn't become ready.
	never := written(t, t.TempDir(), "all.yaml", strings.Replace(deployment("two", "example.com/two:2"),
		"image: example.com/two:2", `image: example.com/two:2, resources: {requests: {cpu: "9999"}}`, 1))
	change(t, "chain", func(s *platformv1alpha1.PlatformStack) {
		for i, path := range []string{at("one", "2"), never, at("three", "2"), at("four", "2")} {
			s.Spec.Components[i].Source.Manifests.Path = path
		}
		s.Spec.Components[1].Timeout = "10s" // its own way back takes some, too
	})
	await(t, "chain", isIn("one Ready", "two RolledBack", "three Waiting", "four Waiting"))
	for name, version := range map[string]string{"one": "2", "two": "1", "three": "1", "four": "1"} {
		live := &appsv1.Deployment{}
		live.Namespace, live.Name = "chain", name
		bed.Await(t, kube, live, &appsv1.DeploymentList{}, func(d *appsv1.Deployment) string {
			if image := d.Spec.Template.Spec.Containers[0].Image; image != "example.com/"+name+":"+version || d.Status.AvailableReplicas == 0 {
				return image
			}
			return ""
		})
	}
	change(t, "chain", func(s *platformv1alpha1.PlatformStack) {
		s.Spec.Components[1].Source.Manifests.Path, s.Spec.Components[1].Timeout = at("two", "3"), "5m"
	})
	await(t, "chain", isReady)
	last := &appsv1.Deployment{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "chain", Name: "four"}, last); err != nil || last.Spec.Template.Spec.Containers[0].Image != "example.com/four:2" {
		t.Errorf("%v %v", last.Spec.Template.Spec.Containers, err)
	}
}
