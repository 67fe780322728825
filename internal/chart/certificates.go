package chart

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/certificate"
)

// KeyCertificates is the value that says who makes the certificates of webhooks.
const KeyCertificates = "certificates"

// Who makes them.
const (
	CertManager = "cert-manager"
	// SelfSigned is Helm itself. The keys are in the release's record, then.
	SelfSigned = "self-signed"
	// Provided is someone else: Secrets and caBundles aren't the chart's.
	Provided = "provided"
)

// Certificate is what a webhook is served with.
type Certificate struct {
	// Service is the webhook's.
	Service string
	// Secret holds the certificate. cert-manager's Certificate has the same name, and
	// its Issuer the Service's.
	Secret string
}

// webhooksFile holds all that trusts a certificate, together with its Secret: what is
// drawn at random must be so once, and files know nothing of one another.
const webhooksFile = "templates/webhooks.yaml"

// place is where an object belongs because of a certificate.
type place int

const (
	plain place = iota
	byCertManager
	withAuthority
)

// placeCertificate puts templates where an object depends on who makes certificates.
func (t *manifest) placeCertificate(obj *unstructured.Unstructured, certificates []Certificate) place {
	for _, each := range certificates {
		if obj.GroupVersionKind().Group == "cert-manager.io" && obj.GetNamespace() == Namespace {
			if obj.GetKind() == "Certificate" && obj.GetName() == each.Secret || obj.GetKind() == "Issuer" && obj.GetName() == each.Service {
				return byCertManager
			}
		}
		annotations, _ := below(obj.Object, "metadata", "annotations")
		if annotations[certificate.AnnotationInjectCA] != Namespace+"/"+each.Secret {
			continue
		}
		from := "printf `%s/" + each.Secret + "` $.Release.Namespace"
		byIt := "eq .Values.certificates `" + CertManager + "`"
		if len(annotations) > 1 {
			annotations[certificate.AnnotationInjectCA] = block{expression: "ternary (" + from + ") `` (" + byIt + ")"}
		} else {
			metadata, _ := below(obj.Object, "metadata")
			metadata["annotations"] = block{expression: "ternary (dict `" + certificate.AnnotationInjectCA + "` (" + from + ")) (dict) (" + byIt + ")"}
		}
		for _, client := range clients(obj) {
			if client["caBundle"] == nil {
				client["caBundle"] = block{expression: "dig `" + each.Service + "` `caBundle` `` $made"}
			}
		}
		return withAuthority
	}
	return plain
}

// clients are the parts of an object that say how to reach a webhook.
func clients(obj *unstructured.Unstructured) []map[string]any {
	var found []map[string]any
	if conversion, is := below(obj.Object, "spec", "conversion", "webhook", "clientConfig"); is {
		found = append(found, conversion)
	}
	list, _ := obj.Object["webhooks"].([]any)
	for _, each := range list {
		hook, _ := each.(map[string]any)
		if client, is := below(hook, "clientConfig"); is {
			found = append(found, client)
		}
	}
	return found
}

// Of the certificates that Helm makes. Nobody but an upgrade renews them, so they are
// good for long: ten years, and two thirds of that in seconds.
const (
	madeDays    = 3650
	renewedPast = madeDays * 2 / 3 * 24 * 60 * 60
	renewAfter  = "slipway.dev/renew-after"
)

// webhooks is the file of all that trusts certificates. Helm draws keys before it:
// those that are there stay until it is time. Then the authority that was is trusted
// beside the new one, so that pods which haven't read their new certificate yet aren't
// refused.
func webhooks(certificates []Certificate, objects []byte) []byte {
	var pairs []string
	for _, each := range certificates {
		pairs = append(pairs, "`"+each.Service+"` `"+each.Secret+"`")
	}
	head := fmt.Sprintf(`{{- $made := dict }}
{{- if eq .Values.certificates "%[1]s" }}
{{- range $service, $secret := dict %[2]s }}
{{- $old := lookup "v1" "Secret" $.Release.Namespace $secret }}
{{- $data := dig "data" (dict) $old }}
{{- $after := dig "metadata" "annotations" "%[3]s" "0" $old | int64 }}
{{- if and (gt $after (now | unixEpoch | int64)) (dig "ca.crt" "" $data) (dig "tls.crt" "" $data) (dig "tls.key" "" $data) }}
{{- $_ := set $made $service (dict "caBundle" (index $data "ca.crt") "cert" (index $data "tls.crt") "key" (index $data "tls.key") "after" $after) }}
{{- else }}
{{- $host := printf "%%s.%%s.svc" $service $.Release.Namespace }}
{{- $ca := genCA (trunc 64 (printf "CA of %%s" $host)) %[4]d }}
{{- $pair := genSignedCert (trunc 64 $host) nil (list $host (printf "%%s.cluster.local" $host)) %[4]d $ca }}
{{- $former := regexFind "-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----" (dig "ca.crt" "" $data | b64dec) }}
{{- $trusted := printf "%%s%%s" $ca.Cert (ternary (printf "%%s\n" $former) "" (ne $former "")) }}
{{- $_ := set $made $service (dict "caBundle" (b64enc $trusted) "cert" (b64enc $pair.Cert) "key" (b64enc $pair.Key) "after" (add (now | unixEpoch) %[5]d)) }}
{{- end }}
{{- $it := index $made $service }}
---
apiVersion: v1
kind: Secret
metadata:
  annotations:
    %[3]s: "{{ $it.after }}"
  name: {{ $secret }}
  namespace: "{{ $.Release.Namespace }}"
type: kubernetes.io/tls
data:
  ca.crt: {{ $it.caBundle }}
  tls.crt: {{ $it.cert }}
  tls.key: {{ $it.key }}
{{- end }}
{{- end }}
`, SelfSigned, strings.Join(pairs, " "), renewAfter, madeDays, renewedPast)
	return append([]byte(head), objects...)
}

const certificateNotes = `
{{- if eq .Values.certificates "self-signed" }}

The certificates of its webhooks are Helm's: good for ten years, and renewed by
whatever upgrade comes after two thirds of them. Nothing else renews them.
{{- else if eq .Values.certificates "provided" }}

The certificates of its webhooks are yours to make, to renew, and to write into their
caBundle.
{{- end }}
`
