package olm

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/internal/certificate"
)

// Certificates say who makes the certificates of webhooks: cert-manager, by the
// zero value, or whoever calls.
type Certificates struct {
	// Given are certificates by the name of the Service that they are for
	// (Bundle.WebhookServices). Empty: cert-manager makes and renews them.
	Given map[string]Certificate
}

// Certificate is a key pair in PEM, and whom to trust for it.
type Certificate struct{ CA, Cert, Key []byte }

// defaultWebhookPort is what a webhook's Service listens on if nothing is said.
const defaultWebhookPort = 443

// serviceOf names the Service before a deployment that serves webhooks.
func serviceOf(deployment string) string {
	return strings.ReplaceAll(deployment, ".", "-") + "-service"
}

// CertificateSecret names the Secret that a webhook's pods are given their certificate
// by.
func CertificateSecret(service string) string { return service + "-cert" }

// CertificateHosts are the names under which the API server asks a webhook's Service.
func CertificateHosts(service, namespace string) []string {
	host := service + "." + namespace + ".svc"
	return []string{host, host + ".cluster.local"}
}

// WebhookServices are the Services that need a certificate.
func (b *Bundle) WebhookServices() []string {
	var names []string
	for _, each := range b.CSV.Spec.WebhookDefinitions {
		names = append(names, serviceOf(each.DeploymentName))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// webhooks are the Services of webhooks and their configurations.
func (r render) webhooks() []runtime.Object {
	var made []runtime.Object
	for _, each := range r.strategy().DeploymentSpecs {
		if ports := r.ports(each.Name); len(ports) > 0 {
			made = append(made, &corev1.Service{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
				ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: serviceOf(each.Name)},
				Spec:       corev1.ServiceSpec{Selector: each.Spec.Selector.MatchLabels, Ports: ports},
			})
		}
	}
	for _, hook := range r.bundle.CSV.Spec.WebhookDefinitions {
		switch hook.Type {
		case v1alpha1.ValidatingAdmissionWebhook:
			made = append(made, r.validating(hook))
		case v1alpha1.MutatingAdmissionWebhook:
			made = append(made, r.mutating(hook))
		case v1alpha1.ConversionWebhook: // in the definitions
		}
	}
	return made
}

// ports are those that the webhooks of a deployment are reached at.
func (r render) ports(deployment string) []corev1.ServicePort {
	var ports []corev1.ServicePort
	for _, hook := range r.bundle.CSV.Spec.WebhookDefinitions {
		if hook.DeploymentName != deployment {
			continue
		}
		port := portOf(hook)
		made := corev1.ServicePort{Name: strconv.Itoa(int(port)), Port: port, TargetPort: intstr.FromInt32(port)}
		if hook.TargetPort != nil {
			made.TargetPort = *hook.TargetPort
		}
		if !slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return p.Port == made.Port }) {
			ports = append(ports, made)
		}
	}
	return ports
}

func portOf(hook v1alpha1.WebhookDescription) int32 {
	return cmp.Or(hook.ContainerPort, defaultWebhookPort)
}

func (r render) hookMeta(hook v1alpha1.WebhookDescription) metav1.ObjectMeta {
	// The cluster's names carry the namespace: two installs don't share them.
	meta := metav1.ObjectMeta{Name: joined(r.bundle.Package, r.namespace, strings.TrimRight(hook.GenerateName, "-."))}
	if annotation := r.injection(serviceOf(hook.DeploymentName)); annotation != "" {
		meta.Annotations = map[string]string{certificate.AnnotationInjectCA: annotation}
	}
	return meta
}

// injection is the value of the annotation that asks cert-manager for its CA.
func (r render) injection(service string) string {
	if len(r.certificates.Given) > 0 {
		return ""
	}
	return r.namespace + "/" + CertificateSecret(service)
}

func (r render) clientConfig(hook v1alpha1.WebhookDescription) admissionv1.WebhookClientConfig {
	service := serviceOf(hook.DeploymentName)
	return admissionv1.WebhookClientConfig{
		CABundle: r.certificates.Given[service].CA,
		Service: &admissionv1.ServiceReference{
			Namespace: r.namespace, Name: service, Path: hook.WebhookPath, Port: new(portOf(hook)),
		},
	}
}

// watched selects the namespaces that the operator looks after; nil means all.
func (r render) watched() *metav1.LabelSelector {
	if r.all() {
		return nil
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: r.targets,
	}}}
}

func (r render) validating(hook v1alpha1.WebhookDescription) runtime.Object {
	return &admissionv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: r.hookMeta(hook),
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: hook.GenerateName, Rules: hook.Rules, FailurePolicy: hook.FailurePolicy, MatchPolicy: hook.MatchPolicy,
			ObjectSelector: hook.ObjectSelector, NamespaceSelector: r.watched(), SideEffects: hook.SideEffects,
			TimeoutSeconds: hook.TimeoutSeconds, AdmissionReviewVersions: hook.AdmissionReviewVersions,
			ClientConfig: r.clientConfig(hook),
		}},
	}
}

func (r render) mutating(hook v1alpha1.WebhookDescription) runtime.Object {
	return &admissionv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: r.hookMeta(hook),
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: hook.GenerateName, Rules: hook.Rules, FailurePolicy: hook.FailurePolicy, MatchPolicy: hook.MatchPolicy,
			ObjectSelector: hook.ObjectSelector, NamespaceSelector: r.watched(), SideEffects: hook.SideEffects,
			TimeoutSeconds: hook.TimeoutSeconds, AdmissionReviewVersions: hook.AdmissionReviewVersions,
			ReinvocationPolicy: hook.ReinvocationPolicy, ClientConfig: r.clientConfig(hook),
		}},
	}
}

// definitions are the bundle's, with the conversion webhooks that it names.
func (r render) definitions() []*unstructured.Unstructured {
	made := make([]*unstructured.Unstructured, 0, len(r.bundle.Definitions))
	for _, each := range r.bundle.Definitions {
		definition := each.DeepCopy()
		unstructured.RemoveNestedField(definition.Object, "status")
		unstructured.RemoveNestedField(definition.Object, "metadata", "creationTimestamp")
		for _, hook := range r.bundle.CSV.Spec.WebhookDefinitions {
			if hook.Type == v1alpha1.ConversionWebhook && slices.Contains(hook.ConversionCRDs, definition.GetName()) {
				r.convert(definition, hook)
			}
		}
		made = append(made, definition)
	}
	return made
}

func (r render) convert(definition *unstructured.Unstructured, hook v1alpha1.WebhookDescription) {
	service := serviceOf(hook.DeploymentName)
	config := map[string]any{
		"namespace": r.namespace, "name": service, "port": int64(portOf(hook)),
	}
	if hook.WebhookPath != nil {
		config["path"] = *hook.WebhookPath
	}
	versions := make([]any, 0, len(hook.AdmissionReviewVersions))
	for _, each := range hook.AdmissionReviewVersions {
		versions = append(versions, each)
	}
	client := map[string]any{"service": config}
	if given, is := r.certificates.Given[service]; is {
		client["caBundle"] = encode(given.CA)
	}
	spec, _, _ := unstructured.NestedMap(definition.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	spec["conversion"] = map[string]any{
		"strategy": "Webhook",
		"webhook":  map[string]any{"clientConfig": client, "conversionReviewVersions": versions},
	}
	definition.Object["spec"] = spec
	if annotation := r.injection(service); annotation != "" {
		annotations := definition.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[certificate.AnnotationInjectCA] = annotation
		definition.SetAnnotations(annotations)
	}
}
