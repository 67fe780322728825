package ollama_test

import (
	"archive/tar"
	"errors"
	"io"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/test/ollama"
	"github.com/slipway-dev/slipway/test/ollama/server"
)

// files lists what an image holds.
func files(t *testing.T, img v1.Image) []string {
	t.Helper()
	stream := mutate.Extract(img)
	defer stream.Close()
	var names []string
	for archive := tar.NewReader(stream); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}

func TestImages(t *testing.T) {
	images, err := ollama.Images(t.Context())
	if errors.Is(err, component.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]struct {
		path       string
		entrypoint string
		cmd        []string
		env        string
	}{
		server.Ref:         {"bin/ollama", "/bin/ollama", []string{"serve"}, "OLLAMA_HOST=0.0.0.0:11434"},
		ollama.RegistryRef: {"registry", "/registry", nil, "HOME=/tmp"},
	} {
		img := images[ref]
		if img == nil {
			t.Fatalf("there is no image %s", ref)
		}
		if names := files(t, img); !slices.Contains(names, want.path) {
			t.Errorf("%s holds %v, not %s", ref, names, want.path)
		}
		file, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config := file.Config
		if !slices.Equal(config.Entrypoint, []string{want.entrypoint}) || !slices.Equal(config.Cmd, want.cmd) ||
			!slices.Contains(config.Env, want.env) || config.User != "0:0" {
			t.Errorf("%s is configured as %+v", ref, config)
		}
	}
}
