package stack_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/cli/stack"
	"github.com/slipway-dev/slipway/platform"
)

// TestPresets: every file of every preset is used, and flavors differ in values only.
func TestPresets(t *testing.T) {
	if diff := cmp.Diff([]string{"xks"}, stack.Presets()); diff != "" {
		t.Error(diff)
	}
	for _, preset := range stack.Presets() {
		plain, err := stack.Preset(preset, "")
		if err != nil {
			t.Fatal(err)
		}
		if plain.Name != preset {
			t.Errorf("preset %s makes the stack %s", preset, plain.Name)
		}
		for _, flavor := range stack.Flavors(preset) {
			other, err := stack.Preset(preset, flavor)
			if err != nil {
				t.Fatal(err)
			}
			if cmp.Equal(plain, other) {
				t.Errorf("flavor %s changes nothing", flavor)
			}
			for i := range other.Spec.Components {
				other.Spec.Components[i].Values = plain.Spec.Components[i].Values
			}
			if diff := cmp.Diff(plain, other); diff != "" {
				t.Errorf("flavor %s: %s", flavor, diff)
			}
		}
		if sample, err := stack.Sample(preset); err != nil || !bytes.Contains(sample, []byte("kind: LLMInferenceService")) {
			t.Errorf("%s, %v", sample, err)
		}
	}
	count := 0
	err := fs.WalkDir(platform.Files, ".", func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			count++
		}
		return err
	})
	if flavors := stack.Flavors("xks"); err != nil || count != len(flavors)+2 || !slices.Contains(flavors, "aks") || !slices.Contains(flavors, "coreweave") {
		t.Errorf("%d files, flavors %v, %v", count, flavors, err)
	}
}

// TestXKSIsWhatTheSpecificationSays: components, versions, and the names of registries.
func TestXKSIsWhatTheSpecificationSays(t *testing.T) {
	xks, err := stack.Preset("xks", "")
	if err != nil {
		t.Fatal(err)
	}
	var images []string
	var loop *platformv1alpha1.AnnotateHook
	for _, each := range xks.Spec.Components {
		if each.Source.Bundle != nil {
			images = append(images, each.Source.Bundle.Image)
		}
		if each.Hooks != nil {
			for _, hook := range each.Hooks.After {
				if hook.Annotate != nil {
					loop = hook.Annotate
				}
			}
		}
	}
	want := []string{
		"registry.redhat.io/cert-manager/cert-manager-operator-bundle:v1.15.2",
		"registry.redhat.io/openshift-service-mesh/istio-sail-operator-bundle:3.2.1",
		"registry.redhat.io/leader-worker-set/lws-operator-bundle:1.0",
	}
	if diff := cmp.Diff(want, images); diff != "" {
		t.Error(diff)
	}
	if loop == nil || loop.Name != "istio-sidecar-injector" || loop.Annotations["sailoperator.io/ignore"] != "true" || !loop.Keep {
		t.Errorf("the workaround is %v", loop)
	}
}

func TestFlavorsAreMerged(t *testing.T) {
	made, err := stack.Preset("xks", "aks")
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range made.Spec.Components {
		if each.Name != "kserve" {
			continue
		}
		var values struct {
			Kserve struct {
				Controller struct{ DeploymentMode string }
				Llmisvc    struct{ Controller struct{ Tolerations []any } }
			}
		}
		if err := yaml.Unmarshal(each.Values.Raw, &values); err != nil {
			t.Fatal(err)
		}
		if values.Kserve.Controller.DeploymentMode != "Standard" || len(values.Kserve.Llmisvc.Controller.Tolerations) != 1 {
			t.Errorf("%s", each.Values.Raw)
		}
	}
}

func TestReadSentences(t *testing.T) {
	const head = "apiVersion: platform.slipway.dev/v1alpha1\nkind: PlatformStack\n"
	for want, text := range map[string]string{
		"there is nothing in it":           "# nothing\n---\n",
		"holds a ConfigMap of v1":          "apiVersion: v1\nkind: ConfigMap\n",
		"has no name":                      head + "spec: {components: []}\n",
		`unknown field "component"`:        head + "metadata: {name: a}\nspec: {component: []}\n",
		"it holds several objects":         head + "metadata: {name: a}\n---\n" + head,
		"yaml:":                            "a: [\n",
		"has more than 3 MiB":              strings.Repeat("#", 4<<20),
		"cannot unmarshal string into Go ": head + "metadata: {name: a}\nspec: all\n",
	} {
		_, err := stack.Read(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	_, none := stack.Preset("xls", "")
	_, flavorless := stack.Preset("xks", "eks")
	if told := errors.Join(none, flavorless).Error(); told != "there is no preset \"xls\"; write xks\npreset xks has no flavor \"eks\"; write aks or coreweave" {
		t.Error(told)
	}
}

// TestDocument: the stack that the document shows can be read.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/platform.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```yaml\n")
	shown, _, ended := strings.Cut(after, "```")
	if !found || !ended {
		t.Fatal("docs/platform.md shows no stack")
	}
	if made, err := stack.Read(strings.NewReader(shown)); err != nil || len(made.Spec.Components) != 2 {
		t.Errorf("%v", err)
	}
}
