package integration

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestOneInvalidObjectDoesNotBlockTheOthers, and nothing is pruned meanwhile.
func TestOneInvalidObjectDoesNotBlockTheOthers(t *testing.T) {
	s := newStand(t)
	s.mustApply(bed.ConfigMap(s.namespace, "old", "1"))
	bad := bed.Service(s.namespace, "chat", 99999)
	result, err := s.apply(bed.Account(s.namespace, "chat"), bad, bed.Deployment(s.namespace, "chat", "example/chat:v1", 1))
	outcome := condition.Classify(err)
	want(t, condition.Stopped, outcome.Verdict)
	want(t, condition.ReasonInvalidObject, outcome.Reason)
	if !strings.HasPrefix(outcome.Message, "Service "+s.namespace+"/chat was refused: spec.ports[0].") {
		t.Errorf("it says %q", outcome.Message)
	}
	want(t, map[string]apply.Action{
		"ServiceAccount/chat": apply.Created, "Service/chat": apply.Failed, "Deployment/chat": apply.Created,
	}, actions(result))
	want(t, true, s.exists("old", &corev1.ConfigMap{}))
	want(t, []string{"ServiceAccount/chat", "ConfigMap/old", "Deployment/chat", "Service/chat"}, s.stored())

	s.mustApply(bed.Account(s.namespace, "chat"))
	want(t, map[string]bool{"ConfigMap/owner": true, "ServiceAccount/chat": true},
		names(bed.Picture(t, s.others, s.namespace, s.owner)))
}

// TestSentences has a row for each way in which the server refuses an object.
func TestSentences(t *testing.T) {
	unknownField := func(s *stand) []*unstructured.Unstructured {
		wanted := bed.Want(s.T, bed.Deployment(s.namespace, "chat", "example/chat:v1", 1))
		_ = unstructured.SetNestedField(wanted[0].Object, "x", "spec", "replica")
		return wanted
	}
	for _, test := range []struct {
		name    string
		wanted  func(s *stand) []*unstructured.Unstructured
		verdict condition.Verdict
		reason  string
		says    string
		again   bool
	}{
		{"a field that doesn't exist", unknownField, condition.Stopped, condition.ReasonInvalidObject, "spec.replica", false},
		{"a kind that isn't served", func(s *stand) []*unstructured.Unstructured {
			custom := bed.Want(s.T, bed.ConfigMap(s.namespace, "x", "1"))
			custom[0].SetAPIVersion("example.com/v1")
			custom[0].SetKind("Nothing")
			return custom
		}, condition.Waiting, condition.ReasonAPINotServed,
			"Nothing NAMESPACE/x can't be made: this cluster serves no Nothing of example.com/v1; install what provides it", true},
		{"a namespace that doesn't exist", func(s *stand) []*unstructured.Unstructured {
			return bed.Want(s.T, bed.ConfigMap(s.namespace+"-not", "x", "1"))
		}, condition.Waiting, condition.ReasonDependencyNotFound,
			"ConfigMap NAMESPACE-not/x can't be made: namespace NAMESPACE-not doesn't exist; create it", true},
		{"no namespace", func(s *stand) []*unstructured.Unstructured { return bed.Want(s.T, bed.ConfigMap("", "x", "1")) },
			condition.Stopped, condition.ReasonInvalidObject, "ConfigMap x has no namespace; set metadata.namespace", false},
		{"a needless namespace", func(s *stand) []*unstructured.Unstructured {
			role := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}}
			role.Name, role.Namespace = "bed", s.namespace
			return bed.Want(s.T, role)
		}, condition.Stopped, condition.ReasonInvalidObject, "a ClusterRole belongs to no namespace; remove metadata.namespace from bed", false},
		{"a full quota", func(s *stand) []*unstructured.Unstructured {
			fillQuota(s)
			return bed.Want(s.T, bed.Account(s.namespace, "free"), bed.Service(s.namespace, "chat", 80))
		}, condition.Waiting, condition.ReasonQuotaExceeded, "raise the quota or free some of it", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStand(t)
			result, err := s.engine.Apply(t.Context(), apply.Owner{Object: s.owner}, s.inventory, test.wanted(s))
			outcome := condition.Classify(err)
			want(t, test.verdict, outcome.Verdict)
			want(t, test.reason, outcome.Reason)
			want(t, nil, outcome.Retry)
			want(t, test.again, result.Again > 0)
			if says := strings.ReplaceAll(outcome.Message, s.namespace, "NAMESPACE"); !strings.Contains(says, test.says) {
				t.Errorf("it says %q, want %q", says, test.says)
			}
		})
	}
}

