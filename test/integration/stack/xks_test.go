package stack

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestXKS: the whole preset, of the published bundles, from a laptop without an
// operator: installed, resumed, changed, rolled back and deleted.
func TestXKS(t *testing.T) {
	if _, err := os.Stat(bundles); err != nil {
		t.Skip("the published bundles aren't beside this checkout")
	}
	kube, host, l := bed.Client(t, server), hub(t), newLaptop(t)
	logins := l.write("auth.json", `{"auths":{"`+host+`":{"username":"me","password":"hunter2"}}}`)
	text := l.sources(host)
	file := l.write("stack.yaml", text)
	play(t)
	t.Cleanup(func() {
		// It is the user's, so that nothing else deletes it.
		login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "slipway-platform", Name: "redhat-pull-secret"}}
		if err := kube.Delete(context.Background(), login); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})

	planned(t, kube, l, file, logins)
	// Without credentials the bundles can't be had; what doesn't need them goes on.
	_, progress, ok := l.stack("apply", "-f", file, "--auth-file", l.write("none.json", "{}"), "--timeout", "10m")
	if ok || !strings.Contains(progress, "redhat-pull-secret in namespace slipway-platform doesn't exist") || !strings.Contains(progress, "; --login REGISTRY makes it") {
		t.Fatalf("without the pull secret: %s", progress)
	}
	out, progress := l.must("apply", "-f", file, "--auth-file", logins, "--login", host, "--timeout", "10m")
	if strings.Contains(progress+out, "hunter2") {
		t.Error("the password is in the output")
	}
	want := regexp.MustCompile(`(?m)^xks: 8/8 components are ready.*$(?s:.*)^gateway-api +1.4.0 +Ready$(?s:.*)^kserve-configs +v?0.17.1 +Ready$(?s:.*)` +
		`^InferencePool API: v1 \(inference.networking.k8s.io\), v1alpha2 \(inference.networking.x-k8s.io\)$(?s:.*)^Istio version: v1.27-latest$`)
	if !want.MatchString(out) {
		t.Errorf("%s", out)
	}
	checkInstalled(t, kube)

	// Again: nothing is to be done. The workaround is written again when it is gone.
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	hook.Name = "istio-sidecar-injector"
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"sailoperator.io/ignore":null}}}`))
	if err := kube.Patch(t.Context(), hook, patch); err != nil {
		t.Fatal(err)
	}
	l.must("apply", "-f", file, "--auth-file", logins)
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(hook), hook); err != nil || hook.Annotations["sailoperator.io/ignore"] != "true" {
		t.Errorf("%v, %v", hook.Annotations, err)
	}
	revisions(t, kube, 1)

	// A change, and back.
	changed := l.write("changed.yaml", strings.Replace(text, "deploymentMode: Standard", "deploymentMode: Knative", 1))
	out, _ = l.must("apply", "-f", changed, "--auth-file", logins, "--dry-run")
	if !strings.Contains(out, "  upgrade kserve v0.17.1 in namespace opendatahub\n") || strings.Count(out, "  unchanged ") != 7 {
		t.Errorf("%s", out)
	}
	l.must("apply", "-f", changed, "--auth-file", logins)
	if mode := controllerMode(t, kube); mode != "Knative" {
		t.Errorf("mode %s after the change", mode)
	}
	_, progress = l.must("rollback", "xks", "kserve")
	if mode := controllerMode(t, kube); mode != "Standard" || !strings.Contains(progress, "as in revision 1") {
		t.Errorf("mode %s after the rollback: %s", mode, progress)
	}
	_, progress, ok = l.stack("apply", "-f", changed, "--auth-file", logins, "--timeout", "10m")
	if ok || !strings.Contains(progress, "someone rolled back to revision 1") {
		t.Errorf("after the rollback: %s", progress)
	}
	if _, progress, ok := l.stack("rollback", "xks", "nobody"); ok || !strings.Contains(progress, "has installed no component nobody") {
		t.Error(progress)
	}

	l.must("delete", "xks", "--auth-file", logins)
	checkDeleted(t, kube)
	out, _ = l.must("status")
	if !strings.HasPrefix(out, "There is no PlatformStack.") {
		t.Error(out)
	}
}

// planned: a dry run shows all waves, in a cluster that knows nothing of Slipway yet or
// does, and writes nothing.
func planned(t *testing.T, kube client.Client, l *laptop, file, logins string) {
	t.Helper()
	out, _ := l.must("apply", "-f", file, "--auth-file", logins, "--dry-run")
	for _, want := range []string{
		"wave 1\n", "  install cert-manager-operator 1.20.0 in namespace cert-manager-operator\n      image: openshift.io/cert-manager-operator:latest\n      permissions: ",
		"  install sail-operator 1.31.0 in namespace istio-system\n      image: quay.io/sail-dev/sail-operator:1.31-latest\n",
		"  install kserve v0.17.1 in namespace opendatahub\n      image: stand-in\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if strings.Index(out, "wave 4") < strings.Index(out, "install kserve ") {
		t.Errorf("%s", out)
	}
	written := kube.Get(t.Context(), client.ObjectKey{Name: "xks"}, &platformv1alpha1.PlatformStack{})
	made := kube.Get(t.Context(), client.ObjectKey{Namespace: "istio-system", Name: "sail-operator"}, &appsv1.Deployment{})
	if !apierrors.IsNotFound(written) && !meta.IsNoMatchError(written) || !apierrors.IsNotFound(made) {
		t.Errorf("after a dry run there is something: %v, %v", written, made)
	}
	_, progress, ok := l.stack("apply", "-f", file, "--auth-file", l.write("none.json", "{}"), "--dry-run")
	if ok || !strings.Contains(progress, "asks for credentials") {
		t.Errorf("without credentials: %s", progress)
	}
}

func checkInstalled(t *testing.T, kube client.Client) {
	t.Helper()
	for namespace, name := range map[string]string{
		"cert-manager-operator": "cert-manager-operator-controller-manager", "istio-system": "sail-operator",
		"openshift-lws-operator": "openshift-lws-operator", "opendatahub": "llmisvc-controller-manager",
	} {
		deployed := &appsv1.Deployment{}
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, deployed); err != nil || deployed.Status.AvailableReplicas == 0 {
			t.Errorf("%s/%s: %d are available, %v", namespace, name, deployed.Status.AvailableReplicas, err)
		}
		account := &corev1.ServiceAccount{}
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: deployed.Spec.Template.Spec.ServiceAccountName}, account); err != nil || len(account.ImagePullSecrets) != 1 {
			t.Errorf("%s/%s: %v, %v", namespace, name, account.ImagePullSecrets, err)
		}
	}
	for namespace, name := range map[string]string{"cert-manager": "cert-manager-webhook", "opendatahub": "inference-gateway-istio"} {
		account, secret := &corev1.ServiceAccount{}, &corev1.Secret{}
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, account); err != nil || len(account.ImagePullSecrets) != 1 {
			t.Errorf("%s/%s: %v, %v", namespace, name, account.ImagePullSecrets, err)
			continue
		}
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: account.ImagePullSecrets[0].Name}, secret); err != nil {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}

// revisions checks that every component is at a revision.
func revisions(t *testing.T, kube client.Client, want int64) {
	t.Helper()
	xks := &platformv1alpha1.PlatformStack{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "xks"}, xks); err != nil {
		t.Fatal(err)
	}
	for _, each := range xks.Status.Components {
		if each.Revision != want {
			t.Errorf("%s is at revision %d", each.Name, each.Revision)
		}
	}
}

func controllerMode(t *testing.T, kube client.Client) string {
	t.Helper()
	controller := &appsv1.Deployment{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "opendatahub", Name: "llmisvc-controller-manager"}, controller); err != nil {
		t.Fatal(err)
	}
	return controller.Spec.Template.Annotations["mode"]
}

func checkDeleted(t *testing.T, kube client.Client) {
	t.Helper()
	err := kube.Get(t.Context(), client.ObjectKey{Namespace: "istio-system", Name: "sail-operator"}, &appsv1.Deployment{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the operator of Istio: %v", err)
	}
	for _, name := range []string{"istios.sailoperator.io", "gateways.gateway.networking.k8s.io"} {
		if err := kube.Get(t.Context(), client.ObjectKey{Name: name}, &apiextensionsv1.CustomResourceDefinition{}); err != nil {
			t.Errorf("%s doesn't stay: %v", name, err)
		}
	}
	copies := &corev1.SecretList{}
	if err := kube.List(t.Context(), copies, client.MatchingFields{"metadata.name": "redhat-pull-secret"}); err != nil || len(copies.Items) != 1 {
		t.Errorf("%d pull secrets are left, %v", len(copies.Items), err)
	}
}
