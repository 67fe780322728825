package simulator

import (
	"encoding/json"
	"fmt"
	"strconv"

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
	known := optionsByName()
	given := map[string][]string{}
	for name, value := range keys {
		opt, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("unknown key %q; the keys are the flags' names without --", name)
		}
		if name == "config" {
			return nil, fmt.Errorf("a file can't name another with %q", name)
		}
		if value == nil {
			continue
		}
		items, isList := value.([]any)
		if !isList {
			items = []any{value}
		} else if opt.shape != many && opt.set != nil {
			return nil, fmt.Errorf("%s takes one value, not a list", name)
		}
		for _, item := range items {
			text, err := scalar(item)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			given[name] = append(given[name], text)
		}
	}
	return given, nil
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
