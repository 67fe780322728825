package llmd

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/llmd"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// isAt is for an Llmd whose one release is ready in a version.
func isAt(version string) func(*componentsv1alpha1.Llmd) string {
	return func(l *componentsv1alpha1.Llmd) string {
		if l.Status.Infra == nil || l.Status.Infra.Version != version {
			return "it isn't at " + version
		}
		return isReady(l)
	}
}

// definition is that of the fixture's chart; nil if it isn't there.
func definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	found := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.stack.example.com"}}
	err := kube.Get(t.Context(), client.ObjectKeyFromObject(found), found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// sizes are the properties of a definition's spec.
func sizes(of *apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
	if of == nil {
		return nil
	}
	return of.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
}

// TestDefinitionsByPolicy: Skip leaves a chart's definitions alone, Create makes
// those that are missing, CreateReplace brings them up to date, and none is
// deleted with the release.
func TestDefinitionsByPolicy(t *testing.T) {
	if old := definition(t); old != nil {
		if err := kube.Delete(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		bed.AwaitGone(t, kube, old, &apiextensionsv1.CustomResourceDefinitionList{})
	}
	made := alone(t, "definitions", charts(t, "1.0.0", "1.1.0", "1.2.0", "1.3.0"))
	made.Spec.Infra.CRDs = componentsv1alpha1.CRDsSkip
	create(t, made)
	upgrade := func(version string, policy componentsv1alpha1.CRDsPolicy) {
		t.Helper()
		change(t, func(s *componentsv1alpha1.LlmdSpec) { s.Infra.Version, s.Infra.CRDs = version, policy })
		awaitLlmd(t, isAt(version))
	}
	awaitLlmd(t, isAt("1.0.0"))
	if definition(t) != nil {
		t.Error("Skip made the definition")
	}
	upgrade("1.1.0", componentsv1alpha1.CRDsCreate)
	if len(sizes(definition(t))) != 1 {
		t.Fatal("Create didn't make the definition")
	}
	// An older one: without the field.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		old := definition(t)
		delete(sizes(old), "size")
		return kube.Update(t.Context(), old)
	})
	if err != nil {
		t.Fatal(err)
	}
	upgrade("1.2.0", componentsv1alpha1.CRDsCreate)
	if len(sizes(definition(t))) != 0 {
		t.Error("Create replaced the definition")
	}
	upgrade("1.3.0", componentsv1alpha1.CRDsCreateReplace)
	if len(sizes(definition(t))) != 1 {
		t.Error("CreateReplace left an old definition")
	}
	remove(t, made)
	if definition(t) == nil {
		t.Error("the definition went with the release")
	}
}

// TestActsAsAServiceAccount: a release is made with the account's rights. The one
// that is missing and the account are named in one line.
func TestActsAsAServiceAccount(t *testing.T) {
	namespace := bed.Namespace(t, kube)
	named := metav1.ObjectMeta{Namespace: namespace, Name: "deployer"}
	role := &rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "serviceaccounts"}, Verbs: []string{"*"}},
		{APIGroups: []string{"apps", "policy", "networking.k8s.io", "rbac.authorization.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}}
	inNamespace(t, namespace, &corev1.ServiceAccount{ObjectMeta: named}, role, &rbacv1.RoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: named.Namespace, Name: named.Name}},
	})
	made := alone(t, namespace, "")
	made.Spec.ServiceAccountName, made.Spec.Infra.CRDs = named.Name, componentsv1alpha1.CRDsSkip
	create(t, made)
	refused := awaitLlmd(t, says("Forbidden", `services "llmd-infra-stack" is forbidden`, "system:serviceaccount:"+namespace+":deployer", `"services"`, "allow it to service account deployer"))
	if text := refused.Status.Conditions[0].Message; strings.Contains(text, "\n") {
		t.Errorf("it says in more than one line %q", text)
	}
	role.Rules[0].Resources = append(role.Rules[0].Resources, "services")
	if err := kube.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	// Nobody watches rights; the user asks for another try.
	before := refused.DeepCopy()
	refused.Annotations = map[string]string{llmd.AnnotationRetry: "allowed"}
	if err := kube.Patch(t.Context(), refused, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	awaitLlmd(t, isReady)
	if got := records(t, namespace); len(got) != 1 || got[0] != "llmd-infra 1 deployed" {
		t.Errorf("records: %v", got)
	}
}

// TestRolledBackByHand: after helm rollback the status says who went back to what
// and what happens next, which the next change of the spec does.
func TestRolledBackByHand(t *testing.T) {
	create(t, alone(t, "by-hand", ""))
	awaitLlmd(t, isAt("1.0.0"))
	change(t, func(s *componentsv1alpha1.LlmdSpec) { s.Infra.Version = "1.1.0" })
	awaitLlmd(t, isAt("1.1.0"))
	helm := fixture.NewCommand(t, config)
	helm.Run("rollback", "llmd-infra", "1", "--namespace", "by-hand")
	back := awaitLlmd(t, says("RolledBackByHand",
		"infra: someone rolled back to revision 1 with helm; it stays until the spec, version or values change"))
	if of := back.Status.Infra; of.Version != "1.0.0" || of.Revision != 3 || of.LastAction != "Rollback" || of.LastActionResult != "deployed" {
		t.Errorf("status: %+v", of)
	}
	change(t, func(s *componentsv1alpha1.LlmdSpec) { s.Infra.Values = raw(t, map[string]any{"port": 9000}) })
	next := awaitLlmd(t, isAt("1.1.0"))
	if of := next.Status.Infra; of.Revision != 4 || of.LastAction != "Upgrade" {
		t.Errorf("status after the change: %+v", of)
	}
	if history := helm.Run("history", "llmd-infra", "--namespace", "by-hand"); strings.Count(history, "stack-1.1.0") != 2 || !strings.Contains(history, "Rollback to 1") {
		t.Errorf("helm history says:\n%s", history)
	}
}
