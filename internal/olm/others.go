package olm

import (
	"encoding/base64"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// clusterScoped are the kinds without a namespace that bundles bring, beside
// those that the bundle itself defines.
var clusterScoped = map[schema.GroupKind]bool{
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:              true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                  true,
	{Kind: "Namespace"}: true,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                             true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: true,
	{Group: "gateway.networking.k8s.io", Kind: "GatewayClass"}:                        true,
	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"}:              true,
	{Group: "console.openshift.io", Kind: "ConsoleYAMLSample"}:                        true,
	{Group: "console.openshift.io", Kind: "ConsoleQuickStart"}:                        true,
	{Group: "console.openshift.io", Kind: "ConsoleCLIDownload"}:                       true,
	{Group: "console.openshift.io", Kind: "ConsoleLink"}:                              true,
	{Group: "console.openshift.io", Kind: "ConsoleNotification"}:                      true,
	{Group: "console.openshift.io", Kind: "ConsolePlugin"}:                            true,
	{Group: "console.openshift.io", Kind: "ConsoleExternalLogLink"}:                   true,
}

// others are the bundle's other manifests, in the operator's namespace.
func (r render) others() []*unstructured.Unstructured {
	made := make([]*unstructured.Unstructured, 0, len(r.bundle.Others))
	for _, each := range r.bundle.Others {
		placed := each.DeepCopy()
		unstructured.RemoveNestedField(placed.Object, "status")
		unstructured.RemoveNestedField(placed.Object, "metadata", "creationTimestamp")
		switch {
		case r.isClusterScoped(placed.GroupVersionKind().GroupKind()):
			placed.SetNamespace("")
		default:
			placed.SetNamespace(r.namespace)
		}
		r.placeSubjects(placed)
		made = append(made, placed)
	}
	return made
}

func (r render) isClusterScoped(kind schema.GroupKind) bool {
	for _, definition := range r.bundle.Definitions {
		group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
		name, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		if group == kind.Group && name == kind.Kind {
			scope, _, _ := unstructured.NestedString(definition.Object, "spec", "scope")
			return scope == "Cluster"
		}
	}
	return clusterScoped[kind]
}

// placeSubjects puts the accounts that a binding names into the operator's
// namespace where they are the operator's own or are in none.
func (r render) placeSubjects(binding *unstructured.Unstructured) {
	if !strings.HasSuffix(binding.GetKind(), "RoleBinding") {
		return
	}
	subjects, found, err := unstructured.NestedSlice(binding.Object, "subjects")
	if !found || err != nil {
		return
	}
	own := map[string]bool{}
	for _, each := range r.accounts() {
		own[each.(interface{ GetName() string }).GetName()] = true //nolint:forcetypeassert // they are ServiceAccounts
	}
	for _, each := range subjects {
		subject, is := each.(map[string]any)
		if !is || subject["kind"] != "ServiceAccount" {
			continue
		}
		name, _ := subject["name"].(string)
		if namespace, _ := subject["namespace"].(string); namespace == "" || own[name] {
			subject["namespace"] = r.namespace
		}
	}
	binding.Object["subjects"] = subjects
}

// certificateObjects are what makes or holds the certificates of webhooks.
func (r render) certificateObjects() []*unstructured.Unstructured {
	var made []*unstructured.Unstructured
	for _, service := range r.bundle.WebhookServices() {
		secret := CertificateSecret(service)
		if given, is := r.certificates.Given[service]; is {
			made = append(made, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
				"metadata": map[string]any{"namespace": r.namespace, "name": secret},
				"data":     map[string]any{"ca.crt": encode(given.CA), "tls.crt": encode(given.Cert), "tls.key": encode(given.Key)},
			}})
			continue
		}
		var hosts []any
		for _, host := range CertificateHosts(service, r.namespace) {
			hosts = append(hosts, host)
		}
		made = append(made,
			&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "cert-manager.io/v1", "kind": "Issuer",
				"metadata": map[string]any{"namespace": r.namespace, "name": service},
				"spec":     map[string]any{"selfSigned": map[string]any{}},
			}},
			&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "cert-manager.io/v1", "kind": "Certificate",
				"metadata": map[string]any{"namespace": r.namespace, "name": secret},
				"spec": map[string]any{
					"secretName": secret,
					"dnsNames":   hosts,
					"usages":     []any{"server auth"},
					"issuerRef":  map[string]any{"group": "cert-manager.io", "kind": "Issuer", "name": service},
				},
			}},
		)
	}
	return made
}

func encode(pem []byte) string { return base64.StdEncoding.EncodeToString(pem) }
