package chart

import (
	"bytes"
	"maps"
)

const keyPullSecrets = "imagePullSecrets"

// Values are the defaults of what can be set.
type Values struct {
	RelatedImages map[string]string
	Deployments   map[string]*Deployment
	// Certificates says who makes those of webhooks; empty where there are none.
	Certificates string
}

// Deployment is what can be set for a Deployment.
type Deployment struct {
	NodeSelector map[string]any
	Tolerations  []any
	Containers   map[string]*Container
}

// Container is what can be set for a container.
type Container struct {
	Image     string
	Resources map[string]any
}

func newValues() Values {
	return Values{RelatedImages: map[string]string{}, Deployments: map[string]*Deployment{}}
}

// Plain are the values as a map, as values.yaml has them.
func (v Values) Plain() map[string]any {
	deployments := map[string]any{}
	for name, each := range v.Deployments {
		containers := map[string]any{}
		for name, container := range each.Containers {
			containers[name] = map[string]any{"image": container.Image, "resources": orEmpty(container.Resources)}
		}
		tolerations := each.Tolerations
		if tolerations == nil {
			tolerations = []any{}
		}
		deployments[name] = map[string]any{"containers": containers, "nodeSelector": orEmpty(each.NodeSelector), "tolerations": tolerations}
	}
	related := map[string]any{}
	for name, image := range v.RelatedImages {
		related[name] = image
	}
	plain := map[string]any{keyPullSecrets: []any{}, "deployments": deployments, "relatedImages": related}
	if v.Certificates != "" {
		plain[KeyCertificates] = v.Certificates
	}
	return plain
}

func orEmpty(from map[string]any) map[string]any {
	if from == nil {
		return map[string]any{}
	}
	return from
}

// remarks stand before the values.
var remarks = map[string]string{
	keyPullSecrets:  "# Secrets in the release's namespace that hold credentials for the images'\n# registries, as - name: my-secret. Every ServiceAccount gets them.\n",
	KeyCertificates: "# Who makes the certificates of webhooks: cert-manager; self-signed: Helm, which\n# renews them in an upgrade once two thirds of their ten years are over; or provided:\n# whoever makes the Secrets and writes the webhooks' caBundle.\n",
	"deployments":   "# What runs: where, from which image, and how much it asks for.\n",
	"relatedImages": "# What the operator is told to run, by its variables and annotations.\n",
}

// Text is values.yaml.
func (v Values) Text() ([]byte, error) { return ValuesText(v.Plain()) }

// ValuesText writes values as values.yaml has them, with remarks. Values that the
// chart doesn't know come last.
func ValuesText(values map[string]any) ([]byte, error) {
	var text bytes.Buffer
	rest := maps.Clone(values)
	for _, key := range []string{keyPullSecrets, KeyCertificates, "deployments", "relatedImages"} {
		value, found := rest[key]
		if !found {
			continue
		}
		delete(rest, key)
		part, err := marshal(map[string]any{key: value})
		if err != nil {
			return nil, err
		}
		if text.Len() > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(remarks[key])
		text.Write(part)
	}
	if len(rest) == 0 {
		return text.Bytes(), nil
	}
	part, err := marshal(rest)
	if err != nil {
		return nil, err
	}
	text.WriteByte('\n')
	text.Write(part)
	return text.Bytes(), nil
}

// noQuotes is what an image may be: it stands between quotes in a template.
const noQuotes = `^[^\s"\\]*$`

// schema describes the values: a name that the chart doesn't know is a mistake, and
// not silently ignored.
func (v Values) schema() map[string]any {
	image := map[string]any{"type": "string", "pattern": noQuotes}
	deployments := map[string]any{}
	for name, each := range v.Deployments {
		containers := map[string]any{}
		for name := range each.Containers {
			containers[name] = closed(map[string]any{"image": image, "resources": resources()}, "image")
		}
		deployments[name] = closed(map[string]any{
			"containers":   closed(containers, sortedKeys(containers)...),
			"nodeSelector": map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
			"tolerations":  map[string]any{"type": "array", "items": map[string]any{"type": "object"}},
		}, "containers")
	}
	related := map[string]any{}
	for name := range v.RelatedImages {
		related[name] = image
	}
	secret := closed(map[string]any{"name": map[string]any{"type": "string", "minLength": 1}}, "name")
	known := map[string]any{
		"global":        map[string]any{"type": "object"},
		keyPullSecrets:  map[string]any{"type": "array", "items": secret},
		"deployments":   closed(deployments, sortedKeys(deployments)...),
		"relatedImages": closed(related, sortedKeys(related)...),
	}
	if v.Certificates != "" {
		known[KeyCertificates] = map[string]any{"enum": []any{CertManager, SelfSigned, Provided}}
	}
	root := closed(known)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	return root
}

// closed is an object with these properties and no others.
func closed(properties map[string]any, required ...string) map[string]any {
	made := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		made["required"] = required
	}
	return made
}

func resources() map[string]any {
	quantities := map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []any{"string", "number"}}}
	return closed(map[string]any{"limits": quantities, "requests": quantities, "claims": map[string]any{"type": "array"}})
}
