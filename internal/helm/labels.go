package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// labeler is a post-renderer that puts labels on every object. It changes the
// YAML's nodes and nothing else, so that every number and string stays as the
// chart wrote it.
type labeler map[string]string

// Run implements postrenderer.PostRenderer.
func (l labeler) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	result := &bytes.Buffer{}
	decoder := yaml.NewDecoder(rendered)
	encoder := yaml.NewEncoder(result)
	encoder.SetIndent(2)
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return result, encoder.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("read the rendered objects: %w", err)
		}
		if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
			continue
		}
		l.label(document.Content[0])
		if err := encoder.Encode(&document); err != nil {
			return nil, fmt.Errorf("write the rendered objects: %w", err)
		}
	}
}

// label labels an object, or the objects of a list.
func (l labeler) label(object *yaml.Node) {
	if object.Kind != yaml.MappingNode {
		return
	}
	if items := field(object, "items"); items != nil && items.Kind == yaml.SequenceNode && field(object, "metadata") == nil {
		for _, item := range items.Content {
			l.label(item)
		}
		return
	}
	labels := ensure(ensure(object, "metadata"), "labels")
	for _, key := range slices.Sorted(maps.Keys(l)) {
		value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: l[key]}
		if there := field(labels, key); there != nil {
			*there = *value
			continue
		}
		labels.Content = append(labels.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
	}
}

// field is the value of a mapping's key, or nil.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// ensure is the mapping under a mapping's key, made if it isn't there or empty.
func ensure(mapping *yaml.Node, key string) *yaml.Node {
	there := field(mapping, key)
	if there == nil {
		there = &yaml.Node{Kind: yaml.MappingNode}
		mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, there)
	}
	if there.Kind == yaml.AliasNode { // labels: *shared, which others refer to
		copied := *there.Alias
		copied.Anchor, copied.Content = "", slices.Clone(copied.Content)
		*there = copied
	}
	if there.Kind != yaml.MappingNode {
		*there = yaml.Node{Kind: yaml.MappingNode}
	}
	return there
}
