// Package chart turns objects into the files of a Helm chart that renders to the same
// objects in any namespace. It is pure: it reads and writes no file, and knows
// nothing of where the objects are from.
//
// What can be set by values: the images, resources, node selectors and tolerations
// of Deployments, the images that an operator is told of, and pull secrets, which
// every ServiceAccount gets. Everything else is text, in which nothing is a template
// that wasn't meant as one.
package chart

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/object"
)

// Namespace stands for the release's namespace: objects that are to become a chart
// must be made for it.
const Namespace = "slipway-release-namespace"

// keep tells Helm not to delete an object with the release.
const keep = "helm.sh/resource-policy"

// Input is what a chart is made of.
type Input struct {
	// Name of the chart, such as sailoperator.
	Name string
	// Version is a semantic version.
	Version     string
	Description string
	// KubeVersion is the least version of Kubernetes; empty is none.
	KubeVersion string
	// Annotations of the chart itself.
	Annotations map[string]string
	// Objects, made for Namespace.
	Objects []*unstructured.Unstructured
	// Certificates are those that webhooks among the objects are served with, which the
	// objects have cert-manager make.
	Certificates []Certificate
	// CertificatesFrom is the default of the value that says who makes them instead;
	// CertManager if empty.
	CertificatesFrom string
}

// Chart is a chart in the making.
type Chart struct {
	// Files by their paths below the chart's directory.
	Files map[string][]byte
	// Values are the defaults, which values.yaml says.
	Values Values
}

// Make makes a chart. Equal inputs give equal charts.
func Make(input Input) (Chart, error) {
	made := Chart{Files: map[string][]byte{}, Values: newValues()}
	if len(input.Certificates) > 0 {
		made.Values.Certificates = cmp.Or(input.CertificatesFrom, CertManager)
	}
	for _, each := range input.Certificates {
		if !safe.MatchString(each.Service) || !safe.MatchString(each.Secret) {
			return Chart{}, fmt.Errorf("%q isn't a name for the Service of a webhook", each.Service)
		}
	}
	for _, each := range input.Objects {
		if err := made.add(each, input.Certificates); err != nil {
			return Chart{}, fmt.Errorf("%s: %w", object.Of(each).Display(), err)
		}
	}
	made.Files[webhooksFile] = webhooks(input.Certificates, made.Files[webhooksFile])
	if len(input.Certificates) == 0 {
		delete(made.Files, webhooksFile)
	}
	metadata := map[string]any{
		"apiVersion": "v2", "type": "application", "name": object.Name(input.Name), "version": input.Version, "appVersion": input.Version,
		"description": input.Description,
	}
	if input.KubeVersion != "" {
		metadata["kubeVersion"] = ">=" + input.KubeVersion + "-0"
	}
	if len(input.Annotations) > 0 {
		metadata["annotations"] = input.Annotations
	}
	text, err := marshal(metadata)
	if err != nil {
		return Chart{}, err
	}
	schema, err := json.MarshalIndent(made.Values.schema(), "", "  ")
	if err != nil {
		return Chart{}, err
	}
	values, err := made.Values.Text()
	if err != nil {
		return Chart{}, err
	}
	made.Files["Chart.yaml"] = text
	made.Files["values.yaml"] = values
	made.Files["values.schema.json"] = append(schema, '\n')
	made.Files["templates/NOTES.txt"] = []byte(notes)
	if len(input.Certificates) > 0 {
		made.Files["templates/NOTES.txt"] = []byte(notes + certificateNotes)
	}
	made.Files[".helmignore"] = []byte(".slipway/\n*.orig\n*.tgz\n")
	return made, nil
}

const notes = `{{ .Chart.Name }} {{ .Chart.AppVersion }} is installed in namespace {{ .Release.Namespace }}.

Its pods:

  kubectl get pods -n {{ .Release.Namespace }}

Helm installs the definitions in crds/ once and doesn't upgrade them. Before an
upgrade, apply them from the chart's directory (some are too large for a plain apply):

  kubectl apply --server-side -f crds/
`

// unfit is what has no place in a file's name.
var unfit = regexp.MustCompile(`[^a-z0-9.-]+`)

// longestFileName leaves room below the 255 bytes that file systems take.
const longestFileName = 200

// free is a name for a file that isn't taken yet.
func (c Chart) free(dir string, obj *unstructured.Unstructured) string {
	name := strings.ReplaceAll(obj.GetKind()+"-"+obj.GetName(), Namespace, "namespace")
	name = unfit.ReplaceAllString(strings.ToLower(name), "-")
	name = dir + "/" + name[:min(len(name), longestFileName)]
	for i, file := 2, name+".yaml"; ; i++ {
		if _, taken := c.Files[file]; !taken {
			return file
		}
		file = fmt.Sprintf("%s-%d.yaml", name, i)
	}
}

// add adds an object. A definition goes into crds/, where nothing is a template,
// unless it names the namespace, as one with a conversion webhook does. In either place
// it is kept: a later version may have it in the other one, and Helm would delete it with
// all objects of its kind.
func (c Chart) add(obj *unstructured.Unstructured, certificates []Certificate) error {
	own := obj.DeepCopy()
	if obj.GetKind() == "CustomResourceDefinition" {
		annotations := own.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[keep] = "keep"
		own.SetAnnotations(annotations)
		text, err := marshal(own.Object)
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte(Namespace)) {
			c.Files[c.free("crds", obj)] = text
			return nil
		}
	}
	t := &manifest{values: c.Values}
	if err := t.place(own); err != nil {
		return err
	}
	where := t.placeCertificate(own, certificates)
	text, err := t.text(own.Object)
	if err != nil {
		return err
	}
	switch where {
	case byCertManager:
		c.Files[c.free("templates", obj)] = fmt.Appendf(nil, "{{- if eq .Values.certificates `%s` }}\n%s{{- end }}\n", CertManager, text)
	case withAuthority:
		c.Files[webhooksFile] = fmt.Appendf(c.Files[webhooksFile], "---\n%s", text)
	case plain:
		c.Files[c.free("templates", obj)] = text
	}
	return nil
}

// marshal writes YAML with sorted keys, as it is, with no templates.
func marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	err := encoder.Encode(value)
	return text.Bytes(), err
}

// sortedKeys are a map's keys in their order.
func sortedKeys[V any](from map[string]V) []string {
	keys := make([]string, 0, len(from))
	for key := range from {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
