package object

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// emptiable lists fields that Kubernetes' Go types always write, even when they
// were never set. An empty one is no intent, and a server-side apply that
// contained it would own it. Fields like emptyDir, where empty means something,
// aren't among them.
var emptiable = map[string]bool{
	"metadata":       true, // of pod templates
	"resources":      true, // of containers and claims
	"strategy":       true, // of Deployments
	"updateStrategy": true, // of StatefulSets and DaemonSets
	"status":         true, // of claim templates
}

// FromTyped turns typed objects into what a server-side apply should contain:
// what was set, and nothing else. Status, creation timestamps, nulls and the
// empty structs that Go's types always write are left out. Nil objects, of any
// type, are left out too: a builder returns nil for what isn't wanted. An object
// without apiVersion and kind is an error that names its Go type.
func FromTyped(objs ...runtime.Object) ([]*unstructured.Unstructured, error) {
	made := make([]*unstructured.Unstructured, 0, len(objs))
	for _, obj := range objs {
		if isNil(obj) {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, fmt.Errorf("convert %T: %w", obj, err)
		}
		each := &unstructured.Unstructured{Object: content}
		if err := Of(each).Validate(); err != nil {
			return nil, fmt.Errorf("convert %T: %w", obj, err)
		}
		delete(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		tidy(content)
		made = append(made, each)
	}
	return made, nil
}

func isNil(obj runtime.Object) bool {
	if obj == nil {
		return true
	}
	value := reflect.ValueOf(obj)
	return value.Kind() == reflect.Pointer && value.IsNil()
}

func tidy(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, each := range v {
			tidy(each)
			if each == nil || emptiable[key] && isEmptyMap(each) {
				delete(v, key)
			}
		}
	case []any:
		for _, each := range v {
			tidy(each)
		}
	}
}

func isEmptyMap(value any) bool {
	m, ok := value.(map[string]any)
	return ok && len(m) == 0
}
