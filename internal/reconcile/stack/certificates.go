package stack

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/chart"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/olm"
)

// Who makes the certificates of a bundle's webhooks: cert-manager, or this package. What
// a component was installed with stays, and Helm's record of it tells; where there is no
// record yet, what the cluster serves does. The chart's value certificates says
// otherwise.

// Labels of the Secrets with certificates of this package: the stack and the component.
const (
	labelCertificateOf  = "platform.slipway.dev/certificate-of"
	labelCertificateFor = "platform.slipway.dev/certificate-for"
)

// issuedBy is an annotation of each Secret that cert-manager writes.
const issuedBy = "cert-manager.io/certificate-name"

// certManagerVersion is what cert-manager serves its Certificates by.
var certManagerVersion = schema.GroupVersion{Group: "cert-manager.io", Version: "v1"}

// chooseCertificates puts into a component's values who makes the certificates of its
// webhooks.
func (p *pass) chooseCertificates(ctx context.Context, s *stand) error {
	if s.component.Spec.Source.Bundle == nil {
		return nil
	}
	err := p.readCertificates(ctx, s)
	if err != nil {
		return err
	}
	given := s.component.Values[chart.KeyCertificates]
	switch {
	case len(s.made.certificates) == 0:
	case given == chart.SelfSigned:
		s.certifies = true
	case given == nil:
		if s.certifies, err = p.wereMadeHere(ctx, s); err != nil {
			return err
		}
	}
	s.chosen = true
	if len(s.made.certificates) == 0 || given != nil && given != chart.SelfSigned {
		return nil // cert-manager, someone else, or a mistake that the chart's schema tells
	}
	values := clone(s.component.Values)
	values[chart.KeyCertificates] = chart.CertManager
	if s.certifies {
		values[chart.KeyCertificates] = chart.Provided
	}
	s.component.Values = values
	return nil
}

// readCertificates reads those of a component's Secrets that this package has made.
func (p *pass) readCertificates(ctx context.Context, s *stand) error {
	list := &corev1.SecretList{}
	err := p.hand.client.List(ctx, list, client.InNamespace(s.component.Namespace),
		client.MatchingLabels{labelCertificateOf: p.stack.Name, labelCertificateFor: s.component.Name})
	if err != nil {
		return explained(err, "the certificates of webhooks in namespace "+s.component.Namespace+" can't be read")
	}
	s.secrets = list.Items
	return nil
}

// wereMadeHere reports whether this package makes a component's certificates where
// nobody has said so.
func (p *pass) wereMadeHere(ctx context.Context, s *stand) (bool, error) {
	if len(s.secrets) > 0 {
		return true, nil
	}
	c, one := s.component, s.made.certificates[0]
	if p.isRecorded(c.Release()) {
		// At rest one small request tells.
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := p.hand.client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: one.Secret}, secret)
		if client.IgnoreNotFound(err) != nil {
			return false, explained(err, secretIn(one.Secret, c.Namespace))
		}
		if err == nil && secret.Annotations[issuedBy] != "" {
			return false, nil
		}
	}
	record, err := helm.New(p.hand.config, c.Namespace, p.options.Log, p.options.Now).Get(c.Name)
	if err != nil && !errors.Is(err, helm.ErrNotFound) {
		return false, condition.Retry(condition.ReasonRetrying, "read release %s: %w", c.Name, err)
	}
	objects, err := parse([]byte(record.Manifest))
	if err != nil {
		return false, condition.Stop(condition.ReasonInvalidObject, "read release %s: %w", c.Name, err)
	}
	has := func(group, kind, name string) bool {
		return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GroupVersionKind().Group == group && o.GetKind() == kind && o.GetName() == name
		})
	}
	switch {
	case has(certManagerVersion.Group, "Certificate", one.Secret):
		return false, nil
	case has("", "Service", one.Service):
		return true, nil
	}
	served, err := p.servesCertificates()
	return !served, err
}

// servesCertificates reports whether the cluster has cert-manager's Certificates, as the
// server says now.
func (p *pass) servesCertificates() (bool, error) {
	server, err := discovery.NewDiscoveryClientForConfig(p.hand.config)
	if err != nil {
		return false, err
	}
	list, err := server.ServerResourcesForGroupVersion(certManagerVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, condition.Retry(condition.ReasonRetrying, "read what the cluster serves of %s: %w", certManagerVersion, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "certificates" }), nil
}

func secretIn(name, namespace string) string { return "Secret " + name + " in namespace " + namespace }

// serviceOf is the Service that a Secret of this package is for.
func serviceOf(secret string) string { return strings.TrimSuffix(secret, olm.CertificateSecret("")) }

// certify looks after the certificates of a component's webhooks, whatever else keeps
// the component from going on.
func (p *pass) certify(ctx context.Context, s *stand) {
	if s.component.Spec.Source.Bundle == nil || s.left != "" || !p.isRecorded(s.component.Release()) {
		return
	}
	if err := p.certifyAll(ctx, s); err != nil && s.err == nil {
		s.err = err
	}
}

func (p *pass) certifyAll(ctx context.Context, s *stand) error {
	if !s.chosen { // the source can't be had
		if err := p.readCertificates(ctx, s); err != nil {
			return err
		}
	}
	var wanted []string
	if s.certifies {
		for _, each := range s.made.certificates {
			wanted = append(wanted, each.Service)
		}
	}
	isSettled := s.chosen && s.err == nil && s.report.Outcome().Verdict == condition.Done
	for i := range s.secrets {
		secret := &s.secrets[i]
		service := serviceOf(secret.Name)
		switch {
		case slices.Contains(wanted, service):
		case isSettled:
			if err := p.giveUp(ctx, s, secret); err != nil {
				return explained(err, secretIn(secret.Name, secret.Namespace))
			}
		case !isInjected(s.report.Live, secret): // what runs needs it still
			wanted = append(wanted, service)
		}
	}
	slices.Sort(wanted)
	for _, service := range wanted {
		if err := p.certifyOne(ctx, s, service); err != nil {
			return err
		}
	}
	return nil
}

// giveUp lets go of a Secret that the component doesn't need from here any more: it is
// someone else's from now on, or nobody's.
func (p *pass) giveUp(ctx context.Context, s *stand, secret *corev1.Secret) error {
	s.acted = true
	stays := slices.ContainsFunc(s.made.certificates, func(c chart.Certificate) bool { return c.Secret == secret.Name })
	if !stays {
		return client.IgnoreNotFound(p.hand.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}))
	}
	changed := secret.DeepCopy()
	delete(changed.Labels, labelCertificateOf)
	delete(changed.Labels, labelCertificateFor)
	return client.IgnoreNotFound(p.hand.client.Patch(ctx, changed, client.MergeFrom(secret)))
}

// dropCertificates deletes the Secrets of a component that is gone.
func (p *pass) dropCertificates(ctx context.Context, component, namespace string) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := p.hand.client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{labelCertificateOf: p.stack.Name, labelCertificateFor: component})
	for i := range list.Items {
		each := &list.Items[i]
		if failed := p.hand.client.Delete(ctx, each, client.Preconditions{UID: &each.UID}); client.IgnoreNotFound(failed) != nil {
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		return explained(err, "the certificates of webhooks in namespace "+namespace+" can't be deleted")
	}
	return nil
}
