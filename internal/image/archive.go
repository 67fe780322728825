package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
)

// Annotations of an archive's index that name an image. containerd's import
// reads the first (its docs, "Image names"); the second is the OCI image
// layout's own.
const (
	containerdName = "io.containerd.image.name"
	ociRefName     = "org.opencontainers.image.ref.name"
)

// FullName is the name under which container runtimes hold the image that a
// manifest calls ref: with its registry and tag, docker.io and latest by
// default.
func FullName(ref string) (string, error) {
	tag, err := name.NewTag(ref, name.WithDefaultRegistry("docker.io"))
	if err != nil {
		return "", fmt.Errorf("%q is no image name: %w", ref, err)
	}
	registry := tag.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	repository := tag.RepositoryStr()
	if registry == "docker.io" && !strings.Contains(repository, "/") {
		repository = "library/" + repository
	}
	return registry + "/" + repository + ":" + tag.TagStr(), nil
}

// WriteArchive writes images to the tar file path, each under its name
// (registry/repository:tag, as a manifest has it). Several names may hold the
// same image; what images share is written once. The file is an OCI image
// layout that is also a Docker archive, so that `ctr images import`, `docker
// load` and `podman load` take it. It appears whole or not at all.
func WriteArchive(path string, images map[string]v1.Image) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write the image archive %s: %w", path, err), file.Close(), os.Remove(file.Name()))
		}
	}()
	archive := archive{tar: tar.NewWriter(file), written: map[string]bool{}}
	if err := archive.write(images); err != nil {
		return err
	}
	if err := archive.tar.Close(); err != nil {
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// archive is an OCI image layout on its way into a tar stream.
type archive struct {
	tar     *tar.Writer
	written map[string]bool
}

// loadable is one image in a Docker archive's manifest.json.
type loadable struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func (a *archive) write(images map[string]v1.Image) error {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: "application/vnd.oci.image.index.v1+json"}
	loads := []loadable{}
	for _, ref := range slices.Sorted(maps.Keys(images)) {
		full, err := FullName(ref)
		if err != nil {
			return err
		}
		load, err := a.image(images[ref])
		if err != nil {
			return fmt.Errorf("image %s: %w", ref, err)
		}
		load.RepoTags = []string{full}
		loads = append(loads, load)
		descriptor, err := describe(images[ref])
		if err != nil {
			return fmt.Errorf("image %s: %w", ref, err)
		}
		descriptor.Annotations = map[string]string{containerdName: full, ociRefName: full[strings.LastIndex(full, ":")+1:]}
		index.Manifests = append(index.Manifests, *descriptor)
	}
	for _, file := range []struct {
		name  string
		value any
	}{
		{"index.json", index},
		{"manifest.json", loads},
		{"oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}},
	} {
		content, err := json.Marshal(file.value)
		if err != nil {
			return err
		}
		if err := a.file(file.name, int64(len(content)), strings.NewReader(string(content))); err != nil {
			return err
		}
	}
	return nil
}

// describe is the descriptor of an image with its platform, by which an
// importer chooses.
func describe(img v1.Image) (*v1.Descriptor, error) {
	descriptor, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	descriptor.Platform = &v1.Platform{OS: file.OS, Architecture: file.Architecture}
	return descriptor, nil
}

// image writes the blobs of an image that the archive doesn't hold yet.
func (a *archive) image(img v1.Image) (loadable, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return loadable{}, err
	}
	raw, err := img.RawManifest()
	if err != nil {
		return loadable{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return loadable{}, err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return loadable{}, err
	}
	load := loadable{Config: blobPath(manifest.Config.Digest)}
	if err := a.blob(digest, int64(len(raw)), strings.NewReader(string(raw))); err != nil {
		return loadable{}, err
	}
	if err := a.blob(manifest.Config.Digest, int64(len(config)), strings.NewReader(string(config))); err != nil {
		return loadable{}, err
	}
	layers, err := img.Layers()
	if err != nil {
		return loadable{}, err
	}
	for i, layer := range layers {
		load.Layers = append(load.Layers, blobPath(manifest.Layers[i].Digest))
		content, err := layer.Compressed()
		if err != nil {
			return loadable{}, err
		}
		err = a.blob(manifest.Layers[i].Digest, manifest.Layers[i].Size, content)
		if err := errors.Join(err, content.Close()); err != nil {
			return loadable{}, err
		}
	}
	return load, nil
}

// blobPath is where an OCI image layout keeps a blob.
func blobPath(digest v1.Hash) string {
	return "blobs/" + digest.Algorithm + "/" + digest.Hex
}

func (a *archive) blob(digest v1.Hash, size int64, content io.Reader) error {
	path := blobPath(digest)
	if a.written[path] {
		return nil
	}
	a.written[path] = true
	return a.file(path, size, content)
}

func (a *archive) file(path string, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(a.tar, content)
	return err
}
