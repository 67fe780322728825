package install_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/install"
)

// TestTheChartsAccountInstallsNoOperators runs a PlatformStack with the rights of
// the chart's account: what takes no others is made, and of what does it says how to
// allow it.
func TestTheChartsAccountInstallsNoOperators(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{})
	if err := platformv1alpha1.AddToScheme(w.client.Scheme()); err != nil {
		t.Fatal(err)
	}
	log := runAs(t, w.namespace, "system:serviceaccount:"+w.namespace+":"+install.Release)
	stack := &platformv1alpha1.PlatformStack{}
	stack.Name = "own-rights"
	for name, text := range map[string]string{
		"plain":    "{apiVersion: v1, kind: ConfigMap, metadata: {name: plain}}",
		"operator": "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: more}, rules: [{apiGroups: [''], resources: [nodes], verbs: [delete]}]}",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stack.Spec.Components = append(stack.Spec.Components, platformv1alpha1.Component{
			Name: name, Namespace: w.namespace + "-stack", Source: platformv1alpha1.Source{Manifests: &platformv1alpha1.ManifestsSource{Path: dir}},
		})
	}
	if err := w.client.Create(t.Context(), stack); err != nil {
		t.Fatal(err)
	}
	told := func(s *platformv1alpha1.PlatformStack, name string) platformv1alpha1.ComponentStatus {
		for _, each := range s.Status.Components {
			if each.Name == name {
				return each
			}
		}
		return platformv1alpha1.ComponentStatus{}
	}
	await(t, &platformv1alpha1.PlatformStackList{}, stack.Name, "", func(event watch.Event) bool {
		found, ok := event.Object.(*platformv1alpha1.PlatformStack)
		return ok && told(found, "plain").Phase == platformv1alpha1.PhaseReady && strings.HasSuffix(told(found, "operator").Message,
			"to install operators takes rights that Slipway doesn't hold: name a ServiceAccount that does in spec.serviceAccount")
	}, log)
	if err := w.client.Delete(t.Context(), stack); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, &platformv1alpha1.PlatformStackList{}, stack.Name, log)
}
