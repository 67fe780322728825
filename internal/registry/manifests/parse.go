package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/object"
)

// maxObjects of one source.
const maxObjects = 2000

// reading is one reading of a source's files.
type reading struct {
	source  string
	objects []*unstructured.Unstructured
	// at is the file that an object stands in.
	at map[object.Ref]string
}

// parse reads the objects of files, in the order of their names.
func parse(from found) ([]*unstructured.Unstructured, error) {
	r := &reading{source: from.source, at: map[object.Ref]string{}}
	for _, name := range slices.Sorted(maps.Keys(from.files)) {
		if err := r.file(name, from.files[name]); err != nil {
			return nil, err
		}
	}
	if len(r.objects) == 0 {
		return nil, fault(from.source, "there is no manifest in it; it needs files .yaml, .yml or .json with objects")
	}
	return r.objects, nil
}

func (r *reading) file(name string, text []byte) error {
	reader := documents.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var content map[string]any
		if err == nil {
			content, err = decode(document)
		}
		if err != nil {
			return fault(r.source, "%s can't be read: %s", name, strings.Join(strings.Fields(err.Error()), " "))
		}
		if len(content) == 0 {
			continue
		}
		if err := r.object(name, &unstructured.Unstructured{Object: content}); err != nil {
			return err
		}
	}
}

// decode reads a document with its whole numbers as such, as the API server does.
func decode(document []byte) (map[string]any, error) {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] != '{' && !bytes.Equal(trimmed, []byte("null")) {
		return nil, errors.New("it is no object; a manifest has apiVersion, kind and metadata")
	}
	var content map[string]any
	return content, json.Unmarshal(text, &content)
}

func (r *reading) object(name string, obj *unstructured.Unstructured) error {
	switch {
	case strings.HasPrefix(obj.GetAPIVersion(), "kustomize.config.k8s.io/"):
		return fault(r.source, "%s is for kustomize, which isn't run; give what kustomize build writes", name)
	case obj.GetAPIVersion() == "" || obj.GetKind() == "":
		return fault(r.source, "%s has an object without apiVersion or kind", name)
	case obj.IsList():
		return r.list(name, obj)
	case obj.GetName() == "":
		return fault(r.source, "%s has a %s without a name", name, obj.GetKind())
	case len(r.objects) >= maxObjects:
		return fault(r.source, "it has more than %d objects; divide it", maxObjects)
	}
	ref := object.Of(obj).Identity()
	if first, twice := r.at[ref]; twice {
		return fault(r.source, "%s has %s, which is in %s already; keep one of them", name, ref.Display(), first)
	}
	r.at[ref] = name
	r.objects = append(r.objects, obj)
	return nil
}

// list takes the objects of a List, which are no lists themselves.
func (r *reading) list(name string, list *unstructured.Unstructured) error {
	items, _, err := unstructured.NestedSlice(list.Object, "items")
	if err != nil {
		return fault(r.source, "%s has a %s whose items are no list", name, list.GetKind())
	}
	for _, each := range items {
		content, is := each.(map[string]any)
		item := &unstructured.Unstructured{Object: content}
		if !is || item.IsList() {
			return fault(r.source, "%s has a %s with an item that is no object", name, list.GetKind())
		}
		if err := r.object(name, item); err != nil {
			return err
		}
	}
	return nil
}
