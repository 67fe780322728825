// Package stack is what `slipway stack` does: it reads PlatformStacks from files and
// presets, writes them, runs the stack engine from this machine or follows the
// operator that does, and tells how they stand. It knows no Helm and renders nothing:
// what is installed is the engine's to decide.
package stack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/platform"
)

// maxBytes of a PlatformStack; the API server takes at most 3 MiB.
const maxBytes = 3 << 20

// Presets are the names of all presets, sorted.
func Presets() []string {
	entries, err := platform.Files.ReadDir(".")
	if err != nil { // They are in the binary.
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, each := range entries {
		names = append(names, each.Name())
	}
	return names
}

// Flavors are the names of a preset's flavors, sorted.
func Flavors(preset string) []string {
	files, err := fs.Glob(platform.Files, preset+"/*.yaml")
	if err != nil {
		return nil
	}
	var names []string
	for _, each := range files {
		if base := path.Base(each); base != platform.Stack && base != platform.Sample {
			names = append(names, strings.TrimSuffix(base, ".yaml"))
		}
	}
	return names
}

// Preset gives the stack of a preset, as one of its flavors has it if that isn't empty.
func Preset(name, flavor string) (*platformv1alpha1.PlatformStack, error) {
	if !slices.Contains(Presets(), name) {
		return nil, fmt.Errorf("there is no preset %q; write %s", name, strings.Join(Presets(), " or "))
	}
	text, err := platform.Files.ReadFile(path.Join(name, platform.Stack))
	if err != nil {
		return nil, err
	}
	stack, err := Read(bytes.NewReader(text))
	if err != nil || flavor == "" {
		return stack, err
	}
	if !slices.Contains(Flavors(name), flavor) {
		return nil, fmt.Errorf("preset %s has no flavor %q; write %s", name, flavor, strings.Join(Flavors(name), " or "))
	}
	differing, err := platform.Files.ReadFile(path.Join(name, flavor+".yaml"))
	if err != nil {
		return nil, err
	}
	return stack, overlay(stack, differing)
}

// Sample is what can be deployed on a preset, as YAML.
func Sample(preset string) ([]byte, error) {
	if !slices.Contains(Presets(), preset) {
		return nil, fmt.Errorf("there is no preset %q; write %s", preset, strings.Join(Presets(), " or "))
	}
	return platform.Files.ReadFile(path.Join(preset, platform.Sample))
}

// Read reads one PlatformStack. A field that isn't known is an error.
func Read(from io.Reader) (*platformv1alpha1.PlatformStack, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("it has more than %d MiB", maxBytes>>20)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var found *platformv1alpha1.PlatformStack
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var content map[string]any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, err
		}
		if len(content) == 0 {
			continue
		}
		if found != nil {
			return nil, errors.New("it holds several objects; give each PlatformStack in a file of its own")
		}
		if found, err = decode(document, content); err != nil {
			return nil, err
		}
	}
	if found == nil {
		return nil, errors.New("there is nothing in it; it must hold a PlatformStack")
	}
	return found, nil
}

func decode(document []byte, content map[string]any) (*platformv1alpha1.PlatformStack, error) {
	if want := platformv1alpha1.GroupVersion.String(); content["apiVersion"] != want || content["kind"] != platformv1alpha1.KindPlatformStack {
		return nil, fmt.Errorf("it holds a %v of %v; it must be a %s of %s", content["kind"], content["apiVersion"], platformv1alpha1.KindPlatformStack, want)
	}
	stack := &platformv1alpha1.PlatformStack{}
	if err := yaml.UnmarshalStrict(document, stack); err != nil {
		return nil, err
	}
	if stack.Name == "" {
		return nil, errors.New("the PlatformStack has no name; set metadata.name")
	}
	return stack, nil
}

// overlay lays values over those of components.
func overlay(stack *platformv1alpha1.PlatformStack, text []byte) error {
	var differing map[string]map[string]any
	if err := yaml.UnmarshalStrict(text, &differing); err != nil {
		return err
	}
	for i := range stack.Spec.Components {
		component := &stack.Spec.Components[i]
		over, is := differing[component.Name]
		if !is {
			continue
		}
		delete(differing, component.Name)
		values := map[string]any{}
		if component.Values != nil {
			if err := yaml.Unmarshal(component.Values.Raw, &values); err != nil {
				return err
			}
		}
		merge(values, over)
		text, err := yaml.Marshal(values)
		if err == nil {
			text, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			return err
		}
		component.Values = &runtime.RawExtension{Raw: text}
	}
	for name := range differing {
		return fmt.Errorf("the flavor has values for %s, which isn't a component of the preset", name)
	}
	return nil
}

// merge lays one map over another; lists are replaced, as Helm does it.
func merge(into, over map[string]any) {
	for key, value := range over {
		below, isMap := value.(map[string]any)
		here, wasMap := into[key].(map[string]any)
		if isMap && wasMap {
			merge(here, below)
			continue
		}
		into[key] = value
	}
}
