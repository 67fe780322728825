package llmd

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// repository serves the fixture's chart over TLS to who knows the password. It is
// down when told so.
func repository(t *testing.T, down *atomic.Bool) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		user, password, _ := request.BasicAuth()
		switch {
		case down.Load():
			http.Error(w, "down", http.StatusServiceUnavailable)
		case user != "me" || password != "right-one":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		case request.URL.Path == "/index.yaml":
			fmt.Fprint(w, "apiVersion: v1\nentries:\n  stack:\n  - {name: stack, version: 1.0.0, urls: [stack-1.0.0.tgz]}\n")
		case request.URL.Path == "/stack-1.0.0.tgz":
			_, _ = w.Write(fixture.Archive(t, "1.0.0")) // who hung up needs none
		default:
			http.NotFound(w, request)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// alone is an Llmd of one release.
func alone(t *testing.T, namespace, url string) *componentsv1alpha1.Llmd {
	t.Helper()
	off := false
	made := resource(t, namespace)
	made.Spec.GatewayAPI.Enabled, made.Spec.ModelService.Enabled = &off, &off
	if url != "" {
		made.Spec.Infra.Repository.URL = url
	}
	return made
}

func says(reason string, words ...string) func(*componentsv1alpha1.Llmd) string {
	return func(l *componentsv1alpha1.Llmd) string {
		ready := condition.Find(l.Status.Conditions, condition.Ready)
		for _, word := range words {
			if !strings.Contains(ready.Message, word) {
				return "it doesn't say " + word
			}
		}
		if ready.Reason != reason {
			return "the reason isn't " + reason
		}
		return ""
	}
}

func inNamespace(t *testing.T, name string, objects ...client.Object) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := kube.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	for _, each := range objects {
		if err := kube.Create(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRepositoryWithALogin(t *testing.T) {
	down := &atomic.Bool{}
	server := repository(t, down)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "login", Name: "login"}, StringData: map[string]string{"username": "me", "password": "wrong-one"}}
	inNamespace(t, "login", login,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "login", Name: "authority"}, Data: map[string][]byte{"ca.crt": authority}})
	made := alone(t, "login", server.URL)
	create(t, made)
	awaitLlmd(t, says("ChartUnavailable", server.URL))
	change(t, func(s *componentsv1alpha1.LlmdSpec) {
		s.Infra.Repository.SecretRef = &componentsv1alpha1.SecretReference{Name: "login"}
		s.Infra.Repository.CASecretRef = &componentsv1alpha1.SecretReference{Name: "authority"}
	})
	refused := awaitLlmd(t, says("ChartUnavailable", "refuses the credentials; correct the Secret"))
	if strings.Contains(told(refused), "wrong-one") {
		t.Error("the status quotes the password")
	}
	login.StringData = map[string]string{"password": "right-one"}
	if err := kube.Update(t.Context(), login); err != nil {
		t.Fatal(err)
	}
	awaitLlmd(t, isReady)

	// A repository that is down disturbs nothing that runs, and what needs it says so.
	down.Store(true)
	change(t, func(s *componentsv1alpha1.LlmdSpec) { s.Infra.Version = "2.0.0" })
	waits := awaitLlmd(t, says("ChartUnavailable", server.URL))
	if waits.Status.Infra.Version != "1.0.0" || waits.Status.Infra.Revision != 1 {
		t.Errorf("what runs was touched: %+v", waits.Status.Infra)
	}
	change(t, func(s *componentsv1alpha1.LlmdSpec) { s.Infra.Version = "1.0.0" })
	awaitLlmd(t, isReady)
}

// TestAlerts come where the cluster serves the Prometheus operator's API, and are
// put back when someone deletes them.
func TestAlerts(t *testing.T) {
	create(t, alone(t, "alerts", ""))
	awaitLlmd(t, isReady)
	rules := schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"}
	preserve := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheusrules.monitoring.coreos.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: rules.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "prometheusrules", Singular: "prometheusrule", Kind: rules.Kind, ListKind: "PrometheusRuleList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
			}},
		},
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}}); err != nil {
		t.Fatal(err)
	}
	awaitLlmd(t, func(l *componentsv1alpha1.Llmd) string {
		if len(l.Status.Inventory) != 1 {
			return "no alerts"
		}
		return isReady(l)
	})
	made, list := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	made.SetGroupVersionKind(rules)
	made.SetNamespace("alerts")
	made.SetName("llmd-rules")
	list.SetGroupVersionKind(rules)
	first := bed.Await(t, kube, made, list, func(u *unstructured.Unstructured) string {
		if u.GetUID() == "" {
			return "not there"
		}
		return ""
	}).GetUID()
	if err := kube.Delete(t.Context(), made.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	bed.Await(t, kube, made, list, func(u *unstructured.Unstructured) string {
		if u.GetUID() == first {
			return "it isn't made again"
		}
		return ""
	})
}
