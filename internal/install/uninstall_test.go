package install_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/install"
)

// setStatus changes the status of the release in one of Helm's Secrets: base64
// of gzip of JSON, and a label (Helm: "storage driver").
func setStatus(secret *corev1.Secret, status string) error {
	packed, err := base64.StdEncoding.DecodeString(string(secret.Data["release"]))
	if err != nil {
		return err
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		return err
	}
	var release map[string]any
	if err := json.Unmarshal(content, &release); err != nil {
		return err
	}
	release["info"].(map[string]any)["status"] = status
	if content, err = json.Marshal(release); err != nil {
		return err
	}
	var repacked bytes.Buffer
	writer := gzip.NewWriter(&repacked)
	if _, err := writer.Write(content); err != nil {
		return err
	}
	if err := writer.Close(); err != nil {
		return err
	}
	secret.Data["release"] = []byte(base64.StdEncoding.EncodeToString(repacked.Bytes()))
	secret.Labels["status"] = status
	return nil
}

func (w *world) createModels(count int) {
	w.t.Helper()
	if err := llmv1alpha1.AddToScheme(w.client.Scheme()); err != nil {
		w.t.Fatal(err)
	}
	for i := range count {
		model := &llmv1alpha1.LLMModel{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("model-%d", i)},
			Spec:       llmv1alpha1.LLMModelSpec{ModelName: "m", Image: "i:v1"},
		}
		if err := w.client.Create(w.t.Context(), model); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) gone(name types.NamespacedName, object client.Object) bool {
	w.t.Helper()
	err := w.client.Get(w.t.Context(), name, object)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err != nil
}

func TestUninstallKeepsWhatIsTheUsers(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{Wait: true})
	stays, err := w.installer().Uninstall(t.Context(), install.Removal{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	if !w.gone(types.NamespacedName{Namespace: w.namespace, Name: install.Release}, &appsv1.Deployment{}) ||
		!w.gone(types.NamespacedName{Name: install.Release}, &rbacv1.ClusterRole{}) {
		t.Error("the operator is still there")
	}
	if w.gone(types.NamespacedName{Name: "llmmodels.llm.example.com"}, &apiextensionsv1.CustomResourceDefinition{}) {
		t.Error("the definitions are gone")
	}
	want := []string{
		"kubectl delete crd llmds.components.platform.opendatahub.io datascienceclusters.datasciencecluster.opendatahub.io nvidiagpullms.infra.example.com llmdeployments.llm.example.com llmmodels.llm.example.com platformstacks.platform.slipway.dev simulatordeployments.sim.llm-d.io",
		"kubectl delete namespace " + w.namespace,
	}
	if !slices.EqualFunc(want, stays, func(want, got string) bool { return strings.Contains(got, want) }) {
		t.Errorf("what stays: %q", stays)
	}
	if _, err := w.installer().Uninstall(t.Context(), install.Removal{Timeout: patience}); err != nil || !w.told("isn't installed in namespace "+w.namespace) {
		t.Errorf("a second time: %v, %v", err, w.events)
	}
	if release := w.mustInstall(install.Options{Wait: true}); release.Status != "deployed" {
		t.Errorf("installed again: %+v", release)
	}
}

func TestUninstallOrphansNothing(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{})
	w.createModels(5)
	for _, removal := range []install.Removal{{}, {DeleteDefinitions: true}, {DeleteDefinitions: true, Force: true}} {
		removal.Timeout = patience
		_, err := w.installer().Uninstall(t.Context(), removal)
		var remaining *install.RemainingError
		if !errors.As(err, &remaining) {
			t.Fatalf("%+v: %v", removal, err)
		}
		for _, part := range []string{
			"LLMModel default/model-0, LLMModel default/model-1, LLMModel default/model-2 and others",
			"kubectl delete llmmodels.llm.example.com --all --all-namespaces",
		} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%+v doesn't say %q: %v", removal, part, err)
			}
		}
		if offered := strings.Contains(err.Error(), "--force"); offered == removal.DeleteDefinitions {
			t.Errorf("%+v: --force offered: %t", removal, offered)
		}
	}
	w.deployment()

	if _, err := w.installer().Uninstall(t.Context(), install.Removal{Force: true, Timeout: patience}); err != nil {
		t.Fatal(err)
	}
	if w.gone(types.NamespacedName{Namespace: "default", Name: "model-0"}, &llmv1alpha1.LLMModel{}) {
		t.Error("a model went with the operator")
	}
}

func TestUninstallDeletesDefinitionsWhenToldTo(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{})
	stays, err := w.installer().Uninstall(t.Context(), install.Removal{DeleteDefinitions: true, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	if len(stays) != 1 || !strings.Contains(stays[0], "namespace") {
		t.Errorf("what stays: %q", stays)
	}
}
