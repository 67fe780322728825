package platformstack

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/reconcile/stack"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestRights: everything is made with the rights of the stack's account; where they
// don't suffice it says what to do.
func TestRights(t *testing.T) {
	bundle := operator(t, "squid", "1.0.0", "squid.example.com")
	namespace := bed.Namespace(t, kube)
	account := bed.Account(namespace, "installer")
	if err := kube.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	gone(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "installer"}})
	create(t, "rights", `
serviceAccount: {name: installer, namespace: `+namespace+`}
components:
- {name: squid, namespace: rights-squid, source: {bundle: {image: `+bundle+`}}}
`)
	stopped := await(t, "rights", func(s *platformv1alpha1.PlatformStack) string {
		if c := component(s, "squid"); c.Reason != "Forbidden" {
			return "it isn't forbidden"
		}
		return ""
	})
	way := "bind what it takes to ServiceAccount installer in namespace " + namespace + ", and let Slipway impersonate it"
	if c := component(stopped, "squid"); !strings.HasSuffix(c.Message, way) || strings.Contains(c.Message, "\n") {
		t.Errorf("it says %s", c.Message)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "installer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "installer"}},
	}
	if err := kube.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	change(t, "rights", func(s *platformv1alpha1.PlatformStack) {
		s.Annotations = map[string]string{"example.com/look": "again"}
	})
	ready := await(t, "rights", isReady)
	// Without an account it is the rights of whoever runs the engine.
	engine := stack.New(stack.Options{
		Config: config, Client: kube, Charts: registry.New(registry.Options{Now: time.Now}), OwnRights: true, Now: time.Now,
	})
	result, err := engine.Run(t.Context(), ready)
	if err != nil || result.Acted || result.Rights.Impersonate.UserName != "" {
		t.Errorf("%+v %v", result, err)
	}
	live := &corev1.ServiceAccount{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "rights-squid", Name: "squid"}, live); err != nil {
		t.Error(err)
	}
}
