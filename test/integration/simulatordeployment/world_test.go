package simulatordeployment

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/object"
)

// made are the kinds that a stack may be made of, as any cluster serves them.
var made = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Service"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// ours lists what the operator made of a kind in a namespace.
func ours(ctx context.Context, t *testing.T, namespace string, kind schema.GroupVersionKind) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := kube.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{object.LabelManagedBy: object.ManagedBy})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// names are those of the operator's objects of a kind, sorted.
func names(t *testing.T, namespace, kind string) string {
	t.Helper()
	var found []string
	for _, each := range made {
		if each.Kind != kind {
			continue
		}
		for _, item := range ours(t.Context(), t, namespace, each) {
			found = append(found, item.GetName())
		}
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

// awaitNothing waits until the operator's objects in a namespace are all gone.
func awaitNothing(t *testing.T, namespace string) {
	t.Helper()
	for _, kind := range made {
		for _, left := range ours(t.Context(), t, namespace, kind) {
			awaitAbsent(t, &left)
		}
	}
}

var deployments = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

func argsOf(deployment *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	return strings.Join(args, " ")
}

func pickerArgs(t *testing.T, namespace string) string {
	t.Helper()
	return argsOf(one(t, namespace, deployments, "gaie-sim-epp"))
}

// awaitArgs waits until the picker is started with an argument.
func awaitArgs(t *testing.T, namespace, argument string) {
	t.Helper()
	awaitState(t, one(t, namespace, deployments, "gaie-sim-epp"), func(found *unstructured.Unstructured) bool {
		return found != nil && strings.Contains(argsOf(found), argument)
	})
}

// awaitEstablished waits until the cluster serves a definition's kind.
func awaitEstablished(t *testing.T, name string) {
	t.Helper()
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName(name)
	awaitState(t, definition, func(found *unstructured.Unstructured) bool {
		if found == nil {
			return false
		}
		conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(each any) bool {
			c := each.(map[string]any)
			return c["type"] == "Established" && c["status"] == "True"
		})
	})
}
