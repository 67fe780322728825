package platformstack

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/certificate"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestCertificatesOfWebhooks: without cert-manager the operator makes what a bundle's
// webhook is served with, and makes it again when it is gone. By what clock and through
// which deaths is in test/integration/certificates.
func TestCertificatesOfWebhooks(t *testing.T) {
	create(t, "hooked", `
components:
- name: dolphin
  namespace: hooked-dolphin
  existing: Adopt
  source: {bundle: {image: ../../../internal/cli/bundle/testdata/dolphin, exclude: ['.kind == "ConsoleCLIDownload"']}}
`)
	await(t, "hooked", isReady)
	awaitServed(t, nil)
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = "hooked-dolphin", "dolphin-service-cert"
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	if err := kube.Delete(t.Context(), secret.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	awaitServed(t, secret)
	if ready := await(t, "hooked", isReady); component(ready, "dolphin").Revision != 1 {
		t.Errorf("it makes a revision:\n%s", told(ready))
	}
}

// awaitServed waits until there is a certificate that isn't former's, and the API server
// trusts it.
func awaitServed(t *testing.T, former *corev1.Secret) {
	t.Helper()
	const service = "dolphin-service.hooked-dolphin.svc"
	hook := &admissionv1.ValidatingWebhookConfiguration{}
	hook.Name = "dolphin-hooked-dolphin-vdolphin.example.com"
	bed.Await(t, kube, hook, &admissionv1.ValidatingWebhookConfigurationList{}, func(h *admissionv1.ValidatingWebhookConfiguration) string {
		secret := &corev1.Secret{}
		err := kube.Get(t.Context(), client.ObjectKey{Namespace: "hooked-dolphin", Name: "dolphin-service-cert"}, secret)
		switch {
		case err != nil:
			return err.Error()
		case former != nil && secret.UID == former.UID:
			return "it is the former Secret"
		case certificate.Serves(h.Webhooks[0].ClientConfig.CABundle, secret.Data["tls.crt"], secret.Data["tls.key"], []string{service}, secret.CreationTimestamp.Time) == nil:
			return "it isn't trusted"
		}
		return ""
	})
}
