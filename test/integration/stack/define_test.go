package stack

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/cli/stack"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/test/bed"
)

const (
	// deadline of whatever is awaited.
	deadline = 90 * time.Second

	bundles = "../../../../shared/bundles"
	crds    = "../../../../shared/crds"
)

// TestDefineAndWrite: a cluster that knows nothing of Slipway takes a stack.
func TestDefineAndWrite(t *testing.T) {
	kube := bed.Client(t, server)
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "platformstacks.platform.slipway.dev"}}
	had := kube.Get(t.Context(), client.ObjectKeyFromObject(definition), definition) == nil
	made, err := stack.Define(t.Context(), kube)
	if err != nil || made == had {
		t.Fatalf("made %v where it was there: %v; %v", made, had, err)
	}
	if made, err := stack.Define(t.Context(), kube); err != nil || made {
		t.Fatalf("made %v the second time, %v", made, err)
	}
	// Every preset and flavor passes the definition.
	for _, flavor := range append([]string{""}, stack.Flavors("xks")...) {
		wanted, err := stack.Preset("xks", flavor)
		if err != nil {
			t.Fatal(err)
		}
		wanted.Name = "written"
		written, err := stack.Write(t.Context(), kube, wanted, false)
		if err != nil || len(written.Spec.Components) != len(wanted.Spec.Components) {
			t.Fatalf("%s: %v", flavor, err)
		}
	}
	other := &platformv1alpha1.PlatformStack{ObjectMeta: metav1.ObjectMeta{Name: "written"}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"pullSecrets":[]}}`))
	if err := kube.Patch(t.Context(), other, patch, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	wanted, err := stack.Preset("xks", "")
	if err != nil {
		t.Fatal(err)
	}
	wanted.Name = "written"
	if _, err := stack.Write(t.Context(), kube, wanted, false); err == nil || !strings.Contains(err.Error(), "--force-conflicts") {
		t.Error(err)
	}
	if written, err := stack.Write(t.Context(), kube, wanted, true); err != nil || len(written.Spec.PullSecrets) != 1 {
		t.Error(err)
	}
	if err := kube.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	wanted.Spec.Components = append(wanted.Spec.Components, wanted.Spec.Components[0])
	if _, err := stack.Write(t.Context(), kube, wanted, true); !apierrors.IsInvalid(err) {
		t.Errorf("two components of one name: %v", err)
	}
}

// TestSampleIsAccepted: KServe's own definition takes the sample.
func TestSampleIsAccepted(t *testing.T) {
	file := filepath.Join(crds, "serving.kserve.io_llminferenceservices.yaml")
	if _, err := os.Stat(file); err != nil {
		t.Skip("the published definitions aren't beside this checkout")
	}
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{file}, ErrorIfPathMissing: true, MaxTime: deadline}); err != nil {
		t.Fatal(err)
	}
	text, err := stack.Sample("xks")
	if err != nil {
		t.Fatal(err)
	}
	sample := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &sample.Object); err != nil {
		t.Fatal(err)
	}
	kube := bed.Client(t, server)
	sample.SetNamespace(bed.Namespace(t, kube))
	strict := client.FieldValidation(metav1.FieldValidationStrict)
	if err := kube.Create(t.Context(), sample, client.DryRunAll, strict); err != nil {
		t.Error(err)
	}
}

func TestLogin(t *testing.T) {
	kube := bed.Client(t, server)
	wanted := &platformv1alpha1.PlatformStack{ObjectMeta: metav1.ObjectMeta{Name: "login"}}
	find := func(_ context.Context, host, _ string) (registry.Credentials, error) {
		if host == "nobody.example" {
			return registry.Credentials{}, nil
		}
		return registry.Credentials{Username: "me", Password: "hunter2 of " + host}, nil
	}
	if _, err := stack.FindLogins(t.Context(), wanted, []string{"a.example"}, find); err == nil || !strings.Contains(err.Error(), "names no Secret") {
		t.Error(err)
	}
	wanted.Spec.PullSecrets = []platformv1alpha1.PullSecret{{Name: "pull", Namespace: "login-" + strings.ToLower(t.Name())}}
	for _, hosts := range [][]string{{"a.example"}, {"b.example"}, {"a.example", "b.example"}} {
		logins, err := stack.FindLogins(t.Context(), wanted, hosts, find)
		if err != nil {
			t.Fatal(err)
		}
		if err := stack.Login(t.Context(), kube, wanted, logins); err != nil {
			t.Fatal(err)
		}
	}
	_, err := stack.FindLogins(t.Context(), wanted, []string{"nobody.example"}, find)
	if err == nil || !strings.Contains(err.Error(), "podman login nobody.example") {
		t.Error(err)
	}
	secret := &corev1.Secret{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: wanted.Spec.PullSecrets[0].Namespace, Name: "pull"}, secret); err != nil {
		t.Fatal(err)
	}
	text := string(secret.Data[corev1.DockerConfigJsonKey])
	for _, host := range []string{"a.example", "b.example"} {
		if entry := base64.StdEncoding.EncodeToString([]byte("me:hunter2 of " + host)); !strings.Contains(text, entry) {
			t.Errorf("nothing for %s", host)
		}
	}
	if secret.Type != corev1.SecretTypeDockerConfigJson {
		t.Error(secret.Type)
	}
}
