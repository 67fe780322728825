// Package image makes container images of a static Go binary without Docker:
// one layer, any server role, any architecture, the same bytes each time. It
// writes them as an archive that containerd, Docker and Podman import, as an
// OCI image layout, or to a registry.
//
// It never runs a container, never compiles and never writes to containerd by
// itself, and it takes nothing into an image from the machine that builds it
// but the binary (docs/adr/0004-images-without-docker.md).
package image

import (
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Binary is the path of the binary in an image that doesn't say another.
const Binary = "/slipway"

// User is the numeric user and group that an image runs as if it doesn't say
// another. It is numeric so that a kubelet can hold runAsNonRoot without reading
// the image's passwd file.
const User = "65532:65532"

// MaxBinaryBytes bounds the binary that Build reads, because it and its layer
// are held in memory.
const MaxBinaryBytes = 1 << 30

// Config says what an image does and how it is described.
type Config struct {
	// Paths are the absolute paths under which the image has the binary; Binary
	// alone if empty. All but the first are links to it. PATH is the folder of
	// the first.
	Paths []string
	// User is the numeric user, or user and group, that the image runs as; the
	// constant of that name if empty.
	User string
	// Entrypoint is what the container always runs; the first path alone if
	// empty. A stand-in for an image whose manifests give only `args` needs its
	// role here, because a pod's args replace Cmd: {Binary, "simulator"}.
	Entrypoint []string
	// Cmd is the role and flags that run when a pod gives no args.
	Cmd []string
	// Env holds variables as NAME=value. PATH and HOME are set without it.
	Env []string
	// Labels are put on the image as they are, and in the manifest as
	// annotations. Describe makes the standard ones.
	Labels map[string]string
	// Created is the image's creation time, cut to seconds; the Unix epoch if
	// zero. File times in the layer never depend on it, so that the same
	// binary is always the same layer.
	Created time.Time
	// Uncompressed leaves the layer as plain tar. It saves both ends the time
	// of gzip where an image doesn't travel: a local import.
	Uncompressed bool
}

// Build makes the image of the Linux binary at path. The architecture is read
// from the binary itself. It fails if the binary is dynamically linked, since
// the image holds no libraries.
//
// The binary is read once: the image stays valid if the file changes.
func Build(path string, config Config) (v1.Image, error) {
	images, err := BuildAll(path, map[string]Config{"": config})
	if err != nil {
		return nil, err
	}
	return images[""], nil
}

// BuildAll makes several images of one binary, under the keys of configs. They
// share their layer wherever Uncompressed and Paths are the same.
func BuildAll(path string, configs map[string]Config) (map[string]v1.Image, error) {
	binary, architecture, err := read(path)
	if err != nil {
		return nil, err
	}
	layers := map[string]v1.Layer{}
	images := make(map[string]v1.Image, len(configs))
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		config := configs[key].withDefaults()
		kind := fmt.Sprint(config.Uncompressed, config.Paths)
		layer, made := layers[kind]
		if !made {
			if layer, err = newLayer(binary, config.Paths, config.Uncompressed); err != nil {
				return nil, fmt.Errorf("pack %s: %w", path, err)
			}
			layers[kind] = layer
		}
		if images[key], err = assemble(layer, architecture, config); err != nil {
			return nil, fmt.Errorf("assemble the image of %s: %w", path, err)
		}
	}
	return images, nil
}

// withDefaults fills in what a Config may leave empty.
func (c Config) withDefaults() Config {
	if len(c.Paths) == 0 {
		c.Paths = []string{Binary}
	}
	if c.User == "" {
		c.User = User
	}
	if len(c.Entrypoint) == 0 {
		c.Entrypoint = c.Paths[:1]
	}
	return c
}

// Index makes the multi-architecture index of images. Each must be of another
// architecture.
func Index(annotations map[string]string, images ...v1.Image) (v1.ImageIndex, error) {
	adds := make([]mutate.IndexAddendum, 0, len(images))
	seen := map[string]bool{}
	for _, img := range images {
		file, err := img.ConfigFile()
		if err != nil {
			return nil, err
		}
		if seen[file.Architecture] {
			return nil, fmt.Errorf("two images are for %s; an index holds one for each architecture", file.Architecture)
		}
		seen[file.Architecture] = true
		adds = append(adds, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: file.OS, Architecture: file.Architecture}},
		})
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), adds...)
	if len(annotations) == 0 {
		return index, nil
	}
	return mutate.Annotations(index, annotations).(v1.ImageIndex), nil
}

// Describe is the set of standard labels of one of Slipway's images. The keys
// are those of the OCI image specification, "Annotations". Empty values are
// left out.
func Describe(title, version, revision string) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":    title,
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.revision": revision,
		"org.opencontainers.image.source":   "https://github.com/slipway-dev/slipway",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

// assemble puts a layer and a configuration without gaps together.
func assemble(layer v1.Layer, architecture string, config Config) (v1.Image, error) {
	created := v1.Time{Time: time.Unix(config.Created.Unix(), 0).UTC()}
	if config.Created.IsZero() {
		created = v1.Time{Time: time.Unix(0, 0).UTC()}
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	configured, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS:           "linux",
		Architecture: architecture,
		Created:      created,
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       config.User,
			Entrypoint: config.Entrypoint,
			Cmd:        config.Cmd,
			Env:        append([]string{"PATH=" + path.Dir(config.Paths[0]), "HOME=/tmp"}, config.Env...),
			Labels:     config.Labels,
			WorkingDir: "/",
		},
	})
	if err != nil {
		return nil, err
	}
	media, err := layer.MediaType()
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(configured, mutate.Addendum{
		Layer:     layer,
		MediaType: media,
		History:   v1.History{Created: created, CreatedBy: "slipway", Comment: "one static binary"},
	})
	if err != nil || len(config.Labels) == 0 {
		return img, err
	}
	return mutate.Annotations(img, config.Labels).(v1.Image), nil
}

// read returns the binary at path and its architecture, as Go names it.
func read(path string) (binary []byte, architecture string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", err
	}
	if info.Size() > MaxBinaryBytes {
		return nil, "", fmt.Errorf("%s has %d bytes; an image holds at most %d", path, info.Size(), MaxBinaryBytes)
	}
	architecture, err = inspect(path)
	if err != nil {
		return nil, "", err
	}
	binary, err = os.ReadFile(path)
	return binary, architecture, err
}

// inspect returns the architecture of the static Linux binary at path.
func inspect(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s is not a Linux binary; build it with GOOS=linux: %w", path, err)
	}
	defer file.Close()
	for _, program := range file.Progs {
		if program.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s is dynamically linked and an image holds no libraries; build it with CGO_ENABLED=0", path)
		}
	}
	switch file.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	default:
		return "", fmt.Errorf("%s is for %s; images are made for amd64 and arm64", path, file.Machine)
	}
}
