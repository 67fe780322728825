package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	charts "github.com/slipway-dev/slipway/helm-charts"
)

// maxSchemaBytes bounds the schemas of one API group that are read for a hint;
// the largest of Kubernetes' own have about 2 MB.
const maxSchemaBytes = 32 << 20

// maxHops bounds how many references stand for one schema.
const maxHops = 8

// Schema is what is known of a kind's fields: an OpenAPI schema as a
// CustomResourceDefinition holds it, or as the API server publishes it (OpenAPI
// 3.0, with references).
type Schema struct {
	root map[string]any
	// named are the schemas that a reference may name.
	named map[string]any
}

// FindSchema finds the schema of a kind.
type FindSchema func(context.Context, schema.GroupVersionKind) (Schema, error)

// Carried finds the schemas of the definitions that are in this binary.
func Carried(_ context.Context, kind schema.GroupVersionKind) (Schema, error) {
	files, err := fs.Glob(charts.Files, charts.CRDs+"/*.yaml")
	if err != nil {
		return Schema{}, err
	}
	for _, file := range files {
		text, err := fs.ReadFile(charts.Files, file)
		if err != nil {
			return Schema{}, err
		}
		var definition map[string]any
		if err := yaml.Unmarshal(text, &definition); err != nil {
			return Schema{}, fmt.Errorf("%s: %w", file, err)
		}
		if found := defined(definition, kind); found != nil {
			return Schema{root: withMetadata(found)}, nil
		}
	}
	return Schema{}, fmt.Errorf("this program carries no definition of %s", kind.Kind)
}

// defined gives the schema of a kind in a CustomResourceDefinition, nil where
// that is of another kind.
func defined(definition map[string]any, kind schema.GroupVersionKind) map[string]any {
	group, _, _ := unstructured.NestedString(definition, "spec", "group")
	name, _, _ := unstructured.NestedString(definition, "spec", "names", "kind")
	if group != kind.Group || name != kind.Kind {
		return nil
	}
	versions, _, _ := unstructured.NestedFieldNoCopy(definition, "spec", "versions")
	list, _ := versions.([]any)
	for _, each := range list {
		if version := mapping(each); version["name"] == kind.Version {
			return mapping(mapping(version["schema"])["openAPIV3Schema"])
		}
	}
	return nil
}

// withMetadata adds the fields of every object's metadata that people write,
// which a definition leaves to the API server.
func withMetadata(root map[string]any) map[string]any {
	written := map[string]any{}
	for _, name := range []string{"name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"} {
		written[name] = map[string]any{}
	}
	if properties := mapping(root["properties"]); properties != nil {
		properties["metadata"] = map[string]any{"properties": written}
	}
	return root
}

// Served finds the schemas that an API server publishes, of its own kinds and of
// those that definitions have added.
func Served(server rest.Interface) FindSchema {
	return func(ctx context.Context, kind schema.GroupVersionKind) (Schema, error) {
		path := "/openapi/v3/apis/" + kind.Group + "/" + kind.Version
		if kind.Group == "" {
			path = "/openapi/v3/api/" + kind.Version
		}
		body, err := server.Get().AbsPath(path).SetHeader("Accept", "application/json").Stream(ctx)
		if err != nil {
			return Schema{}, err
		}
		defer body.Close()
		var document map[string]any
		if err := json.NewDecoder(io.LimitReader(body, maxSchemaBytes)).Decode(&document); err != nil {
			return Schema{}, fmt.Errorf("read the schemas of %s: %w", kind.GroupVersion(), err)
		}
		return published(document, kind)
	}
}

// published finds a kind among the schemas of a group.
func published(document map[string]any, kind schema.GroupVersionKind) (Schema, error) {
	named := mapping(mapping(document["components"])["schemas"])
	for _, each := range named {
		kinds, _ := mapping(each)["x-kubernetes-group-version-kind"].([]any)
		for _, entry := range kinds {
			of := mapping(entry)
			if of["group"] == kind.Group && of["version"] == kind.Version && of["kind"] == kind.Kind {
				return Schema{root: mapping(each), named: named}, nil
			}
		}
	}
	return Schema{}, fmt.Errorf("the cluster publishes no schema of %s", kind.Kind)
}

// fields are the fields of the object at a path such as
// "spec.template.spec.containers[0]"; none where the path leads nowhere.
func (s Schema) fields(path string) map[string]any {
	at := s.resolve(s.root)
	if path == "" {
		return mapping(at["properties"])
	}
	for _, step := range strings.Split(path, ".") {
		name, _, _ := strings.Cut(step, "[")
		next, is := mapping(at["properties"])[name]
		if !is {
			next = at["additionalProperties"]
		}
		at = s.resolve(next)
		for range strings.Count(step, "[") {
			at = s.resolve(at["items"])
		}
	}
	return mapping(at["properties"])
}

// resolve follows the references that stand in a schema's place. The API server
// writes one as {allOf: [{$ref: …}]} where it has a description beside it.
func (s Schema) resolve(from any) map[string]any {
	at := mapping(from)
	for range maxHops {
		reference, is := at["$ref"].(string)
		if all, _ := at["allOf"].([]any); !is && len(all) == 1 {
			reference, is = mapping(all[0])["$ref"].(string)
		}
		if !is {
			return at
		}
		at = mapping(s.named[strings.TrimPrefix(reference, "#/components/schemas/")])
	}
	return nil
}

func mapping(from any) map[string]any {
	as, _ := from.(map[string]any)
	return as
}

// misfit finds a value that isn't of its field's type, and says so; the first in
// the order of the names. It is empty when there is none.
func (s Schema) misfit(path string, from any, value any) string {
	at := s.resolve(from)
	wanted, _ := at["type"].(string)
	if got := typeOf(value); wanted != "" && value != nil && got != wanted && (wanted != "number" || got != "integer") {
		advice := "write " + article(wanted)
		if wanted == "string" && got != "object" && got != "array" {
			advice = "put it in quotes"
		}
		return fmt.Sprintf("%s is %s and must be %s; %s", strings.TrimPrefix(path, "."), article(got), article(wanted), advice)
	}
	switch content := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(content)) {
			field, is := mapping(at["properties"])[name]
			if !is {
				field = at["additionalProperties"]
			}
			if misfit := s.misfit(path+"."+name, field, content[name]); misfit != "" {
				return misfit
			}
		}
	case []any:
		for i, each := range content {
			if misfit := s.misfit(fmt.Sprintf("%s[%d]", path, i), at["items"], each); misfit != "" {
				return misfit
			}
		}
	}
	return ""
}

// typeOf is OpenAPI's name of a value's type.
func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "number"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	}
	return ""
}

func article(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}
