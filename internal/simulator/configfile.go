package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile returns the options in a YAML file.
func readFile(path string) (map[string][]string, error) {
	data, err := readBounded(path, maxConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	given, err := parseFile(data)
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", path, err)
	}
	return given, nil
}

// parseFile turns YAML keys into what the same flags would give: a list is
// several values, and an object is the JSON that its flag takes.
func parseFile(data []byte) (map[string][]string, error) {
	var keys map[string]any
	if err := yaml.Unmarshal(data, &keys); err != nil {
		return nil, err
	}
	given := map[string][]string{}
	return given, collect(keys, given, true)
}

// sections are objects of a file whose keys are options too, as
// llm-d-inference-sim groups them since v0.12.
var sections = []string{"latencies", "kvcache"}

// collect adds the options among keys to given. Underscores stand for dashes.
func collect(keys map[string]any, given map[string][]string, top bool) error {
	known := optionsByName()
	names := slices.Sorted(maps.Keys(keys)) // Of several faults the same one is told each time.
	for _, key := range names {
		name, value := strings.ReplaceAll(key, "_", "-"), keys[key]
		if section, isSection := value.(map[string]any); top && isSection && slices.Contains(sections, name) {
			if err := collect(section, given, false); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		opt, ok := known[name]
		switch {
		case !ok:
			return fmt.Errorf("unknown key %q; the keys are the flags' names without --", key)
		case name == "config":
			return errors.New(`a file can't name another with "config"`)
		case value == nil:
			continue
		}
		items, isList := value.([]any)
		if !isList {
			items = []any{value}
		} else if opt.shape != many && opt.set != nil {
			return fmt.Errorf("%s takes one value, not a list", key)
		}
		for _, item := range items {
			text, err := scalar(item)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			given[name] = append(given[name], text)
		}
	}
	return nil
}

// scalar writes a YAML value as it would stand on the command line.
func scalar(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("a value can't be written as JSON: %w", err)
	}
	return string(data), nil
}
