package llmd

import (
	_ "embed" // the rules
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
)

//go:embed rules.yaml
var rules string

// rulesName is the name of the PrometheusRule.
const rulesName = "llmd-rules"

// Optional are the kinds that are used where the cluster serves them: that of the
// Prometheus operator.
func Optional() []object.OptionalKind {
	return []object.OptionalKind{
		{Group: "monitoring.coreos.com", Resource: "prometheusrules", Kind: "PrometheusRule", Versions: []string{"v1"}},
	}
}

// Rules are the alerts for one namespace, as a file that Prometheus reads.
func Rules(namespace string) string { return strings.ReplaceAll(rules, "NAMESPACE", namespace) }

// Objects are what is made beside the releases. versions are those in which the
// cluster serves Optional. Alerts come with the first release: before there is
// one, they would need a namespace that nobody has made.
func Objects(llmd *componentsv1alpha1.Llmd, versions []string) ([]*unstructured.Unstructured, error) {
	if versions[0] == "" || llmd.DeletionTimestamp != nil {
		return nil, nil
	}
	spec := map[string]any{}
	namespace := or(llmd.Spec.Namespace, defaultNamespace)
	if err := yaml.Unmarshal([]byte(Rules(namespace)), &spec); err != nil {
		return nil, fmt.Errorf("read the alerts: %w", err)
	}
	made := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	made.SetAPIVersion(Optional()[0].Group + "/" + versions[0])
	made.SetKind(Optional()[0].Kind)
	made.SetNamespace(namespace)
	made.SetName(rulesName)
	made.SetLabels(object.Identity{Name: "llmd", Instance: llmd.Name, Component: "monitoring", PartOf: PartOf}.Labels())
	return []*unstructured.Unstructured{made}, nil
}
