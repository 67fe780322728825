package simulatordeployment

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/diagnosis"
)

// The troubleshooting sections of the specification, broken on purpose and read
// from conditions. The third, Istio that isn't there, is TestIstioArrives.

// TestPickerMayNot: a picker that doesn't come up, and whose account lacks the
// rights, says which. The API server itself is asked; the account has the rights
// as soon as the name of its binding is free.
func TestPickerMayNot(t *testing.T) {
	ns := namespace(t)
	other := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gaie-sim-epp"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "other"},
	}
	create(t, other)
	applied := sample(t, "_full", ns)
	applied.Spec.EPP.Resources = tooLarge()
	create(t, applied)
	await(t, ns, applied.Name, says(simv1alpha1.ConditionPickerReady, "PickerForbidden",
		"the picker's ServiceAccount gaie-sim-epp may not list pods in namespace "+ns+", so it finds no pods; "+
			"remove what takes that right from Role and RoleBinding gaie-sim-epp"))
	if err := kube.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	await(t, ns, applied.Name, says(simv1alpha1.ConditionPickerReady, diagnosis.ReasonInsufficientResources, "spec.epp.resources"))
	patch(t, ns, applied.Name, `{"spec":{"epp":{"resources":{"requests":{"cpu":"1m"}}}}}`)
	await(t, ns, applied.Name, isReady)
}

// tooLarge finds no place on the simulated node.
func tooLarge() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9999")}}
}

// TestServiceLeadsElsewhere: a port that someone changes once is written back
// (TestDriftIsPutBack); one that is changed with every write is told.
func TestServiceLeadsElsewhere(t *testing.T) {
	ns := namespace(t)
	stop := changeGatewayPort(t, ns)
	applied := sample(t, "_full", ns)
	create(t, applied)
	const fault = "Service infra-sim-inference-gateway leads from port 8080 to port 8080 of the pods, " +
		"and was written to lead from port 8080 to port 80 of the pods; find what changes it, such as a webhook"
	await(t, ns, applied.Name, says(simv1alpha1.ConditionStandardGatewayReady, "ServicePortChanged", fault))
	await(t, ns, applied.Name, says(condition.Ready, "ServicePortChanged", "standard gateway: "+fault))
	stop()
	if err := kube.Delete(t.Context(), one(t, ns, made[2], "infra-sim-inference-gateway")); err != nil {
		t.Fatal(err)
	}
	await(t, ns, applied.Name, isReady)
}

// changeGatewayPort serves a webhook that gives the standard gateway's Service the
// port that nobody listens on. It returns what ends that.
func changeGatewayPort(t *testing.T, namespace string) (stop func()) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		patchType := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, PatchType: &patchType,
			Patch: []byte(`[{"op":"replace","path":"/spec/ports/0/targetPort","value":8080}]`),
		}
		_ = json.NewEncoder(w).Encode(review) // the API server has gone
	}))
	t.Cleanup(server.Close)
	made := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "port-of-" + namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "port.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/component": "standard-gateway"}},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	create(t, made)
	stop = func() {
		// The test's context may have ended.
		if err := kube.Delete(context.Background(), made); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete the webhook: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// TestFormerObjectsAreWaitedFor: what the spec asks for serves, so that Ready is
// true; but an object of the former spec isn't gone yet, and that is said.
func TestFormerObjectsAreWaitedFor(t *testing.T) {
	const held = "infra-sim-inference-gateway-istio"
	ns := namespace(t)
	applied := sample(t, "_full", ns)
	create(t, applied)
	await(t, ns, applied.Name, isReady)
	finalizers := func(list string) {
		t.Helper()
		text := `{"metadata":{"finalizers":` + list + `}}`
		if err := kube.Patch(t.Context(), one(t, ns, made[1], held), client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	finalizers(`["example.com/hold"]`)
	patch(t, ns, applied.Name, `{"spec":{"inferenceGateway":{"istio":{"enabled":false}}}}`)
	got := await(t, ns, applied.Name, says(condition.Reconciling, condition.ReasonTerminating,
		"waiting until ConfigMap "+ns+"/"+held+" of the former spec is gone"))
	if isReady(got) != "" {
		t.Errorf("what the spec asks for serves: %s", isReady(got))
	}
	finalizers("null")
	await(t, ns, applied.Name, func(d *simv1alpha1.SimulatorDeployment) string {
		if condition.Find(d.Status.Conditions, condition.Reconciling) != nil {
			return told(d, condition.Reconciling)
		}
		return isReady(d)
	})
}

// TestServiceOfAPart: a Service with the name of a part's own is refused in one
// line, and nothing is made.
func TestServiceOfAPart(t *testing.T) {
	ns := namespace(t)
	applied := sample(t, "_full", ns)
	applied.Spec.Service = &simv1alpha1.ServiceConfig{Name: "gaie-sim-epp"}
	create(t, applied)
	got := await(t, ns, applied.Name, says(condition.Stalled, condition.ReasonInvalidSpec,
		"spec.service.name gives the Service the name gaie-sim-epp, which the Service of the picker has; write another one"))
	if len(got.Status.Inventory) != 0 {
		t.Errorf("it has taken %v", got.Status.Inventory)
	}
	patch(t, ns, applied.Name, `{"spec":{"service":{"name":"front"}}}`)
	await(t, ns, applied.Name, isReady)
}
