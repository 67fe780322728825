package plan

import (
	"errors"
	"maps"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/object"
)

// lastApplied is kubectl's copy of the whole manifest, values of Secrets
// included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// essence is an object's content without what the server keeps and what changes
// by itself.
func essence(from *unstructured.Unstructured) map[string]any {
	plain := from.DeepCopy()
	delete(plain.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(plain.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(plain.Object, "metadata", "annotations", lastApplied)
	if len(plain.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(plain.Object, "metadata", "annotations")
	}
	return plain.Object
}

// withoutAddress drops the address that a dry run has drawn for a new Service:
// the real one will be another.
func withoutAddress(change *Change) {
	if change.Before != nil || change.Object.Kind != "Service" || change.Object.Group != "" {
		return
	}
	if address, _, _ := unstructured.NestedString(change.After, "spec", "clusterIP"); address == "None" {
		return // headless by the manifest's own wish
	}
	unstructured.RemoveNestedField(change.After, "spec", "clusterIP")
	unstructured.RemoveNestedField(change.After, "spec", "clusterIPs")
}

func same(before, after map[string]any) bool { return reflect.DeepEqual(before, after) }

// mask hides the values of a Secret, and shows only which of them change.
func mask(change *Change) {
	if change.Object.Kind != "Secret" || change.Object.Group != "" {
		return
	}
	for _, field := range []string{"data", "stringData"} {
		before, _ := change.Before[field].(map[string]any)
		after, _ := change.After[field].(map[string]any)
		hiddenBefore, hiddenAfter := map[string]any{}, map[string]any{}
		for key, value := range before {
			hiddenBefore[key] = "***"
			if changed, there := after[key]; there && !reflect.DeepEqual(value, changed) {
				hiddenBefore[key] = "*** (before)"
			}
		}
		for key, value := range after {
			hiddenAfter[key] = "***"
			if was, there := before[key]; there && !reflect.DeepEqual(value, was) {
				hiddenAfter[key] = "*** (after)"
			}
		}
		change.Before = with(change.Before, field, before, hiddenBefore)
		change.After = with(change.After, field, after, hiddenAfter)
	}
}

// with is an object with its field replaced, where it has one.
func with(in map[string]any, field string, values, hidden map[string]any) map[string]any {
	if in == nil || in[field] == nil {
		return in
	}
	changed := maps.Clone(in)
	changed[field] = hidden
	if values == nil {
		changed[field] = "***" // not a map: whatever it is, it isn't shown
	}
	return changed
}

func merged(base, over map[string]string) map[string]string {
	all := maps.Clone(base)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, over)
	if len(all) == 0 {
		return nil
	}
	return all
}

// inventory reads what a live resource's status lists.
func inventory(live *unstructured.Unstructured) []object.Ref {
	entries, _, _ := unstructured.NestedSlice(live.Object, "status", "inventory")
	var refs []object.Ref
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		of := func(name string) string { value, _ := fields[name].(string); return value }
		ref := object.Ref{Group: of("group"), Version: of("version"), Kind: of("kind"), Namespace: of("namespace"), Name: of("name")}
		if ref.Validate() == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}

// reasonOf is what the API server says of an object, without its opening words.
// The messages of our own rules name the field and the way out. Schema is asked
// for where it helps.
func reasonOf(err error, known func() Schema) string {
	if _, fields, is := strings.Cut(err.Error(), "strict decoding error: "); is {
		return explain(fields, known())
	}
	if undeclared.MatchString(err.Error()) {
		return explain(err.Error(), known())
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return err.Error()
	}
	var parts []string
	for _, cause := range status.Status().Details.Causes {
		text := cause.Message
		if cause.Field != "" && cause.Field != "<nil>" {
			text = cause.Field + ": " + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
