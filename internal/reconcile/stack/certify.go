package stack

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/certificate"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/olm"
)

// A certificate of this package is in a Secret beside the release, and its authority in
// fields that the release doesn't have. So no key is in Helm's record, and a renewal is
// neither drift nor a revision. The Secret is written first, with all authorities to
// trust, and then whoever trusts them. What serves changes only once all of them were
// seen to (package certificate), so a pass may die between any two writes.

// Keys of the Secret beside those of its type.
const (
	keyAuthority = "ca.crt"
	keyNextCert  = "next.crt"
	keyNextKey   = "next.key"
)

// certificateManager owns the caBundle of webhooks and nothing else.
const certificateManager = fieldManager + "-certificates"

// certifyOne brings the certificate of one Service a step further, and has webhooks
// trust it.
func (p *pass) certifyOne(ctx context.Context, s *stand, service string) error {
	namespace := s.component.Namespace
	named := secretIn(olm.CertificateSecret(service), namespace)
	secret, err := p.certificateSecret(ctx, s, olm.CertificateSecret(service))
	if err != nil || secret == nil {
		return err
	}
	held := certificate.Held{
		CA: secret.Data[keyAuthority], Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey],
		NextCert: secret.Data[keyNextCert], NextKey: secret.Data[keyNextKey],
	}
	trusts := trustingOf(s.report.Live, namespace, service)
	facts := certificate.Facts{Hosts: olm.CertificateHosts(service, namespace), Now: p.options.Now(), Trusted: len(trusts) > 0}
	for _, each := range trusts {
		facts.Trusted = facts.Trusted && bytes.Equal(each.caBundle, held.CA)
		facts.Known = append(facts.Known, each.caBundle)
	}
	held, step, err := held.Renew(facts, func() (certificate.Pair, error) {
		return certificate.Issue(rand.Reader, facts.Hosts, facts.Now, certificate.Life)
	})
	if err != nil {
		return err
	}
	if step != certificate.Kept || secret.UID == "" || !p.isOurs(secret, s.component.Name) {
		if err := p.writeCertificate(ctx, s, secret, held); err != nil {
			return s.written(err, named)
		}
		s.acted = true
	}
	for _, each := range trusts {
		if bytes.Equal(each.caBundle, held.CA) {
			continue
		}
		if err := p.trust(ctx, each, held.CA); err != nil {
			return s.written(err, object.Of(each.object).Display())
		}
		s.acted = true
	}
	s.certificates = append(s.certificates, secret.Name)
	if held.NextCert != nil {
		s.soon(certificate.Settle)
	}
	return nil
}

// written tells what came of a write. Somebody else's in between is no fault: the next
// pass looks at it.
func (s *stand) written(err error, what string) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		s.acted = true
		return nil
	}
	return explained(err, what)
}

func (p *pass) isOurs(secret *corev1.Secret, component string) bool {
	return secret.Labels[labelCertificateOf] == p.stack.Name && secret.Labels[labelCertificateFor] == component
}

// certificateSecret is the Secret of a certificate, without a UID if it isn't there, or
// nil if it is cert-manager's until the next revision. One from elsewhere isn't touched;
// but once the release is there, it can only be ours that has lost its labels.
func (p *pass) certificateSecret(ctx context.Context, s *stand, name string) (*corev1.Secret, error) {
	for i := range s.secrets {
		if s.secrets[i].Name == name {
			return s.secrets[i].DeepCopy(), nil
		}
	}
	found := &corev1.Secret{}
	err := p.hand.client.Get(ctx, client.ObjectKey{Namespace: s.component.Namespace, Name: name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.component.Namespace, Name: name}, Type: corev1.SecretTypeTLS}, nil
	case err != nil:
		return nil, explained(err, secretIn(name, s.component.Namespace))
	case isInjected(s.report.Live, found):
		return nil, nil //nolint:nilnil // there is nothing to do yet
	case found.Labels[labelCertificateOf] == "" && s.report.Newest != nil, p.isOurs(found, s.component.Name):
		return found, nil
	}
	return nil, condition.Stop(condition.ReasonOwnedByAnother,
		"%s is there from elsewhere; delete it, or set the value certificates to provided to use it", secretIn(name, s.component.Namespace))
}

