package plan

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Bounds of what is read.
const (
	// MaxBytes of manifests; the API server takes at most 3 MiB for one object.
	MaxBytes = 16 << 20
	// MaxManifests in them.
	MaxManifests = 1000
)

// Read reads manifests in YAML or JSON: several documents, and lists of objects.
func Read(from io.Reader) ([]*unstructured.Unstructured, error) {
	limited := &io.LimitedReader{R: from, N: MaxBytes + 1}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(limited))
	var manifests []*unstructured.Unstructured
	for number := 1; ; number++ {
		text, err := documents.Read()
		if limited.N <= 0 {
			return nil, fmt.Errorf("the manifests are larger than %d MiB; plan them in parts", MaxBytes>>20)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read document %d: %w", number, err)
		}
		found, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
		manifests = append(manifests, found...)
		if len(manifests) > MaxManifests {
			return nil, fmt.Errorf("there are more than %d manifests; plan them in parts", MaxManifests)
		}
	}
	if len(manifests) == 0 {
		return nil, errors.New("there is no manifest in the input; write at least one document with apiVersion and kind")
	}
	return manifests, nil
}

// parse reads one document: nothing, an object, or a list of objects. A field
// that is there twice is an error.
func parse(text []byte) ([]*unstructured.Unstructured, error) {
	var content any
	if err := yaml.UnmarshalStrict(text, &content); err != nil {
		return nil, err
	}
	if content == nil {
		return nil, nil
	}
	if _, is := content.(map[string]any); !is {
		return nil, errors.New("it is no object; a manifest has apiVersion, kind and metadata")
	}
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	decoded, err := runtime.Decode(unstructured.UnstructuredJSONScheme, raw)
	if err != nil {
		return nil, fmt.Errorf("%w; a manifest needs apiVersion and kind", err)
	}
	if list, is := decoded.(*unstructured.UnstructuredList); is {
		found := make([]*unstructured.Unstructured, 0, len(list.Items))
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
		return found, nil
	}
	object, is := decoded.(*unstructured.Unstructured)
	if !is {
		return nil, errors.New("it is no object; a manifest has apiVersion, kind and metadata")
	}
	return []*unstructured.Unstructured{object}, nil
}
