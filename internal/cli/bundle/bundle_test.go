package bundle_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/cli/bundle"
	"github.com/slipway-dev/slipway/internal/registry"
	source "github.com/slipway-dev/slipway/internal/registry/bundle"
)

const dolphin = "testdata/dolphin"

func maker(progress *bytes.Buffer) bundle.Maker {
	return bundle.Maker{
		Source:   source.Source{Registry: registry.New(registry.Options{Now: time.Now})},
		Progress: progress,
		Now:      func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
}

func extract(t *testing.T, request bundle.Request) ([]*unstructured.Unstructured, string) {
	t.Helper()
	var progress bytes.Buffer
	objects, err := maker(&progress).Extract(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return objects, progress.String()
}

func kinds(objects []*unstructured.Unstructured) []string {
	found := make([]string, 0, len(objects))
	for _, each := range objects {
		found = append(found, each.GetKind()+" "+each.GetNamespace()+"/"+each.GetName())
	}
	return found
}

func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, each := range objects {
		if each.GetKind() == kind && each.GetName() == name {
			return each
		}
	}
	t.Fatalf("no %s %s in %v", kind, name, kinds(objects))
	return nil
}

func TestExtract(t *testing.T) {
	objects, progress := extract(t, bundle.Request{Reference: dolphin, Namespace: "sea", CreateNamespace: true})
	want := []string{
		"Namespace /sea",
		"CustomResourceDefinition /dolphins.sea.example.com", "CustomResourceDefinition /fins.sea.example.com",
		"ServiceAccount sea/dolphin", "ClusterRole /dolphin-sea-dolphin", "ClusterRoleBinding /dolphin-sea-dolphin",
		"ConfigMap sea/dolphin-templates", "Deployment sea/dolphin", "Deployment sea/helper",
		"Service sea/dolphin-service", "Service sea/metrics",
		"ValidatingWebhookConfiguration /dolphin-sea-vdolphin.example.com",
		"Certificate sea/dolphin-service-cert", "Issuer sea/dolphin-service", "ConsoleCLIDownload /dolphin",
	}
	if diff := cmp.Diff(want, kinds(objects)); diff != "" {
		t.Error(diff)
	}
	wantProgress := "dolphin 1.2.3: 15 objects for namespace sea\n" +
		"1 objects are of console.openshift.io, which OpenShift serves; elsewhere add --exclude '.apiVersion | startswith(\"console.openshift.io/\")'\n"
	if progress != wantProgress {
		t.Error(progress)
	}
	fewer, progress := extract(t, bundle.Request{
		Reference: dolphin, Namespace: "sea", Watch: []string{"."}, Certificates: bundle.SelfSigned,
		Exclude: []string{`.apiVersion | startswith("console.openshift.io/")`, `.metadata.name == "metrics"`},
	})
	wantFewer := []string{
		"CustomResourceDefinition /dolphins.sea.example.com", "CustomResourceDefinition /fins.sea.example.com",
		"ServiceAccount sea/dolphin", "ClusterRole /dolphin-sea-dolphin", "Role sea/dolphin-dolphin", "ClusterRoleBinding /dolphin-sea-dolphin",
		"RoleBinding sea/dolphin-dolphin", "ConfigMap sea/dolphin-templates", "Secret sea/dolphin-service-cert",
		"Deployment sea/dolphin", "Deployment sea/helper", "Service sea/dolphin-service",
		"ValidatingWebhookConfiguration /dolphin-sea-vdolphin.example.com",
	}
	if diff := cmp.Diff(wantFewer, kinds(fewer)); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(progress, "OpenShift") {
		t.Error(progress)
	}
}

// TestSelfSigned: an API server that trusts the configuration's caBundle trusts the
// certificate in the Secret.
func TestSelfSigned(t *testing.T) {
	objects, _ := extract(t, bundle.Request{Reference: dolphin, Namespace: "sea", Certificates: bundle.SelfSigned})
	data, _, err := unstructured.NestedStringMap(find(t, objects, "Secret", "dolphin-service-cert").Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(decode(t, data["tls.crt"]), decode(t, data["tls.key"]))
	if err != nil {
		t.Fatal(err)
	}
	hooks, _, err := unstructured.NestedSlice(find(t, objects, "ValidatingWebhookConfiguration", "dolphin-sea-vdolphin.example.com").Object, "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	ca, _, _ := unstructured.NestedString(hooks[0].(map[string]any), "clientConfig", "caBundle")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(decode(t, ca)) {
		t.Fatalf("caBundle %q", ca)
	}
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: "dolphin-service.sea.svc", Roots: roots, CurrentTime: at}); err != nil {
		t.Error(err)
	}
	conversion, _, _ := unstructured.NestedString(find(t, objects, "CustomResourceDefinition", "dolphins.sea.example.com").Object,
		"spec", "conversion", "webhook", "clientConfig", "caBundle")
	if conversion != ca {
		t.Error("another authority for the conversion")
	}
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestOutputsAreTheSameObjects(t *testing.T) {
	objects, _ := extract(t, bundle.Request{Reference: dolphin, Namespace: "sea"})
	var first, second, asJSON bytes.Buffer
	again, _ := extract(t, bundle.Request{Reference: dolphin, Namespace: "sea"})
	if err := errors.Join(bundle.WriteYAML(&first, objects), bundle.WriteYAML(&second, again), bundle.WriteJSON(&asJSON, objects)); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Error("another text the second time")
	}
	var list unstructured.UnstructuredList
	if err := list.UnmarshalJSON(asJSON.Bytes()); err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(strings.TrimPrefix(first.String(), "---\n"), "\n---\n")
	dir := filepath.Join(t.TempDir(), "deep", "out")
	if err := bundle.WriteDirectory(dir, objects); err != nil {
		t.Fatal(err)
	}
	names := listed(t, dir)
	if len(documents) != len(objects) || len(list.Items) != len(objects) || len(names) != len(objects) {
		t.Fatalf("%d objects, %d documents, %d items, %d files", len(objects), len(documents), len(list.Items), len(names))
	}
	for i, want := range objects {
		text, err := os.ReadFile(filepath.Join(dir, names[i]))
		if err != nil {
			t.Fatal(err)
		}
		for form, got := range map[string][]byte{"yaml": []byte(documents[i]), "dir": text} {
			var obj unstructured.Unstructured
			data, err := yaml.YAMLToJSON(got)
			if err := errors.Join(err, obj.UnmarshalJSON(data)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Object, obj.Object); diff != "" {
				t.Errorf("%s: %s", form, diff)
			}
		}
		if diff := cmp.Diff(want.Object, list.Items[i].Object); diff != "" {
			t.Errorf("json: %s", diff)
		}
	}
}

