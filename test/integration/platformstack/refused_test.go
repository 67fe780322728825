package platformstack

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile/stack"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestAStoredVersionIsNotTakenAway: an upgrade that no longer knows a version in which
// objects are stored is refused, whatever anyone approves, and what runs goes on.
func TestAStoredVersionIsNotTakenAway(t *testing.T) {
	const group = "pike.example.com"
	first, later := operator(t, "pike", "1.0.0", group), operator(t, "pike", "2.0.0", group)
	written(t, later, "manifests/crd.yaml", strings.Replace(definition(group), "name: v1\n", "name: v2\n", 1))
	gone(t, defined(group))
	create(t, "stored", "components:\n- name: pike\n  namespace: stored-pike\n  approval: Automatic\n  source: {bundle: {image: "+first+"}}\n")
	await(t, "stored", isReady)
	use := func(dir string) {
		change(t, "stored", func(s *platformv1alpha1.PlatformStack) {
			s.Spec.Components[0].Source.Bundle.Image = dir
			s.Annotations = map[string]string{platformv1alpha1.AnnotationApprove: "pike=yes"}
		})
	}
	use(later)
	refused := component(await(t, "stored", isIn("pike Failed")), "pike")
	want := "things." + group + " no longer has version v1, in which its objects are stored"
	if refused.Reason != stack.ReasonLosesData || !strings.Contains(refused.Message, want) || refused.Version != "1.0.0" {
		t.Errorf("%+v", refused)
	}
	live := &appsv1.Deployment{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "stored-pike", Name: "pike"}, live); err != nil || live.Spec.Template.Spec.Containers[0].Image != "example.com/pike:1.0.0" {
		t.Errorf("what ran doesn't: %v, %v", live.Spec.Template.Spec.Containers, err)
	}
	if got := records(t, "stored-pike"); len(got) != 1 {
		t.Errorf("%v", got)
	}
	use(first)
	await(t, "stored", isReady)
}

// TestAHookHasItsTime: one that never comes true ends with its time and says so, what
// depends on the component waits, and all goes on when it comes true after all.
func TestAHookHasItsTime(t *testing.T) {
	plain := written(t, t.TempDir(), "all.yaml", deployment("base", "example.com/base:1"))
	above := written(t, t.TempDir(), "all.yaml", deployment("above", "example.com/above:1"))
	gone(t, bed.ConfigMap("late-base", "late", ""))
	create(t, "late", `
components:
- name: base
  namespace: late-base
  source: {manifests: {path: `+plain+`}}
  hooks:
    after:
    - name: never
      wait: {apiVersion: v1, kind: ConfigMap, namespace: late-base, name: late, timeout: 2s}
- {name: above, namespace: late-above, dependsOn: [base], source: {manifests: {path: `+above+`}}}
`)
	const says = "hook never: ConfigMap late-base/late isn't there yet, after 2s; it goes on when it is"
	late := await(t, "late", isIn("base Failed", "above Waiting"))
	if c := component(late, "base"); c.Reason != stack.ReasonHookTimedOut || c.Message != says {
		t.Errorf("it says %s: %s", c.Reason, c.Message)
	}
	if ready := condition.Find(late.Status.Conditions, condition.Ready); !strings.HasPrefix(ready.Message, "base: "+says) {
		t.Errorf("it says %s", ready.Message)
	}
	if waits := component(late, "above"); len(waits.WaitsFor) != 1 || waits.WaitsFor[0] != "base" || len(records(t, "late-above")) > 0 {
		t.Errorf("%+v", waits)
	}
	if err := kube.Create(t.Context(), bed.ConfigMap("late-base", "late", "")); err != nil {
		t.Fatal(err)
	}
	await(t, "late", isReady)
}

// TestADeletionLetsGo: what can't be uninstalled keeps a deleted stack for half an hour
// and no longer, and what is left is named.
func TestADeletionLetsGo(t *testing.T) {
	plain := written(t, t.TempDir(), "all.yaml", deployment("plain", "example.com/plain:1"))
	namespace := bed.Namespace(t, kube)
	if err := kube.Create(t.Context(), bed.Account(namespace, "leaver")); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "leaver"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "leaver"}},
	}
	if err := kube.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	record := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "leave-plain", Name: "sh.helm.release.v1.plain.v1"}}
	gone(t, record, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "leave-plain", Name: "plain"}})
	made := create(t, "leave", `
serviceAccount: {name: leaver, namespace: `+namespace+`}
components:
- {name: plain, namespace: leave-plain, source: {manifests: {path: `+plain+`}}}
`)
	await(t, "leave", isReady)
	if err := kube.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	awaitRightless(t, "system:serviceaccount:"+namespace+":leaver") // so that it can uninstall nothing
	if err := kube.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	await(t, "leave", func(s *platformv1alpha1.PlatformStack) string {
		ready := condition.Find(s.Status.Conditions, condition.Ready)
		if c := component(s, "plain"); c.Phase != platformv1alpha1.PhaseRemoving || c.Reason != condition.ReasonForbidden || ready.Reason != condition.ReasonTerminating {
			return "it isn't told"
		}
		return ""
	})
	if left := passAt(t, "leave", stack.TeardownDeadline-time.Minute); len(left) > 0 {
		t.Fatalf("too early it lets go of %v", left)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil {
		t.Fatal(err)
	}
	left := passAt(t, "leave", stack.TeardownDeadline+time.Minute)
	if len(left) != 1 || left[0].Name != "plain" || left[0].Namespace != "leave-plain" {
		t.Errorf("left: %v", left)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(made), made); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
	// What is left can be removed with helm: its record is there.
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(record), record); err != nil {
		t.Error(err)
	}
}

// awaitRightless waits until a user may do nothing: the authorizer reads roles from a
// watch.
func awaitRightless(t *testing.T, user string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	none := polled(ctx, func() bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
		}}
		return kube.Create(ctx, review) == nil && !review.Status.Allowed
	})
	if !none {
		t.Fatalf("%s still has rights", user)
	}
}

// passAt makes a pass over a stack as if it were so much later, and gives the releases
// that it leaves. The operator works at the same time: who comes second comes again.
func passAt(t *testing.T, name string, later time.Duration) []platformv1alpha1.StackRelease {
	t.Helper()
	engine := stack.New(stack.Options{
		Config: config, Client: kube, Charts: registry.New(registry.Options{Now: time.Now}),
		Now: func() time.Time { return time.Now().Add(later) },
	})
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var result stack.Result
	made := polled(ctx, func() bool {
		live := &platformv1alpha1.PlatformStack{}
		err := kube.Get(ctx, client.ObjectKey{Name: name}, live)
		if err == nil {
			result, err = engine.Run(ctx, live)
		}
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	if !made {
		t.Fatal("no pass was made")
	}
	return result.Left
}