// fillQuota allows no Service, and does the quota controller's part of it.
func fillQuota(s *stand) {
	s.Helper()
	none := corev1.ResourceList{"services": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: none},
	}
	s.create(quota)
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	if err := s.others.Status().Update(s.Context(), quota); err != nil {
		s.Fatal(err)
	}
}

// TestImmutableFieldOfAKindThatIsNeverReplaced: the sentence names the field,
// and the object stays.
func TestImmutableFieldOfAKindThatIsNeverReplaced(t *testing.T) {
	s := newStand(t)
	wanted := bed.Deployment(s.namespace, "chat", "example/chat:v1", 1)
	s.mustApply(wanted)
	before := get(s, "chat", &appsv1.Deployment{})
	wanted.Spec.Selector.MatchLabels["more"] = "1"
	wanted.Spec.Template.Labels["more"] = "1"
	_, err := s.apply(wanted)
	outcome := condition.Classify(err)
	want(t, condition.ReasonImmutableField, outcome.Reason)
	want(t, "Deployment NAMESPACE/chat can't be changed: spec.selector can't be changed once it is set; "+
		"change it back, or delete Deployment NAMESPACE/chat and it is made anew", strings.ReplaceAll(outcome.Message, s.namespace, "NAMESPACE"))
	want(t, before.UID, get(s, "chat", &appsv1.Deployment{}).UID)
}

// TestReplaceableKindsAreReplaced when the server names an immutable field: a
// binding at once, a Job when its pods are gone.
func TestReplaceableKindsAreReplaced(t *testing.T) {
	s := newStand(t)
	binding := &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
		ObjectMeta: bed.Meta(s.namespace, "chat", "owner"),
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "one"},
	}
	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: bed.Meta(s.namespace, "fetch", "owner"),
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "fetch", Image: "fetch:v1"}},
		}}},
	}
	s.mustApply(binding, job)
	old := get(s, "fetch", &batchv1.Job{})
	binding.RoleRef.Name = "two"
	job.Spec.Template.Spec.Containers[0].Image = "fetch:v2"

	preview, err := s.engine.Plan(t.Context(), apply.Owner{Object: s.owner}, s.inventory, bed.Want(t, binding, job))
	if err != nil {
		t.Fatal(err)
	}
	want(t, []string{"replaced, since roleRef can't be changed", "replaced, since spec.template can't be changed"},
		[]string{preview[0].Message, preview[1].Message})

	result, err := s.apply(binding, job)
	want(t, map[string]apply.Action{"RoleBinding/chat": apply.Configured, "Job/fetch": apply.Failed}, actions(result))
	want(t, "two", get(s, "chat", &rbacv1.RoleBinding{}).RoleRef.Name)
	if !condition.IsWait(err) || !strings.Contains(err.Error(), "is being replaced, since spec.template can't be changed; waiting until the old one is gone") {
		t.Errorf("got %v", err)
	}
	// The garbage collector, which this API server doesn't have.
	live := get(s, "fetch", &batchv1.Job{})
	want(t, old.UID, live.UID)
	want(t, true, live.DeletionTimestamp != nil)
	s.change(live, func() { live.Finalizers = nil })
	want(t, apply.Created, s.mustApply(binding, job)["Job/fetch"])
	want(t, "fetch:v2", get(s, "fetch", &batchv1.Job{}).Spec.Template.Spec.Containers[0].Image)
}
