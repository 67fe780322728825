package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/certificate"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/reconcile/stack"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/test/bed"
)

// passes bounds how many an engine needs to come to rest, and deadline their time.
const (
	passes   = 2000
	deadline = 120 * time.Second
)

// dolphin is a bundle with an admission webhook and a conversion webhook of one Service.
const dolphin = "../../../internal/cli/bundle/testdata/dolphin"

// world is a stack of one such bundle, and whoever brings it to rest.
type world struct {
	*testing.T
	name, namespace string
	bundle          string
	wire            *bed.Wire
	engine          *stack.Engine
	now             time.Time
	meanwhile       func()
}

// newWorld makes a stack, which isn't installed yet.
func newWorld(t *testing.T, name, values string) *world {
	t.Helper()
	w := &world{T: t, name: name, namespace: name, bundle: filepath.Join(t.TempDir(), "bundle"), now: time.Now()}
	if err := os.CopyFS(w.bundle, os.DirFS(dolphin)); err != nil {
		t.Fatal(err)
	}
	made := &platformv1alpha1.PlatformStack{}
	made.Name = name
	made.Spec.Components = []platformv1alpha1.Component{{
		Name: "dolphin", Namespace: w.namespace, Existing: platformv1alpha1.ExistingAdopt,
		Source: platformv1alpha1.Source{Bundle: &platformv1alpha1.BundleSource{Image: w.bundle, Exclude: []string{`.kind == "ConsoleCLIDownload"`}}},
	}}
	w.setValues(made, values)
	if err := kube.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

func (w *world) setValues(on *platformv1alpha1.PlatformStack, values string) {
	if values != "" {
		on.Spec.Components[0].Values = &runtime.RawExtension{Raw: []byte(values)}
	}
}

// start starts an engine that knows nothing, as a new process does.
func (w *world) start() {
	w.Helper()
	w.wire = &bed.Wire{}
	config := w.wire.Through(server)
	w.engine = stack.New(stack.Options{
		Config: config, Client: bed.Client(w.T, config), Charts: registry.New(registry.Options{Now: time.Now}),
		OwnRights: true, Now: func() time.Time { return w.now },
	})
}

// pass makes one pass, and reports whether there is nothing more to do now.
func (w *world) pass() (*platformv1alpha1.PlatformStack, bool, error) {
	w.Helper()
	current := &platformv1alpha1.PlatformStack{}
	if err := kube.Get(w.Context(), client.ObjectKey{Name: w.name}, current); err != nil {
		return nil, apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	result, err := w.engine.Run(w.Context(), current)
	if err != nil || result.Stack == nil {
		return nil, false, err
	}
	return result.Stack, !result.Acted && result.Outcome.Verdict == condition.Done, nil
}

// rest makes passes until nothing is left to do.
func (w *world) rest() *platformv1alpha1.PlatformStack {
	w.Helper()
	var last *platformv1alpha1.PlatformStack
	until := time.Now().Add(deadline)
	for range passes {
		now, atRest, err := w.pass()
		if err != nil && !apierrors.IsConflict(err) {
			w.Fatal(err)
		}
		if atRest {
			return now
		}
		if now != nil {
			last = now
		}
		if time.Now().After(until) {
			break
		}
		if w.meanwhile != nil {
			w.meanwhile()
		}
		select { // the control plane makes pods meanwhile
		case <-w.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	text, _ := json.MarshalIndent(last.Status, "", " ")
	w.Fatalf("it doesn't come to rest:\n%s", text)
	return nil
}

// after turns the clock forward, and comes to rest.
func (w *world) after(time time.Duration) *platformv1alpha1.PlatformStack {
	w.Helper()
	w.now = w.now.Add(time)
	return w.rest()
}

// at turns it to a moment.
func (w *world) at(now time.Time) *platformv1alpha1.PlatformStack {
	w.Helper()
	w.now = now
	return w.rest()
}

// due is when a certificate is to be renewed, and endOf when it is good no more.
func due(t *testing.T, secret *corev1.Secret) time.Time {
	t.Helper()
	return endOf(t, secret).Add(-certificate.Life/3 + time.Hour)
}

func endOf(t *testing.T, secret *corev1.Secret) time.Time {
	t.Helper()
	block, _ := pem.Decode(secret.Data["tls.crt"])
	read, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return read.NotAfter.Add(time.Second)
}

func (w *world) stack() *platformv1alpha1.PlatformStack {
	w.Helper()
	found := &platformv1alpha1.PlatformStack{}
	if err := kube.Get(w.Context(), client.ObjectKey{Name: w.name}, found); err != nil {
		w.Fatal(err)
	}
	return found
}

func (w *world) secret() *corev1.Secret {
	w.Helper()
	found := &corev1.Secret{}
	if err := kube.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "dolphin-service-cert"}, found); client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	} else if err != nil {
		return nil
	}
	return found
}

// bundles are what the API server trusts of the two webhooks.
func (w *world) bundles() [][]byte {
	w.Helper()
	hook := &admissionv1.ValidatingWebhookConfiguration{}
	if err := kube.Get(w.Context(), client.ObjectKey{Name: "dolphin-" + w.namespace + "-vdolphin.example.com"}, hook); err != nil {
		w.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := kube.Get(w.Context(), client.ObjectKey{Name: "dolphins.sea.example.com"}, definition); err != nil {
		w.Fatal(err)
	}
	return [][]byte{hook.Webhooks[0].ClientConfig.CABundle, definition.Spec.Conversion.Webhook.ClientConfig.CABundle}
}

// refusal says who refuses what a pod serves with from a Secret; empty if nobody does.
func (w *world) refusal(secret *corev1.Secret) string {
	w.Helper()
	hosts := []string{"dolphin-service." + w.namespace + ".svc", "dolphin-service." + w.namespace + ".svc.cluster.local"}
	for i, each := range w.bundles() {
		if certificate.Serves(each, secret.Data["tls.crt"], secret.Data["tls.key"], hosts, w.now) == nil {
			return []string{"the admission webhook", "the conversion webhook"}[i] + " is refused"
		}
	}
	return ""
}

// isTrusted demands that nobody refuses what pods serve with.
func (w *world) isTrusted(secrets ...*corev1.Secret) {
	w.Helper()
	for _, each := range secrets {
		if each == nil {
			w.Fatal("there is no certificate")
		}
		if why := w.refusal(each); why != "" {
			w.Fatalf("at %s: %s", w.now.Format(time.DateOnly), why)
		}
	}
}

// isRevision demands that the release has a revision, and no key in it.
func (w *world) isRevision(of *platformv1alpha1.PlatformStack, number int64) {
	w.Helper()
	if now := of.Status.Components[0]; now.Revision != number || now.Phase != platformv1alpha1.PhaseReady {
		w.Fatalf("revision %d, not %d: %s %s", now.Revision, number, now.Phase, now.Message)
	}
	record, err := helm.New(server, w.namespace, slog.DiscardHandler, time.Now).Get("dolphin")
	if err != nil {
		w.Fatal(err)
	}
	if strings.Contains(record.Manifest, "kind: Secret") || strings.Contains(record.Manifest, "caBundle") {
		w.Error("a Secret or an authority is in Helm's record")
	}
	if secret := w.secret(); secret != nil && len(secret.Data) > 0 {
		status, err := json.Marshal(of)
		key := secret.Data["tls.key"]
		if err != nil || bytes.Contains(status, key[50:80]) || strings.Contains(record.Manifest, base64.StdEncoding.EncodeToString(key)) {
			w.Errorf("the key is told: %v", err)
		}
	}
}

// isSame reports whether pods serve with the same key by two Secrets.
func isSame(a, b *corev1.Secret) bool { return bytes.Equal(a.Data["tls.key"], b.Data["tls.key"]) }

// certManager has the cluster serve the kinds of cert-manager, which isn't there itself,
// until the test ends.
func certManager(t *testing.T) {
	t.Helper()
	var made []client.Object
	for kind, plural := range map[string]string{"Certificate": "certificates", "Issuer": "issuers"} {
		made = append(made, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: objectMeta(plural + ".cert-manager.io"),
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "cert-manager.io", Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
				}}},
			},
		})
	}
	for _, each := range made {
		if err := kube.Create(t.Context(), each); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			err := kube.Delete(ctx, each)
			for err == nil {
				err = kube.Get(ctx, client.ObjectKeyFromObject(each), each)
			}
			if !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
	}
	await(t, func() bool {
		return kube.List(t.Context(), certificates()) == nil
	})
}

