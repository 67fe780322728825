// Package ollama gives a local cluster what tests with a real Ollama need: its
// image, and that of a registry with small models. The parts are in the packages
// below it. It never starts a cluster.
package ollama

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slipway-dev/slipway/internal/cluster"
	"github.com/slipway-dev/slipway/internal/image"
	"github.com/slipway-dev/slipway/test/ollama/server"
)

// RegistryRef is the name of the registry's image. It needs no registry: only
// the cluster has it. Its program serves plain HTTP on port 80, as root.
const RegistryRef = "registry.example/slipway/ollama-registry:latest"

// RegistryImage is the image of test/ollama/registry/program. The working
// directory is within this checkout.
func RegistryImage(ctx context.Context) (v1.Image, error) {
	scratch, err := os.MkdirTemp("", "ollama-registry-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	program := filepath.Join(scratch, "registry")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program,
		"github.com/slipway-dev/slipway/test/ollama/registry/program")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the registry for Ollama: %w: %s", err, out)
	}
	return image.Build(program, image.Config{
		Paths: []string{"/registry"}, User: "0:0", Uncompressed: true,
	})
}

// Images are both images by their names. Without a C compiler the error is
// component.ErrNoCompiler.
func Images(ctx context.Context) (map[string]v1.Image, error) {
	ollama, err := server.Image(ctx)
	if err != nil {
		return nil, err
	}
	registry, err := RegistryImage(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]v1.Image{server.Ref: ollama, RegistryRef: registry}, nil
}

// Load gives a running cluster both images.
func Load(ctx context.Context, name string) error {
	images, err := Images(ctx)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "ollama-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	path := filepath.Join(scratch, "images.tar")
	if err := image.WriteArchive(path, images); err != nil {
		return err
	}
	archive, err := os.Open(path)
	if err != nil {
		return err
	}
	defer archive.Close()
	return cluster.LoadImage(ctx, name, nil, archive)
}
