package image

import (
	"archive/tar"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// unpack writes the archive at path into a directory and counts each name.
func unpack(t *testing.T, path string) (dir string, names map[string]int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dir, names = t.TempDir(), map[string]int{}
	archive := tar.NewReader(file)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir, names
		}
		if err != nil {
			t.Fatal(err)
		}
		names[header.Name]++
		target := filepath.Join(dir, header.Name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchiveIsReadByOCIAndDocker(t *testing.T) {
	images, err := BuildAll(program(t, elf.EM_X86_64, false, "payload"), map[string]Config{
		"ghcr.io/slipway-dev/slipway:v0.1.0": {Cmd: []string{"operator"}},
		"your-registry/gpt-small:v1":         {Entrypoint: []string{Binary, "simulator"}},
		"ollama/ollama":                      {Entrypoint: []string{Binary, "simulator"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "images.tar")
	if err := WriteArchive(path, images); err != nil {
		t.Fatal(err)
	}
	dir, names := unpack(t, path)
	for blob, count := range names {
		if count != 1 {
			t.Errorf("%s is in the archive %d times", blob, count)
		}
	}

	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, descriptor := range manifest.Manifests {
		got[descriptor.Annotations[containerdName]] = descriptor.Digest.String()
		img, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(img); err != nil {
			t.Errorf("%s: %v", descriptor.Annotations[containerdName], err)
		}
	}
	want := map[string]string{
		"ghcr.io/slipway-dev/slipway:v0.1.0":   digest(t, images["ghcr.io/slipway-dev/slipway:v0.1.0"]),
		"docker.io/your-registry/gpt-small:v1": digest(t, images["your-registry/gpt-small:v1"]),
		"docker.io/ollama/ollama:latest":       digest(t, images["ollama/ollama"]),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names for containerd (-want +got):\n%s", diff)
	}

	tag, err := name.NewTag("docker.io/your-registry/gpt-small:v1")
	if err != nil {
		t.Fatal(err)
	}
	docker, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		t.Fatalf("as a Docker archive: %v", err)
	}
	if err := validate.Image(docker); err != nil {
		t.Errorf("as a Docker archive: %v", err)
	}
}

func TestArchiveIsReproducibleAndHasNoTraceOfAFailure(t *testing.T) {
	img := build(t, program(t, elf.EM_X86_64, false, "payload"), Config{Uncompressed: true})
	dir := t.TempDir()
	var first []byte
	for _, file := range []string{"a.tar", "b.tar"} {
		if err := WriteArchive(filepath.Join(dir, file), map[string]v1.Image{"a:1": img, "b:1": img}); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = content
		} else if string(first) != string(content) {
			t.Error("the same images gave two different archives")
		}
	}
	if err := WriteArchive(filepath.Join(dir, "c.tar"), map[string]v1.Image{"Not A Name": img}); err == nil {
		t.Error("a bad name was accepted")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("a failed write left %v (%v)", left, err)
	}
}

func TestUncompressedImageIsValid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.tar")
	img := build(t, program(t, elf.EM_X86_64, false, "payload"), Config{Uncompressed: true})
	if err := WriteArchive(path, map[string]v1.Image{"a:1": img}); err != nil {
		t.Fatal(err)
	}
	dir, _ := unpack(t, path)
	content, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(content, &index); err != nil {
		t.Fatal(err)
	}
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	layer := manifest.Layers[0]
	blob, err := os.Open(filepath.Join(dir, blobPath(layer.Digest)))
	if err != nil {
		t.Fatal(err)
	}
	defer blob.Close()
	hash, size, err := v1.SHA256(blob)
	if err != nil || hash != layer.Digest || size != layer.Size {
		t.Errorf("the layer is %s of %d bytes, want %s of %d (%v)", hash, size, layer.Digest, layer.Size, err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.RootFS.DiffIDs[0] != layer.Digest {
		t.Error("the diff ID of a plain tar layer is its digest")
	}
}

func TestFullName(t *testing.T) {
	for ref, want := range map[string]string{
		"your-registry/gpt-small:v1":         "docker.io/your-registry/gpt-small:v1",
		"busybox":                            "docker.io/library/busybox:latest",
		"docker.io/busybox:1":                "docker.io/library/busybox:1",
		"index.docker.io/library/busybox:1":  "docker.io/library/busybox:1",
		"localhost:5000/a:b":                 "localhost:5000/a:b",
		"ghcr.io/slipway-dev/slipway:v0.1.0": "ghcr.io/slipway-dev/slipway:v0.1.0",
	} {
		if got, err := FullName(ref); err != nil || got != want {
			t.Errorf("%s: got %s (%v), want %s", ref, got, err, want)
		}
	}
	if _, err := FullName("Upper/Case"); err == nil || !strings.Contains(err.Error(), "is no image name") {
		t.Errorf("a bad name: %v", err)
	}
}
