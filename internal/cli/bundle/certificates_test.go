package bundle_test

import (
	"bytes"
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/certificate"
	"github.com/slipway-dev/slipway/internal/cli/bundle"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/object"
)

// trusting are the caBundles of a rendering, by the object that has one or hasn't, and
// the Secret that it is served with.
func trusting(rendered map[object.Ref]map[string]any) (trusted map[string]string, secret map[string]any) {
	trusted = map[string]string{}
	for ref, each := range rendered {
		switch ref.Kind {
		case "Secret":
			secret = each
		case "ValidatingWebhookConfiguration":
			hook := each["webhooks"].([]any)[0].(map[string]any)
			trusted[ref.Kind], _, _ = unstructured.NestedString(hook, "clientConfig", "caBundle")
		case "CustomResourceDefinition":
			if _, is, _ := unstructured.NestedMap(each, "spec", "conversion"); is {
				trusted[ref.Kind], _, _ = unstructured.NestedString(each, "spec", "conversion", "webhook", "clientConfig", "caBundle")
			}
		}
	}
	return trusted, secret
}

// TestCertificatesOfAChart: whoever makes them by the chart's value, the chart has all of
// it and nothing of the others'.
func TestCertificatesOfAChart(t *testing.T) {
	dir := makeChart(t, bundle.Request{Reference: dolphin})
	for _, from := range []string{bundle.SelfSigned, bundle.Provided} {
		values := map[string]any{"certificates": from}
		if err := helm.Lint(os.DirFS(filepath.Dir(dir)), filepath.Base(dir), values); err != nil {
			t.Fatal(err)
		}
		rendered := render(t, dir, "123", values)
		for ref, each := range rendered {
			metadata, _ := each["metadata"].(map[string]any)
			annotations, _ := metadata["annotations"].(map[string]any)
			if ref.Group == "cert-manager.io" || annotations["cert-manager.io/inject-ca-from"] != nil {
				t.Errorf("%s: cert-manager's: %v", from, ref)
			}
		}
		trusted, secret := trusting(rendered)
		if kinds := slices.Sorted(maps.Keys(trusted)); !slices.Equal(kinds, []string{"CustomResourceDefinition", "ValidatingWebhookConfiguration"}) {
			t.Fatalf("%s: %v", from, kinds)
		}
		if from == bundle.Provided {
			if secret != nil || trusted["CustomResourceDefinition"]+trusted["ValidatingWebhookConfiguration"] != "" {
				t.Errorf("%v %v", secret, trusted)
			}
			continue
		}
		data := secret["data"].(map[string]any)
		part := func(text any) []byte {
			read, err := base64.StdEncoding.DecodeString(text.(string))
			if err != nil {
				t.Error(err)
			}
			return read
		}
		hosts := []string{"dolphin-service.123.svc", "dolphin-service.123.svc.cluster.local"}
		for kind, authority := range trusted {
			if certificate.Serves(part(authority), part(data["tls.crt"]), part(data["tls.key"]), hosts, time.Now().AddDate(9, 0, 0)) == nil {
				t.Errorf("%s refuses what serves", kind)
			}
		}
		if after := secret["metadata"].(map[string]any)["annotations"].(map[string]any)["slipway.dev/renew-after"].(string); len(after) != 10 {
			t.Errorf("it is renewed after %s", after)
		}
	}
	loaded, err := helm.Load(os.DirFS(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := helm.Template(helm.Request{Name: "test", Chart: loaded, Values: map[string]any{"certificates": "mine"}}, "sea", ""); err == nil {
		t.Error("any value is taken")
	}
}

// TestAnUpdateKeepsWhoMakesCertificates, be it what the chart was made with, or what the
// user has set since.
func TestAnUpdateKeepsWhoMakesCertificates(t *testing.T) {
	for _, each := range []struct{ made, set, want string }{
		{"", "", bundle.CertManager}, {bundle.SelfSigned, "", bundle.SelfSigned}, {"", bundle.Provided, bundle.Provided},
	} {
		dir := makeChart(t, bundle.Request{Reference: dolphin, Certificates: each.made})
		file := filepath.Join(dir, "values.yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if each.set != "" {
			text = bytes.ReplaceAll(text, []byte("certificates: cert-manager\n"), []byte("certificates: "+each.set+"\n"))
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := maker(&bytes.Buffer{}).Update(t.Context(), bundle.Update{Dir: dir, Reference: dolphin}); err != nil {
			t.Fatal(err)
		}
		if text, err = os.ReadFile(file); err != nil || !strings.Contains(string(text), "\ncertificates: "+each.want+"\n") {
			t.Errorf("%+v: %s %v", each, text, err)
		}
	}
}
