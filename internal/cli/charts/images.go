package charts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// imageForm is the name of an image as a container runtime takes it. A text with
// blanks or a template's braces is none.
var imageForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*(:[0-9]+)?(/[a-zA-Z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?$`)

// relatedImage is how the name of an environment variable begins by which an operator
// is told of an image that it will need (Operator Framework's convention).
const relatedImage = "RELATED_IMAGE_"

// Images are the images that manifests refer to, sorted, each once. They are looked
// for wherever a pod template may be, in kinds that aren't known too: each field
// image, as a text or as registry, repository and tag; the reference of a volume that
// is an image; and the environment's RELATED_IMAGE_ variables.
func Images(manifests string) ([]string, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	var found []string
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			slices.Sort(found)
			return slices.Compact(found), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what was rendered: %w", err)
		}
		var object any
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, fmt.Errorf("what was rendered is no YAML: %w", err)
		}
		if fields, is := object.(map[string]any); is && fields["kind"] == "CustomResourceDefinition" {
			continue // It speaks of images that others may name.
		}
		found = append(found, imagesIn(object)...)
	}
}

// imagesIn walks through an object.
func imagesIn(value any) []string {
	var found []string
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			found = append(found, imagesIn(item)...)
		}
	case map[string]any:
		if name, is := value["name"].(string); is && strings.HasPrefix(name, relatedImage) {
			found = append(found, imageOf(value["value"])...)
		}
		for key, field := range value {
			if key == "image" {
				found = append(found, imageOf(field)...)
			}
			found = append(found, imagesIn(field)...)
		}
	}
	return found
}

// imageOf reads a field that names an image.
func imageOf(field any) []string {
	name := ""
	switch field := field.(type) {
	case string:
		name = field
	case map[string]any:
		text := func(key string) string { return scalar(field[key]) }
		if name = text("reference"); name == "" {
			name = text("repository")
			if host := text("registry"); host != "" && name != "" {
				name = strings.TrimSuffix(host, "/") + "/" + name
			}
			if tag := text("tag"); tag != "" && name != "" {
				name += ":" + tag
			}
			if digest := text("digest"); digest != "" && name != "" {
				name += "@" + digest
			}
		}
	}
	if !imageForm.MatchString(name) {
		return nil
	}
	return []string{name}
}

// scalar is a text, or a number such as a tag 1.2 that nobody quoted.
func scalar(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case float64, int64:
		return fmt.Sprint(value)
	default:
		return ""
	}
}
