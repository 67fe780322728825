package source

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
)

// ReasonInvalidValues is the reason of a release whose values can't be read.
const ReasonInvalidValues = "InvalidValues"

// defaultKey is where a source keeps a values file, by the CRD's default.
const defaultKey = "values.yaml"

// Values says what a chart is given.
type Values struct {
	From   []componentsv1alpha1.ValuesReference
	Inline *runtime.RawExtension
	// Namespace of sources that name none.
	Namespace string
	// Field is what a sentence calls the part of the spec, such as spec.infra.
	Field string
}

// Merge merges values with Helm's precedence: sources in their order as helm's -f,
// then the values written inline, then the paths among them as helm's --set.
// Numbers stay as they are written (json.Number), which is how helm reads files.
// An error is condition's Wait for a source that isn't there, or Stop for what
// can't be read.
func (v Values) Merge(sources map[Source]Data) (map[string]any, error) {
	merged := map[string]any{}
	for i, reference := range v.From {
		from := OfValues(reference, v.Namespace)
		named := fmt.Sprintf("%s.valuesFrom[%d]", v.Field, i)
		data, is := sources[from]
		if !is && !reference.Optional {
			return nil, absent(from, named)
		}
		key := cmp.Or(reference.Key, defaultKey)
		text, has := data[key]
		switch {
		case !has && reference.Optional:
			continue
		case !has:
			return nil, condition.Wait(ReasonSourceNotFound, "%s has no key %s; add it, or change %s.key", from, key, named)
		}
		var err error
		if merged, err = take(merged, reference, from, text); err != nil {
			return nil, err
		}
	}
	if v.Inline == nil {
		return merged, nil
	}
	return inline(merged, v.Inline.Raw, v.Field+".values")
}

// take merges one source.
func take(merged map[string]any, reference componentsv1alpha1.ValuesReference, from Source, text []byte) (map[string]any, error) {
	if reference.TargetPath == "" {
		more, err := decode(text)
		if err != nil {
			// The parser's own words may quote what is secret.
			return nil, condition.Stop(ReasonInvalidValues, "key %s of %s holds no YAML map; correct it", cmp.Or(reference.Key, defaultKey), from)
		}
		return merge(merged, more), nil
	}
	var value any = string(text)
	if reference.Kind == KindConfigMap {
		value = scalar(strings.TrimSuffix(string(text), "\n"))
	}
	if err := assign(merged, reference.TargetPath, value); err != nil {
		return nil, condition.Stop(ReasonInvalidValues, "%w; correct the targetPath of %s", err, from)
	}
	return merged, nil
}

// inline merges the values that the spec holds itself. A key with a dot and a text
// as its value is a path: so a flat map of texts is what helm's --set takes.
func inline(merged map[string]any, raw []byte, named string) (map[string]any, error) {
	given, err := decode(raw)
	if err != nil {
		return nil, condition.Stop(ReasonInvalidValues, "%s is no map; write what a values.yaml holds", named)
	}
	paths := map[string]string{}
	for key, value := range given {
		if text, is := value.(string); is && strings.Contains(key, ".") {
			paths[key] = text
			delete(given, key)
		}
	}
	merged = merge(merged, given)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if err := assign(merged, path, scalar(paths[path])); err != nil {
			return nil, condition.Stop(ReasonInvalidValues, "%w; correct the key %s of %s", err, path, named)
		}
	}
	return merged, nil
}

// decode reads a values file; an empty one is an empty map.
func decode(text []byte) (map[string]any, error) {
	read := map[string]any{}
	err := yaml.Unmarshal(text, &read, func(d *json.Decoder) *json.Decoder {
		d.UseNumber()
		return d
	})
	if read == nil {
		read = map[string]any{}
	}
	return read, err
}

// merge lays one values file over another, as helm does for several -f: maps are
// merged, everything else is replaced, and null stays, so that it takes away what
// the chart has by default.
func merge(under, over map[string]any) map[string]any {
	merged := maps.Clone(under)
	for key, value := range over {
		if above, is := value.(map[string]any); is {
			if below, is := merged[key].(map[string]any); is {
				merged[key] = merge(below, above)
				continue
			}
		}
		merged[key] = value
	}
	return merged
}

