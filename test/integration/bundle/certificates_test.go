package bundle

import (
	"bytes"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/certificate"
	"github.com/slipway-dev/slipway/internal/cli/bundle"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/registry"
	source "github.com/slipway-dev/slipway/internal/registry/bundle"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestHelmMakesCertificates: a chart without cert-manager has Helm make certificates,
// which an upgrade leaves alone until it is time; then the former authority stays
// trusted beside the new one.
func TestHelmMakesCertificates(t *testing.T) {
	kube := bed.Client(t, server)
	namespace := bed.Namespace(t, kube)
	dir := filepath.Join(t.TempDir(), "chart")
	maker := bundle.Maker{Source: source.Source{Registry: registry.New(registry.Options{Now: time.Now})}, Progress: io.Discard, Now: time.Now}
	excluded := []string{noConsole, `.kind == "CustomResourceDefinition"`} // the definitions are another test's
	if err := maker.Chart(t.Context(), bundle.Request{Reference: ours, Exclude: excluded, Certificates: bundle.SelfSigned}, dir); err != nil {
		t.Fatal(err)
	}
	upgrade := func(image string) (secret *corev1.Secret, trusted []byte) {
		chart, err := helm.LoadArchive(packed(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{"relatedImages": map[string]any{"fin": image}}
		request := helm.Request{Name: "it", Chart: chart, Values: values, Timeout: deadline}
		made, err := helm.New(server, namespace, slog.DiscardHandler, time.Now).Apply(t.Context(), request)
		if err != nil || made.Status != "deployed" {
			t.Fatalf("%s, %v", made.Status, err)
		}
		secret = &corev1.Secret{}
		if err := kube.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "dolphin-service-cert"}, secret); err != nil {
			t.Fatal(err)
		}
		hook := &admissionv1.ValidatingWebhookConfiguration{}
		if err := kube.Get(t.Context(), types.NamespacedName{Name: "dolphin-" + namespace + "-vdolphin.example.com"}, hook); err != nil {
			t.Fatal(err)
		}
		return secret, hook.Webhooks[0].ClientConfig.CABundle
	}
	hosts := []string{"dolphin-service." + namespace + ".svc", "dolphin-service." + namespace + ".svc.cluster.local"}
	serves := func(secret *corev1.Secret, trusted []byte) bool {
		return certificate.Serves(trusted, secret.Data["tls.crt"], secret.Data["tls.key"], hosts, time.Now()) != nil
	}
	first, trusted := upgrade("example.com/fin:2")
	if !serves(first, trusted) {
		t.Errorf("what was installed isn't trusted: %s", trusted)
	}
	second, trusted := upgrade("example.com/fin:3")
	if !serves(second, trusted) || !bytes.Equal(second.Data["tls.key"], first.Data["tls.key"]) {
		t.Error("an upgrade makes another certificate before its time")
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"slipway.dev/renew-after":null}}}`))
	if err := kube.Patch(t.Context(), second, patch); err != nil {
		t.Fatal(err)
	}
	third, trusted := upgrade("example.com/fin:4")
	if !serves(third, trusted) || bytes.Equal(third.Data["tls.key"], first.Data["tls.key"]) {
		t.Error("an upgrade doesn't renew the certificate")
	}
	if !serves(first, trusted) {
		t.Error("pods that haven't read the new certificate are refused")
	}
	fourth, trusted := upgrade("example.com/fin:5")
	if !serves(fourth, trusted) || !bytes.Equal(fourth.Data["tls.key"], third.Data["tls.key"]) {
		t.Error("it is renewed again")
	}
}