// issues does what cert-manager would do in the stack's namespace, as far as the stack
// sees it.
func (w *world) issues() {
	w.Helper()
	for _, kind := range []string{"Certificate", "Issuer"} {
		list := certificates()
		list.SetKind(kind + "List")
		if err := kube.List(w.Context(), list, client.InNamespace(w.namespace)); err != nil {
			w.Fatal(err)
		}
		for i := range list.Items {
			each := &list.Items[i]
			if each.Object["status"] != nil {
				continue
			}
			if kind == "Certificate" {
				w.issue(each.GetName())
			}
			patch := `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Issued","message":""}]}}`
			if err := kube.Patch(w.Context(), each, client.RawPatch(types.MergePatchType, []byte(patch))); client.IgnoreNotFound(err) != nil {
				w.Fatal(err)
			}
		}
	}
}

// issue has the Secret of a Certificate, with the mark that cert-manager gives it.
func (w *world) issue(name string) {
	w.Helper()
	secret := w.secret()
	if secret == nil {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
		if err := kube.Create(w.Context(), secret); err != nil {
			w.Fatal(err)
		}
	}
	patch := `{"metadata":{"annotations":{"cert-manager.io/certificate-name":"` + name + `"}}}`
	if err := kube.Patch(w.Context(), secret, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		w.Fatal(err)
	}
}

func certificates() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("cert-manager.io/v1")
	list.SetKind("CertificateList")
	return list
}

// exists reports whether cert-manager is asked for a certificate in a namespace.
func exists(t *testing.T, namespace string) bool {
	t.Helper()
	list := certificates()
	if err := kube.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return len(list.Items) > 0
}

// await looks again and again until something is so.
func await(t *testing.T, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, deadline, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatal(err)
	}
}

// goes deletes the stack and waits until nothing of it is left.
func (w *world) goes() {
	w.Helper()
	w.now = time.Now() // a deletion is let go by it
	if err := kube.Delete(w.Context(), &platformv1alpha1.PlatformStack{ObjectMeta: objectMeta(w.name)}); err != nil {
		w.Fatal(err)
	}
	w.rest()
	if secret := w.secret(); secret != nil && secret.Labels["platform.slipway.dev/certificate-of"] != "" {
		w.Error("its Secret is left")
	}
}