// Provide sets a value where there is none at its path.
func Provide(values map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		below, is := values[key]
		if !is {
			below = map[string]any{}
			values[key] = below
		}
		next, is := below.(map[string]any)
		if !is {
			return // someone wrote something else there, null perhaps
		}
		// What was merged may be shared with what it was merged from.
		next = maps.Clone(next)
		values[key], values = next, next
	}
	if _, is := values[path[len(path)-1]]; !is {
		values[path[len(path)-1]] = value
	}
}

// scalar reads a text as helm's --set does: true, false, null and whole numbers
// are those, and text in quotes is text.
func scalar(text string) any {
	if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	switch text {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	if isWhole(text) {
		return json.Number(text)
	}
	return text
}

// isWhole tells a whole number from a text that only looks like one: 007 is a
// text.
func isWhole(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(digits) > 18 || digits[0] == '0' && text != "0" {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

var errEnd = io.ErrUnexpectedEOF

// assign sets the value at a path such as a.b[0].c, and makes what is missing on
// the way. A dot that is part of a key is written \. .
func assign(values map[string]any, path string, value any) error {
	steps, err := parsePath(path)
	if err != nil {
		return err
	}
	made, err := put(values, steps, value)
	if err != nil {
		return fmt.Errorf("path %s: %w", path, err)
	}
	maps.Copy(values, made.(map[string]any))
	return nil
}

// step is a key of a map, or an index of a list.
type step struct {
	key   string
	index int // -1: a key
}

// maxIndex bounds how long a list a path may make.
const maxIndex = 1024

func parsePath(path string) ([]step, error) {
	var steps []step
	reader := bytes.NewBufferString(path)
	key := strings.Builder{}
	flush := func() {
		if key.Len() > 0 {
			steps = append(steps, step{key: key.String(), index: -1})
			key.Reset()
		}
	}
	for {
		c, _, err := reader.ReadRune()
		if err != nil {
			break
		}
		switch c {
		case '\\':
			if c, _, err = reader.ReadRune(); err != nil {
				return nil, fmt.Errorf("path %s ends in a backslash: %w", path, errEnd)
			}
			key.WriteRune(c)
		case '.':
			if key.Len() == 0 && (len(steps) == 0 || steps[len(steps)-1].index < 0) {
				return nil, fmt.Errorf("path %s has a dot without a key before it", path)
			}
			flush()
		case '[':
			flush()
			text, err := reader.ReadString(']')
			index := 0
			if _, bad := fmt.Sscanf(text, "%d]", &index); err != nil || bad != nil || index < 0 || index > maxIndex || len(steps) == 0 {
				return nil, fmt.Errorf("path %s has no index from 0 to %d in its brackets", path, maxIndex)
			}
			steps = append(steps, step{index: index})
		default:
			key.WriteRune(c)
		}
	}
	flush()
	if len(steps) == 0 || strings.HasSuffix(path, ".") && !strings.HasSuffix(path, `\.`) {
		return nil, fmt.Errorf("path %q doesn't end in a key", path)
	}
	return steps, nil
}

// put returns what is there with the value at the end of the steps.
func put(there any, steps []step, value any) (any, error) {
	if len(steps) == 0 {
		return value, nil
	}
	at := steps[0]
	if at.index < 0 {
		current, is := there.(map[string]any)
		if there != nil && !is {
			return nil, fmt.Errorf("there is no map to hold %s", at.key)
		}
		below, err := put(current[at.key], steps[1:], value)
		if err != nil {
			return nil, err
		}
		changed := map[string]any{}
		maps.Copy(changed, current)
		changed[at.key] = below
		return changed, nil
	}
	current, is := there.([]any)
	if there != nil && !is {
		return nil, fmt.Errorf("there is no list to hold [%d]", at.index)
	}
	changed := slices.Clone(current)
	for len(changed) <= at.index {
		changed = append(changed, nil)
	}
	below, err := put(changed[at.index], steps[1:], value)
	changed[at.index] = below
	return changed, err
}
