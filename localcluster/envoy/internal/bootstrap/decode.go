package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"sigs.k8s.io/yaml"
)

// MaxSize bounds a bootstrap's text, in bytes. The largest that Slipway renders
// has some thousands.
const MaxSize = 1 << 20

// decode reads YAML, of which JSON is a part, into Envoy's own message. Every
// key must exist and stand there once.
func decode(text []byte) (*bootstrapv3.Bootstrap, error) {
	if len(text) > MaxSize {
		return nil, fault("", "the bootstrap has %d bytes; at most %d are read", len(text), MaxSize)
	}
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fault("", "the bootstrap is no YAML: %s", oneLine(err.Error()))
	}
	message := &bootstrapv3.Bootstrap{}
	decodeErr := protojson.Unmarshal(data, message)
	if decodeErr == nil {
		return message, nil
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fault("", "%s", oneLine(err.Error()))
	}
	if _, ok := tree.(map[string]any); !ok {
		return nil, fault("", "the bootstrap is no mapping of fields to values")
	}
	if err := locate(tree, message.ProtoReflect().Type(), ""); err != nil {
		return nil, err
	}
	return nil, fault("", "%s", oneLine(decodeErr.Error()))
}

// locate finds the field that can't be decoded, by trying each alone and going
// on into the one that fails. It returns nil if they all can be.
func locate(tree any, kind protoreflect.MessageType, path string) error {
	object, ok := tree.(map[string]any)
	if !ok {
		return fault(path, "must be a mapping of fields to values")
	}
	if kind.Descriptor().FullName() == "google.protobuf.Any" {
		return locateInAny(object, path)
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value := object[key]
		err := try(map[string]any{key: value}, kind)
		if err == nil {
			continue
		}
		field := fieldOf(kind.Descriptor(), key)
		if field == nil {
			return fault(join(path, key), "Envoy has no such field")
		}
		if deeper := locateInField(value, field, join(path, field.TextName())); deeper != nil {
			return deeper
		}
		return fault(join(path, field.TextName()), "%s", oneLine(err.Error()))
	}
	return nil
}

func locateInAny(object map[string]any, path string) error {
	url, _ := object["@type"].(string)
	if url == "" {
		return fault(path, "a typed_config needs @type")
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	if err != nil {
		return unsupported(join(path, "@type"), url)
	}
	rest := maps.Clone(object)
	delete(rest, "@type")
	return locate(rest, kind, path)
}

func locateInField(value any, field protoreflect.FieldDescriptor, path string) error {
	target := field
	if field.IsMap() {
		target = field.MapValue()
	}
	if target.Message() == nil {
		return nil
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(target.Message().FullName())
	if err != nil {
		return nil //nolint:nilerr // whatever isn't registered, the caller reports as a whole
	}
	if name := kind.Descriptor().FullName(); name.Parent() == "google.protobuf" && name != "google.protobuf.Any" {
		return nil
	}
	switch value := value.(type) {
	case []any:
		for i, one := range value {
			if err := locate(one, kind, index(path, i)); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		if !field.IsMap() {
			return locate(value, kind, path)
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if err := locate(value[key], kind, fmt.Sprintf("%s[%s]", path, key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// try decodes an object as a message of a kind.
func try(object map[string]any, kind protoreflect.MessageType) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(data, kind.New().Interface())
}

func fieldOf(kind protoreflect.MessageDescriptor, key string) protoreflect.FieldDescriptor {
	if field := kind.Fields().ByJSONName(key); field != nil {
		return field
	}
	return kind.Fields().ByTextName(key)
}
