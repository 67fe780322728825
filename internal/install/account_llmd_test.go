package install_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/install"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// TestTheChartsAccountReleasesCharts runs an Llmd with the rights of the chart's
// account: a chart with what the charts of llm-d make, released, upgraded and
// uninstalled. It makes a NetworkPolicy too, which theirs don't, so that right is
// added.
func TestTheChartsAccountReleasesCharts(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{})
	if err := componentsv1alpha1.AddToScheme(w.client.Scheme()); err != nil {
		t.Fatal(err)
	}
	grant(t, w, rbacv1.PolicyRule{
		APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"},
		Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	})
	log := runAs(t, w.namespace, "system:serviceaccount:"+w.namespace+":"+install.Release)
	dir, off := t.TempDir(), false
	if err := os.WriteFile(filepath.Join(dir, "stack-1.0.0.tgz"), fixture.Archive(t, "1.0.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	resource := &componentsv1alpha1.Llmd{ObjectMeta: metav1.ObjectMeta{Name: componentsv1alpha1.LlmdName}}
	resource.Spec.Infra = &componentsv1alpha1.ChartSpec{Enabled: &off}
	resource.Spec.GatewayAPI = &componentsv1alpha1.ChartSpec{Enabled: &off}
	resource.Spec.ModelService = &componentsv1alpha1.ChartSpec{
		Chart: fixture.Name, Repository: &componentsv1alpha1.Repository{URL: dir},
		Values: &runtime.RawExtension{Raw: []byte(`{"with":{"hook":true}}`)},
	}
	if err := w.client.Create(t.Context(), resource); err != nil {
		t.Fatal(err)
	}
	for revision := int64(1); revision <= 2; revision++ {
		await(t, &componentsv1alpha1.LlmdList{}, resource.Name, "", func(event watch.Event) bool {
			found, ok := event.Object.(*componentsv1alpha1.Llmd)
			return ok && meta.IsStatusConditionTrue(found.Status.Conditions, "Ready") &&
				found.Status.ModelService != nil && found.Status.ModelService.Revision == revision
		}, log)
		if err := w.client.Patch(t.Context(), resource, client.RawPatch(types.MergePatchType,
			[]byte(`{"spec":{"modelService":{"values":{"settings":{"greeting":"again"}}}}}`))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.client.Delete(t.Context(), resource); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, &componentsv1alpha1.LlmdList{}, resource.Name, log)
	if text := log.String(); strings.Contains(text, "forbidden") {
		t.Errorf("a right is missing:\n%s", text)
	}
}

// grant adds a right to the chart's account.
func grant(t *testing.T, w *world, rule rbacv1.PolicyRule) {
	t.Helper()
	name := metav1.ObjectMeta{Name: w.namespace + "-more"}
	for _, each := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: name,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: install.Release}},
		},
	} {
		if err := w.client.Create(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
}
