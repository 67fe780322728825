package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImageValues(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string][3]string{
		"llm-operator":                          {"llm-operator", "latest", ""},
		"myregistry/llm-operator:v0.1.0":        {"myregistry/llm-operator", "v0.1.0", ""},
		"localhost:5000/op":                     {"localhost:5000/op", "latest", ""},
		"localhost:5000/op:v1":                  {"localhost:5000/op", "v1", ""},
		"ghcr.io/a/b@" + digest:                 {"ghcr.io/a/b", "", digest},
		"registry.example.com:1/a:v1@" + digest: {"registry.example.com:1/a", "v1", digest},
	} {
		got, err := imageValues(image)
		if err != nil {
			t.Errorf("%s: %v", image, err)
		}
		values := map[string]any{"repository": want[0], "tag": want[1], "digest": want[2]}
		if diff := cmp.Diff(values, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", image, diff)
		}
	}
	for _, image := range []string{"", "Upper/Case:v1", "a b", "a:b:c", "a@sha256:short"} {
		if got, err := imageValues(image); err == nil || !strings.Contains(err.Error(), "write it as registry/name:tag") {
			t.Errorf("%q: %v, %v", image, got, err)
		}
	}
}
