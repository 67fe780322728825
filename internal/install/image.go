package install

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// imageValues are the chart's values for an image name such as
// registry.example.com:5000/llm-operator:v1 or name@sha256:….
func imageValues(image string) (map[string]any, error) {
	rest, digest, hasDigest := strings.Cut(image, "@")
	if _, err := name.ParseReference(image); err != nil {
		return nil, fmt.Errorf("--image %s is no image name: %w; write it as registry/name:tag", image, err)
	}
	repository, tag := rest, ""
	// A colon before a slash belongs to a registry's port.
	if colon := strings.LastIndex(rest, ":"); colon > strings.LastIndex(rest, "/") {
		repository, tag = rest[:colon], rest[colon+1:]
	}
	if tag == "" && !hasDigest {
		tag = "latest"
	}
	return map[string]any{"repository": repository, "tag": tag, "digest": digest}, nil
}
