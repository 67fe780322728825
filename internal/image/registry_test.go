package image

import (
	"debug/elf"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// both is an index of one image for each architecture.
func both(t *testing.T) (v1.ImageIndex, map[string]v1.Image) {
	t.Helper()
	images := map[string]v1.Image{
		"amd64": build(t, program(t, elf.EM_X86_64, false, "amd"), Config{Cmd: []string{"operator"}}),
		"arm64": build(t, program(t, elf.EM_AARCH64, false, "arm"), Config{Cmd: []string{"operator"}}),
	}
	index, err := Index(nil, images["amd64"], images["arm64"])
	if err != nil {
		t.Fatal(err)
	}
	return index, images
}

func TestPushedImageIsPulledByArchitecture(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/llm-operator:v0.1.0"
	index, images := both(t)

	dir := filepath.Join(t.TempDir(), "layout")
	for range 2 { // Writing again replaces.
		if err := WriteLayout(dir, ref, index); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := ReadLayout(dir, ref)
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := Push(t.Context(), ref, stored)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSuffix(ref, ":v0.1.0") + "@" + digest(t, index); pushed != want {
		t.Errorf("pushed as %s, want %s", pushed, want)
	}

	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := remote.Index(tag, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(whole); err != nil {
		t.Errorf("the pulled index is invalid: %v", err)
	}
	for architecture, img := range images {
		pulled, err := remote.Image(tag, remote.WithContext(t.Context()),
			remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(pulled); err != nil {
			t.Errorf("%s: %v", architecture, err)
		}
		if got, want := digest(t, pulled), digest(t, img); got != want {
			t.Errorf("%s: pulled %s, built %s", architecture, got, want)
		}
	}
}

func TestLayoutNamesItsFaults(t *testing.T) {
	index, _ := both(t)
	dir := filepath.Join(t.TempDir(), "layout")
	if _, err := ReadLayout(dir, "a/b:c"); err == nil || !strings.Contains(err.Error(), "build the image first") {
		t.Errorf("no layout: %v", err)
	}
	if err := WriteLayout(dir, "a/b:c", index); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLayout(dir, "a/b:d"); err == nil || !strings.Contains(err.Error(), "holds no image docker.io/a/b:d") {
		t.Errorf("another name: %v", err)
	}
	other := t.TempDir()
	precious := filepath.Join(other, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteLayout(other, "a/b:c", index); err == nil || !strings.Contains(err.Error(), "is no image layout") {
		t.Errorf("a directory of something else: %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("it was removed: %v", err)
	}
}

func TestPushSaysWhatFailed(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	index, _ := both(t)
	if _, err := Push(t.Context(), "No Name", index); err == nil || !strings.Contains(err.Error(), "is no image name") {
		t.Errorf("a bad name: %v", err)
	}
	if _, err := Push(t.Context(), "127.0.0.1:1/a:b", index); err == nil || !strings.Contains(err.Error(), "push 127.0.0.1:1/a:b") {
		t.Errorf("no registry: %v", err)
	}
}
