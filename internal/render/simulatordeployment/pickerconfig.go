package simulatordeployment

import (
	"sigs.k8s.io/yaml"
)

// plugin is one entry of an EndpointPickerConfig
// (inference.networking.x-k8s.io/v1alpha1). The picker decodes it strictly.
type plugin struct {
	Type       string         `json:"type"`
	Parameters map[string]any `json:"parameters,omitempty"`
}

// use is a plugin's place in a profile. Scorers have a weight, always written:
// the picker of v0.4.0 panics on a scorer without one that follows a picker.
type use struct {
	PluginRef string `json:"pluginRef"`
	Weight    *int   `json:"weight,omitempty"`
}

type profile struct {
	Name    string `json:"name"`
	Plugins []use  `json:"plugins"`
}

type pickerConfig struct {
	APIVersion         string    `json:"apiVersion"`
	Kind               string    `json:"kind"`
	Plugins            []plugin  `json:"plugins"`
	SchedulingProfiles []profile `json:"schedulingProfiles"`
}

// pickerConfig is what the picker schedules by: decode pods by the prefix that
// they have in their caches, by their queues and by what is free in them. Where
// both stages are there, each request gets a prefill pod too, by its queue.
func (s stack) pickerConfig() string {
	decode := profile{Name: "decode", Plugins: []use{
		{PluginRef: "decode-filter"},
		weighted("prefix-cache-scorer", 3),
		weighted("queue-scorer", 2),
		weighted("kv-cache-utilization-scorer", 2),
		{PluginRef: "max-score-picker"},
	}}
	plugins := []plugin{
		{Type: "prefix-cache-scorer", Parameters: map[string]any{
			"blockSize": 20, "maxPrefixBlocksToMatch": 256, "lruCapacityPerServer": 31250,
		}},
		{Type: "queue-scorer"},
		{Type: "kv-cache-utilization-scorer"},
		{Type: "decode-filter"},
		{Type: "max-score-picker"},
	}
	profiles := []profile{decode}
	if s.routed() {
		plugins = append(plugins,
			plugin{Type: "prefill-header-handler"},
			plugin{Type: "prefill-filter"},
			plugin{Type: "pd-profile-handler", Parameters: map[string]any{"threshold": 0, "hashBlockSize": 5}})
		profiles = []profile{{Name: "prefill", Plugins: []use{
			{PluginRef: "prefill-filter"}, weighted("queue-scorer", 1), {PluginRef: "max-score-picker"},
		}}, decode}
	} else {
		plugins = append(plugins, plugin{Type: "single-profile-handler"})
	}
	text, err := yaml.Marshal(pickerConfig{
		APIVersion: "inference.networking.x-k8s.io/v1alpha1", Kind: "EndpointPickerConfig",
		Plugins: plugins, SchedulingProfiles: profiles,
	})
	if err != nil {
		panic(err) // strings and numbers always have a YAML form
	}
	return string(text)
}

func weighted(scorer string, weight int) use { return use{PluginRef: scorer, Weight: &weight} }