// writeCertificate makes or changes a Secret; somebody else's labels stay.
func (p *pass) writeCertificate(ctx context.Context, s *stand, secret *corev1.Secret, held certificate.Held) error {
	labels := maps.Clone(secret.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelCertificateOf], labels[labelCertificateFor] = p.stack.Name, s.component.Name
	secret.Labels = labels
	delete(secret.Annotations, issuedBy) // as long as it is ours
	secret.Data = map[string][]byte{keyAuthority: held.CA, corev1.TLSCertKey: held.Cert, corev1.TLSPrivateKeyKey: held.Key}
	if held.NextCert != nil {
		secret.Data[keyNextCert], secret.Data[keyNextKey] = held.NextCert, held.NextKey
	}
	write := func() error { return p.hand.client.Update(ctx, secret, client.FieldOwner(certificateManager)) }
	if secret.UID == "" {
		write = func() error { return p.hand.client.Create(ctx, secret, client.FieldOwner(certificateManager)) }
	}
	if err := write(); err != nil {
		return err
	}
	s.secrets = slices.DeleteFunc(s.secrets, func(old corev1.Secret) bool { return old.Name == secret.Name })
	s.secrets = append(s.secrets, *secret)
	return nil
}

// trusting is an object whose webhooks a Service serves.
type trusting struct {
	object   *unstructured.Unstructured
	hooks    []string // the names of its webhooks; none for a definition
	caBundle []byte   // nil if it has none, or several that differ
}

// trustingOf are the live objects whose webhooks a Service serves.
func trustingOf(live []*unstructured.Unstructured, namespace, service string) []trusting {
	var found []trusting
	for _, each := range live {
		one, bundles := trusting{object: each}, []string{}
		see := func(of map[string]any, path ...string) bool {
			config, _, _ := unstructured.NestedMap(of, path...)
			in, _, _ := unstructured.NestedString(config, "service", "namespace")
			named, _, _ := unstructured.NestedString(config, "service", "name")
			if in != namespace || named != service {
				return false
			}
			text, _ := config["caBundle"].(string)
			bundles = append(bundles, text)
			return true
		}
		if each.GetKind() == kindDefinition {
			see(each.Object, "spec", "conversion", "webhook", "clientConfig")
		}
		hooks, _, _ := unstructured.NestedSlice(each.Object, "webhooks")
		for _, hook := range hooks {
			content, _ := hook.(map[string]any)
			if name, _ := content["name"].(string); see(content, "clientConfig") {
				one.hooks = append(one.hooks, name)
			}
		}
		if len(bundles) == 0 {
			continue
		}
		if len(slices.Compact(slices.Clone(bundles))) == 1 {
			one.caBundle, _ = base64.StdEncoding.DecodeString(bundles[0])
		}
		found = append(found, one)
	}
	return found
}

// isInjected reports whether cert-manager writes the authority of a Secret into one of
// these objects.
func isInjected(live []*unstructured.Unstructured, secret *corev1.Secret) bool {
	return slices.ContainsFunc(live, func(o *unstructured.Unstructured) bool {
		return o.GetAnnotations()[certificate.AnnotationInjectCA] == secret.Namespace+"/"+secret.Name
	})
}

// trust has the webhooks of an object trust authorities. It changes only the object that
// was read, and of it only this field.
func (p *pass) trust(ctx context.Context, t trusting, authorities []byte) error {
	config := map[string]any{"caBundle": base64.StdEncoding.EncodeToString(authorities)}
	wanted := &unstructured.Unstructured{}
	wanted.SetGroupVersionKind(t.object.GroupVersionKind())
	wanted.SetName(t.object.GetName())
	wanted.SetUID(t.object.GetUID())
	if len(t.hooks) == 0 {
		wanted.Object["spec"] = map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": config}}}
	} else {
		var hooks []any
		for _, name := range t.hooks {
			hooks = append(hooks, map[string]any{"name": name, "clientConfig": maps.Clone(config)})
		}
		wanted.Object["webhooks"] = hooks
	}
	return p.hand.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(certificateManager), client.ForceOwnership)
}

// unbind takes our authorities out of live definitions that the component's next
// revision converts no more: the API server refuses them there, then.
func (p *pass) unbind(ctx context.Context, s *stand) error {
	for _, next := range s.made.objects {
		if _, converted, _ := unstructured.NestedMap(next.Object, "spec", "conversion", "webhook"); converted || next.GetKind() != kindDefinition {
			continue
		}
		for _, live := range s.report.Live {
			text, _, _ := unstructured.NestedString(live.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
			if live.GetKind() != kindDefinition || live.GetName() != next.GetName() || text == "" {
				continue
			}
			nothing := &unstructured.Unstructured{}
			nothing.SetGroupVersionKind(live.GroupVersionKind())
			nothing.SetName(live.GetName())
			nothing.SetUID(live.GetUID())
			err := p.hand.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(nothing), client.FieldOwner(certificateManager), client.ForceOwnership)
			if err != nil {
				return s.written(err, object.Of(live).Display())
			}
		}
	}
	return nil
}
