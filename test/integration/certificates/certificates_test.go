package certificates

import (
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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/certificate"
	"github.com/slipway-dev/slipway/test/bed"
)

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func (w *world) patch(object client.Object, text string) {
	w.Helper()
	if err := kube.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		w.Fatal(err)
	}
}

// TestALife: certificates are there from the beginning, are renewed without a moment in
// which a webhook is refused, and mended whatever someone does to them.
func TestALife(t *testing.T) {
	w := newWorld(t, "life", "")
	w.isRevision(w.rest(), 1)
	first := w.secret()
	w.isTrusted(first)
	w.wire.TakeWrites()
	w.rest()
	if writes := w.wire.TakeWrites(); len(writes) > 0 {
		t.Errorf("at rest it writes %v", writes)
	}

	// Announced, then changed, then the former isn't trusted any more.
	w.at(due(t, first))
	announced := w.secret()
	w.isTrusted(first, announced)
	if !isSame(first, announced) || announced.Data["next.key"] == nil {
		t.Error("the next certificate isn't announced, or serves at once")
	}
	w.isRevision(w.after(certificate.Settle), 1)
	second := w.secret()
	w.isTrusted(first, second)
	if isSame(first, second) || second.Data["next.key"] != nil {
		t.Error("the next certificate doesn't serve")
	}
	w.isRevision(w.at(endOf(t, first)), 1)
	w.isTrusted(second)
	if w.refusal(first) == "" {
		t.Error("the former authority is trusted for ever")
	}

	t.Run("a bundle that can't be had", func(t *testing.T) {
		aside := w.bundle + ".aside"
		if err := os.Rename(w.bundle, aside); err != nil {
			t.Fatal(err)
		}
		w.at(due(t, second))
		w.isTrusted(second, w.secret())
		w.after(certificate.Settle)
		if isSame(second, w.secret()) {
			t.Error("it isn't renewed")
		}
		w.isTrusted(second, w.secret())
		if err := os.Rename(aside, w.bundle); err != nil {
			t.Fatal(err)
		}
		w.isRevision(w.after(time.Minute), 1)
	})
	t.Run("a Secret that is deleted", func(t *testing.T) {
		former := w.secret()
		if err := kube.Delete(t.Context(), former.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		w.isRevision(w.rest(), 1)
		w.isTrusted(former, w.secret()) // pods go on with what they have read
	})
	for name, damage := range map[string]string{
		"a key that is lost":        `{"data":{"tls.key":"eA=="}}`,
		"an authority that is lost": `{"data":{"ca.crt":null}}`,
		"labels that are lost":      `{"metadata":{"labels":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			former := w.secret()
			w.patch(former.DeepCopy(), damage)
			w.isRevision(w.rest(), 1)
			w.isTrusted(former, w.secret())
			if w.secret().Labels["platform.slipway.dev/certificate-of"] != w.name {
				t.Error("it has no labels")
			}
		})
	}
	t.Run("webhooks that are deleted, or trust another", func(t *testing.T) {
		w.patch(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: objectMeta("dolphins.sea.example.com")},
			`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`)
		hook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: objectMeta("dolphin-life-vdolphin.example.com")}
		w.patch(hook, `{"webhooks":null}`)
		w.rest()
		w.isTrusted(w.secret())
		if err := kube.Delete(t.Context(), hook); err != nil {
			t.Fatal(err)
		}
		w.isRevision(w.rest(), 1)
		w.isTrusted(w.secret())
	})
	w.goes()
}

// TestFewerWebhooks: a version that converts a definition no more can be upgraded to, and
// one without any webhook leaves no certificate behind.
func TestFewerWebhooks(t *testing.T) {
	w := newWorld(t, "fewer", "")
	w.isRevision(w.rest(), 1)
	w.cut("  - type: ConversionWebhook", "  install:")
	w.isRevision(w.after(time.Minute), 2)
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "dolphins.sea.example.com"}, definition); err != nil || definition.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		t.Errorf("it is converted: %v, %v", definition.Spec.Conversion, err)
	}
	if w.secret() == nil {
		t.Error("the other webhook has no certificate")
	}
	w.cut("  webhookdefinitions:", "  install:")
	w.isRevision(w.after(time.Minute), 3)
	if w.secret() != nil {
		t.Error("the certificate is left")
	}
	w.goes()
}

// TestAConversionComes: a version that begins to convert a definition can be upgraded
// to. The definition, which was the stack's own, becomes the release's.
func TestAConversionComes(t *testing.T) {
	leftover := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "dolphins.sea.example.com"}}
	if err := client.IgnoreNotFound(kube.Delete(t.Context(), leftover)); err != nil {
		t.Fatal(err)
	}
	bed.AwaitGone(t, kube, leftover, &apiextensionsv1.CustomResourceDefinitionList{})
	w := newWorld(t, "comes", "")
	made := &platformv1alpha1.PlatformStack{}
	made.Name = w.name
	leave := client.RawPatch(types.JSONPatchType, []byte(`[{"op": "replace", "path": "/spec/components/0/existing", "value": "Leave"}]`))
	if err := kube.Patch(t.Context(), made, leave); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.bundle, "manifests", "dolphin.clusterserviceversion.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.cut("  - type: ConversionWebhook", "  install:")
	w.isRevision(w.rest(), 1)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	w.isRevision(w.after(time.Minute), 2)
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "dolphins.sea.example.com"}, definition); err != nil || definition.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter {
		t.Errorf("it isn't converted: %v, %v", definition.Spec.Conversion, err)
	}
	w.goes()
}

// cut takes a part of the bundle's ClusterServiceVersion out.
func (w *world) cut(from, to string) {
	w.Helper()
	file := filepath.Join(w.bundle, "manifests", "dolphin.clusterserviceversion.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		w.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), from+"\n")
	_, after, is := strings.Cut(rest, to+"\n")
	if !is {
		w.Fatalf("there is no %s", from)
	}
	if err := os.WriteFile(file, []byte(before+to+"\n"+after), 0o600); err != nil {
		w.Fatal(err)
	}
}

// TestSomeonesSecret: what is there from elsewhere isn't touched, until the user says
// that it is what serves.
func TestSomeonesSecret(t *testing.T) {
	w := newWorld(t, "someones", "")
	namespace := &corev1.Namespace{ObjectMeta: objectMeta(w.namespace)}
	if err := kube.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "dolphin-service-cert"}, Data: map[string][]byte{"mine": {1}}}
	if err := kube.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	const want = "Secret dolphin-service-cert in namespace someones is there from elsewhere; delete it, or set the value certificates to provided to use it"
	for range 3 {
		now, _, err := w.pass()
		if err != nil {
			t.Fatal(err)
		}
		if told := now.Status.Components[0]; told.Message != want {
			t.Errorf("%s %s", told.Reason, told.Message)
		}
	}
	w.change(`{"certificates":"provided"}`)
	w.isProvided(own)
	w.goes()
	if err := kube.Delete(t.Context(), own); err != nil {
		t.Error(err)
	}
}

// isProvided demands that a stack comes up with someone's own Secret, and leaves it as
// it is.
func (w *world) isProvided(own *corev1.Secret) {
	w.Helper()
	for range passes {
		now, _, err := w.pass()
		if err != nil && !apierrors.IsConflict(err) {
			w.Fatal(err)
		}
		if now != nil && now.Status.Components[0].Revision == 1 {
			if is := w.secret(); is == nil || is.ResourceVersion != own.ResourceVersion {
				w.Errorf("it was changed: %v", is)
			}
			return
		}
	}
	w.Fatal("it isn't installed")
}

// change sets the component's values.
func (w *world) change(values string) {
	w.Helper()
	stack := w.stack()
	before := stack.DeepCopy()
	w.setValues(stack, values)
	if err := kube.Patch(w.Context(), stack, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}

// TestDeaths: a process that dies at any write of a renewal, or whose write fails, never
// leaves a moment in which a webhook is refused, and the next process goes on.
func TestDeaths(t *testing.T) {
	w := newWorld(t, "deaths", "")
	w.rest()
	for _, fault := range []bed.Fault{bed.DieBefore, bed.DieAfter, bed.Conflict} {
		for at := 1; ; at++ {
			if !w.renewed(at, fault) {
				t.Logf("%s: %d writes", fault, at-1)
				if at < 7 {
					t.Errorf("a renewal takes %d writes; something isn't written", at-1)
				}
				break
			}
		}
	}
	w.isRevision(w.rest(), 1)
	w.goes()
}

// renewed goes through a renewal with a fault at one of its writes, counted over all of
// it, and reports whether there was such a write.
func (w *world) renewed(at int, fault bed.Fault) bool {
	w.Helper()
	former := w.secret()
	happened, writes := false, 0
	disturb := func(_ int, _ bed.Call) bed.Fault {
		if writes++; writes != at {
			return bed.None
		}
		happened = true
		return fault
	}
	for _, now := range []time.Time{due(w.T, former), due(w.T, former).Add(certificate.Settle), endOf(w.T, former)} {
		w.now = now
		w.wire.Disturb(disturb)
		faulty := happened
		for range 50 {
			_, atRest, err := w.pass()
			if w.isTrusted(w.secret()); w.now.Before(endOf(w.T, former)) {
				w.isTrusted(former)
			}
			if happened != faulty && fault.Lethal() { // a new process
				w.start()
				faulty = happened
				w.wire.Disturb(disturb)
				continue
			}
			if err == nil && atRest {
				break
			}
		}
	}
	if isSame(former, w.secret()) {
		w.Fatalf("%s at write %d: it isn't renewed", fault, at)
	}
	return happened
}

// TestCertManager: cert-manager makes what is installed where it is, and takes over
// nothing unless the user says so.
func TestCertManager(t *testing.T) {
	before := newWorld(t, "before", "")
	before.rest()
	certManager(t)
	before.isRevision(before.after(time.Hour), 1)
	before.isTrusted(before.secret())

	before.meanwhile = before.issues
	before.change(`{"certificates":"cert-manager"}`)
	before.isRevision(before.rest(), 2)
	if secret := before.secret(); secret == nil || len(secret.Labels) > 0 || !exists(t, before.namespace) {
		t.Errorf("%v", secret)
	}
	before.isTrusted(before.secret())
	before.change(`{"certificates":null}`) // what it was installed with stays here, too
	before.isRevision(before.rest(), 2)
	before.goes()

	after := newWorld(t, "after", "")
	after.meanwhile = after.issues
	after.isRevision(after.rest(), 1)
	if len(after.secret().Data) > 0 || !exists(t, after.namespace) {
		t.Error("the certificate isn't cert-manager's")
	}
	if err := kube.Delete(t.Context(), after.secret()); err != nil { // which isn't there to make it again
		t.Fatal(err)
	}
	after.isRevision(after.rest(), 1)
	after.issue("dolphin-service-cert")
	after.change(`{"certificates":"self-signed"}`)
	after.isRevision(after.rest(), 2)
	if exists(t, after.namespace) {
		t.Error("cert-manager's certificate is left")
	}
	after.isTrusted(after.secret())
	after.goes()
	if err := kube.Delete(t.Context(), before.secret()); err != nil { // it was handed over
		t.Error(err)
	}
}