func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, each := range entries {
		names = append(names, each.Name())
	}
	return names
}

func TestWriteDirectoryIsAllOrNothing(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "out")
	objects, _ := extract(t, bundle.Request{Reference: dolphin, Namespace: "sea"})
	for _, count := range []int{5, 2} {
		if err := bundle.WriteDirectory(dir, objects[:count]); err != nil {
			t.Fatal(err)
		}
		if names := listed(t, dir); len(names) != count {
			t.Errorf("%v", names)
		}
	}
	if names := listed(t, parent); len(names) != 1 {
		t.Errorf("left beside it: %v", names)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := bundle.WriteDirectory(dir, objects); err == nil || !strings.Contains(err.Error(), "mine.txt, which slipway bundle extract hasn't written") {
		t.Error(err)
	}
	if names := listed(t, dir); len(names) != 3 {
		t.Errorf("%v", names)
	}
	// An object that can't be written leaves nothing.
	bad := &unstructured.Unstructured{Object: map[string]any{"kind": "X", "metadata": map[string]any{"name": "x"}, "bad": func() {}}}
	if err := bundle.WriteDirectory(filepath.Join(parent, "other"), append(objects[:2:2], bad)); err == nil {
		t.Error("it could be written")
	}
	if names := listed(t, parent); len(names) != 1 {
		t.Errorf("left: %v", names)
	}
}

func TestSentences(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.CopyFS(broken, os.DirFS(dolphin)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "manifests", "x.yaml"), []byte("a: [\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		request bundle.Request
		want    string
	}{
		"no CSV":       {bundle.Request{Reference: "testdata", Namespace: "sea"}, "testdata: there is no ClusterServiceVersion"},
		"broken":       {bundle.Request{Reference: broken, Namespace: "sea"}, "manifests/x.yaml can't be read"},
		"certificates": {bundle.Request{Reference: dolphin, Namespace: "sea", Certificates: "mine"}, `--certificates "mine": write cert-manager or self-signed`},
		"exclude":      {bundle.Request{Reference: dolphin, Namespace: "sea", Exclude: []string{".kind =="}}, "isn't a jq expression"},
		"watch":        {bundle.Request{Reference: dolphin, Namespace: "sea", Watch: []string{"a", "b"}}, "doesn't support MultiNamespace; it supports AllNamespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := maker(&bytes.Buffer{}).Extract(t.Context(), test.request)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || objects != nil {
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := maker(&bytes.Buffer{}).Extract(ctx, bundle.Request{Reference: "127.0.0.1:1/a/b:c", Namespace: "sea"}); err == nil {
		t.Error("a cancelled fetch went on")
	}
}
