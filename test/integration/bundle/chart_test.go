package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/cli/bundle"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/registry"
	source "github.com/slipway-dev/slipway/internal/registry/bundle"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestChartsInstall: Helm installs the charts, and keeps them with their definitions in
// a Secret, which has a bound that definitions may reach.
func TestChartsInstall(t *testing.T) {
	// The first brings the definitions of cert-manager, which the last needs.
	for _, each := range []struct{ reference, namespace string }{
		{filepath.Join(published, "cert-manager-operator"), "chart-cert-manager"},
		{filepath.Join(published, "sail-operator"), "chart-sail"},
		{filepath.Join(published, "lws-operator"), "chart-lws"},
		{ours, "chart-sea"},
	} {
		t.Run(filepath.Base(each.reference), func(t *testing.T) {
			if _, err := os.Stat(filepath.Dir(each.reference)); err != nil {
				t.Skip("the published bundles aren't beside this checkout")
			}
			if _, err := os.Stat(published); err != nil {
				t.Skip("the published bundles, which have cert-manager's definitions, aren't beside this checkout")
			}
			install(t, each.reference, each.namespace)
		})
	}
}

func install(t *testing.T, reference, namespace string) {
	t.Helper()
	kube := bed.Client(t, server)
	if err := kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "chart")
	maker := bundle.Maker{Source: source.Source{Registry: registry.New(registry.Options{Now: time.Now})}, Progress: io.Discard, Now: time.Now}
	if err := maker.Chart(t.Context(), bundle.Request{Reference: reference, Exclude: []string{noConsole}}, dir); err != nil {
		t.Fatal(err)
	}
	chart, err := helm.LoadArchive(packed(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	define(t, chart.CRDs())
	values := map[string]any{"imagePullSecrets": []any{map[string]any{"name": "pull"}}}
	request := helm.Request{Name: "it", Chart: chart, Values: values, Timeout: deadline}
	made, err := helm.New(server, namespace, slog.DiscardHandler, time.Now).Apply(t.Context(), request)
	if err != nil || made.Status != "deployed" {
		t.Fatalf("%s, %v", made.Status, err)
	}
	accounts := &corev1.ServiceAccountList{}
	if err := kube.List(t.Context(), accounts, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, account := range accounts.Items {
		if len(account.ImagePullSecrets) == 1 && account.ImagePullSecrets[0].Name == "pull" {
			own++
		} else if account.Name != "default" {
			t.Errorf("account %s has %v", account.Name, account.ImagePullSecrets)
		}
	}
	if own == 0 {
		t.Error("no account has the pull secret")
	}
}

// define applies definitions, as the documentation says, and waits until they are
// served.
func define(t *testing.T, definitions [][]byte) {
	t.Helper()
	for _, text := range definitions {
		definition := &unstructured.Unstructured{}
		data, err := yaml.YAMLToJSON(text)
		if err := errors.Join(err, definition.UnmarshalJSON(data)); err != nil {
			t.Fatal(err)
		}
		apply(t, []*unstructured.Unstructured{definition})
		await(t, definition.GetAPIVersion(), definition.GetKind(), types.NamespacedName{Name: definition.GetName()}, func(obj *unstructured.Unstructured) bool {
			conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
			return slices.ContainsFunc(conditions, func(c any) bool {
				condition, _ := c.(map[string]any)
				return condition["type"] == "Established" && condition["status"] == "True"
			})
		})
	}
}

// packed is the archive that helm package would make, what .helmignore names left out.
func packed(t *testing.T, dir string) []byte {
	t.Helper()
	var text bytes.Buffer
	zipped := gzip.NewWriter(&text)
	writer := tar.NewWriter(zipped)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Name() == ".slipway":
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := writer.WriteHeader(&tar.Header{Name: "chart/" + name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = writer.Write(data)
		return err
	})
	if err := errors.Join(err, writer.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}
