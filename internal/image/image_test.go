package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// program writes the smallest ELF file of a machine that is read as a static
// binary, followed by padding, and returns its path.
func program(t *testing.T, machine elf.Machine, dynamic bool, padding string) string {
	t.Helper()
	var buffer bytes.Buffer
	header := elf.Header64{
		Ident:     [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:      uint16(elf.ET_EXEC),
		Machine:   uint16(machine),
		Version:   uint32(elf.EV_CURRENT),
		Phoff:     64,
		Ehsize:    64,
		Phentsize: 56,
		Phnum:     1,
	}
	segment := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	if dynamic {
		segment.Type = uint32(elf.PT_INTERP)
	}
	for _, part := range []any{header, segment} {
		if err := binary.Write(&buffer, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	buffer.WriteString(padding)
	path := filepath.Join(t.TempDir(), "slipway")
	if err := os.WriteFile(path, buffer.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func build(t *testing.T, path string, config Config) v1.Image {
	t.Helper()
	img, err := Build(path, config)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func digest(t *testing.T, of interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	hash, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

func TestBuildRunsAsNobody(t *testing.T) {
	labels := Describe("Slipway", "v1.2.3", "")
	img := build(t, program(t, elf.EM_AARCH64, false, "x"), Config{
		Cmd: []string{"operator"}, Labels: labels, Created: time.Unix(1700000000, 999), Env: []string{"A=b"},
	})
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		User: "65532:65532", Entrypoint: []string{"/slipway"}, Cmd: []string{"operator"},
		Env: []string{"PATH=/", "HOME=/tmp", "A=b"}, Labels: labels, WorkingDir: "/",
	}
	if diff := cmp.Diff(want, file.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if file.OS != "linux" || file.Architecture != "arm64" || !file.Created.Equal(time.Unix(1700000000, 0)) {
		t.Errorf("got %s/%s created %v", file.OS, file.Architecture, file.Created)
	}
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(labels, manifest.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if manifest.MediaType != types.OCIManifestSchema1 || manifest.Layers[0].MediaType != types.OCILayer {
		t.Errorf("media types %s, %s are not OCI's", manifest.MediaType, manifest.Layers[0].MediaType)
	}
	if _, empty := labels["org.opencontainers.image.revision"]; empty {
		t.Error("an empty label was kept")
	}
}

func TestLayerHoldsTheBinaryAndNothingWritableButTmp(t *testing.T) {
	path := program(t, elf.EM_X86_64, false, "payload")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, uncompressed := range []bool{false, true} {
		layers, err := build(t, path, Config{Uncompressed: uncompressed}).Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		reader, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		modes := map[string]int64{}
		archive := tar.NewReader(reader)
		for {
			header, err := archive.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			modes[header.Name] = header.Mode
			if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 0 {
				t.Errorf("%s belongs to %d:%d at %v", header.Name, header.Uid, header.Gid, header.ModTime)
			}
			if header.Name != "slipway" {
				continue
			}
			if got, err := io.ReadAll(archive); err != nil || !bytes.Equal(got, content) {
				t.Errorf("the binary has changed on its way (%v)", err)
			}
		}
		want := map[string]int64{"etc/": 0o755, "etc/group": 0o644, "etc/passwd": 0o644, "slipway": 0o755, "tmp/": 0o1777}
		if diff := cmp.Diff(want, modes); diff != "" {
			t.Errorf("modes (-want +got):\n%s", diff)
		}
	}
}

func TestAnImageOfAnotherProjectsLayout(t *testing.T) {
	img := build(t, program(t, elf.EM_X86_64, false, "payload"), Config{
		Paths: []string{"/usr/local/bin/proxy", "/usr/local/bin/wrapper"}, User: "1337:1337",
		Entrypoint: []string{"/usr/local/bin/wrapper"},
	})
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		User: "1337:1337", Entrypoint: []string{"/usr/local/bin/wrapper"},
		Env: []string{"PATH=/usr/local/bin", "HOME=/tmp"}, WorkingDir: "/",
	}
	if diff := cmp.Diff(want, file.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	archive := tar.NewReader(reader)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := header.Name
		if header.Typeflag == tar.TypeSymlink {
			name += " -> " + header.Linkname
		}
		names = append(names, name)
	}
	tree := []string{
		"etc/", "etc/group", "etc/passwd", "tmp/", "usr/", "usr/local/", "usr/local/bin/",
		"usr/local/bin/proxy", "usr/local/bin/wrapper -> /usr/local/bin/proxy",
	}
	if diff := cmp.Diff(tree, names); diff != "" {
		t.Errorf("the root file system, parents first (-want +got):\n%s", diff)
	}
}

func TestTheSameInputIsTheSameImage(t *testing.T) {
	config := Config{Cmd: []string{"operator"}, Labels: Describe("a", "b", "c")}
	first, second := program(t, elf.EM_X86_64, false, "one"), program(t, elf.EM_X86_64, false, "one")
	if err := os.Chtimes(second, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	want := digest(t, build(t, first, config))
	if got := digest(t, build(t, second, config)); got != want {
		t.Errorf("the same binary gave %s and %s", want, got)
	}
	changed := map[string]v1.Image{
		"another binary": build(t, program(t, elf.EM_X86_64, false, "two"), config),
		"another role":   build(t, first, Config{Cmd: []string{"simulator"}, Labels: config.Labels}),
		"another time":   build(t, first, Config{Cmd: config.Cmd, Labels: config.Labels, Created: time.Unix(5, 0)}),
		"another path":   build(t, first, Config{Cmd: config.Cmd, Labels: config.Labels, Paths: []string{"/app/a"}}),
		"another user":   build(t, first, Config{Cmd: config.Cmd, Labels: config.Labels, User: "1"}),
	}
	for what, img := range changed {
		if got := digest(t, img); got == want {
			t.Errorf("%s gave the same image", what)
		}
	}
}

func TestRolesShareTheirLayer(t *testing.T) {
	images, err := BuildAll(program(t, elf.EM_X86_64, false, ""), map[string]Config{
		"operator":  {Cmd: []string{"operator"}},
		"simulator": {Entrypoint: []string{Binary, "simulator"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	layers := map[string]bool{}
	for role, img := range images {
		list, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		layers[digest(t, list[0])] = true
		file, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if command := strings.Join(append(file.Config.Entrypoint, file.Config.Cmd...), " "); command != "/slipway "+role {
			t.Errorf("%s runs %q", role, command)
		}
	}
	if len(layers) != 1 {
		t.Errorf("two roles of one binary have layers %v", layers)
	}
}

func TestBuildRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ path, message string }{
		"a script":              {text, "build it with GOOS=linux"},
		"a dynamic binary":      {program(t, elf.EM_X86_64, true, ""), "build it with CGO_ENABLED=0"},
		"another machine":       {program(t, elf.EM_S390, false, ""), "images are made for amd64 and arm64"},
		"a file that is absent": {text + "x", "no such file"},
	} {
		if _, err := Build(test.path, Config{}); err == nil || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: got %v, want %q", name, err, test.message)
		}
	}
}

func TestIndexHoldsEachArchitectureOnce(t *testing.T) {
	amd, arm := build(t, program(t, elf.EM_X86_64, false, ""), Config{}), build(t, program(t, elf.EM_AARCH64, false, ""), Config{})
	index, err := Index(map[string]string{"a": "b"}, amd, arm)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, descriptor := range manifest.Manifests {
		found[descriptor.Platform.String()] = descriptor.Digest.String()
	}
	if diff := cmp.Diff(map[string]string{"linux/amd64": digest(t, amd), "linux/arm64": digest(t, arm)}, found); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	if !maps.Equal(manifest.Annotations, map[string]string{"a": "b"}) {
		t.Errorf("annotations %v", manifest.Annotations)
	}
	if _, err := Index(nil, amd, amd); err == nil || !strings.Contains(err.Error(), "two images are for amd64") {
		t.Errorf("a repeated architecture: %v", err)
	}
}
