package nvidiagpullm_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sigsyaml "sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
	"github.com/slipway-dev/slipway/test/golden"
)

// TestGoldens renders testdata/NAME.in.yaml, with an answer for the first of its
// prompts.
func TestGoldens(t *testing.T) { golden.Each(t, render) }

func render(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	resource := &infrav1.NvidiaGpuLlm{}
	if err := sigsyaml.UnmarshalStrict(text, resource); err != nil {
		t.Fatal(err)
	}
	in := nvidiagpullm.Input{Resource: resource}
	if len(resource.Spec.Prompts) > 0 {
		in.Answers = []nvidiagpullm.Answer{{Text: "A group of containers.", Incomplete: "cut after 5 seconds"}}
	}
	objects, err := nvidiagpullm.Objects(in)
	if err != nil {
		t.Fatal(err)
	}
	out := golden.Manifests(t, objects, nil)
	claim, err := nvidiagpullm.Claim(resource)
	if err != nil {
		t.Fatal(err)
	}
	if claim == nil {
		return out
	}
	made, err := sigsyaml.Marshal(claim)
	if err != nil {
		t.Fatal(err)
	}
	return append(append(out, "---\n"...), made...)
}

// TestAnswersComeBack: what is written to the ConfigMap is read back, and only
// for the run that it belongs to.
func TestAnswersComeBack(t *testing.T) {
	resource := &infrav1.NvidiaGpuLlm{Spec: infrav1.NvidiaGpuLlmSpec{
		Action: infrav1.ActionInstall, LLMName: "pod", Prompts: []string{"one", "two", "three"},
	}}
	answers := []nvidiagpullm.Answer{{Text: "first"}, {Text: "second", Incomplete: "cut after 5 seconds"}}
	objects, err := nvidiagpullm.Objects(nvidiagpullm.Input{Resource: resource, Answers: answers, WithoutPod: true})
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	files := map[string]string{}
	for name, text := range objects[0].Object["data"].(map[string]any) {
		files[name] = text.(string)
	}
	if diff := cmp.Diff(answers, nvidiagpullm.AnswersOf(resource, files)); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	resource.Spec.Model = "another"
	if got := nvidiagpullm.AnswersOf(resource, files); got != nil {
		t.Errorf("another model has the answers %v", got)
	}
}

// TestAnswersFit: the most and longest answers stay below what an object may hold.
func TestAnswersFit(t *testing.T) {
	resource := &infrav1.NvidiaGpuLlm{Spec: infrav1.NvidiaGpuLlmSpec{Action: infrav1.ActionInstall, LLMName: "pod"}}
	var answers []nvidiagpullm.Answer
	for range 64 {
		resource.Spec.Prompts = append(resource.Spec.Prompts, strings.Repeat("ö", 32<<10))
		answers = append(answers, nvidiagpullm.Answer{Text: strings.Repeat("ä", 32<<10)})
	}
	objects, err := nvidiagpullm.Objects(nvidiagpullm.Input{Resource: resource, Answers: answers, WithoutPod: true})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, text := range objects[0].Object["data"].(map[string]any) {
		size += len(text.(string))
	}
	if size > 1_000_000 {
		t.Errorf("the answers take %d bytes", size)
	}
	for _, shown := range nvidiagpullm.Shown(resource, answers) {
		if len(shown.Prompt)+len(shown.Answer) > 1280 || shown.Incomplete == "" {
			t.Fatalf("the status shows %d and %d bytes, incomplete: %q", len(shown.Prompt), len(shown.Answer), shown.Incomplete)
		}
	}
}
