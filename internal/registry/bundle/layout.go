package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/registry"
)

// An OCI layout (OCI image specification, image-layout.md).
const (
	layoutFile = "oci-layout"
	indexFile  = "index.json"
	annotation = "org.opencontainers.image.ref.name"
	// titleAnnotation names the file that a layer is, as oras push writes it (OCI image
	// specification, annotations.md).
	titleAnnotation = "org.opencontainers.image.title"
)

const (
	maxDocument = 4 << 20 // of an index, a manifest
	maxNesting  = 4       // indexes within indexes
)

// store is where an image's parts are.
type store interface {
	// open gives a part and its size.
	open(name string) (io.ReadCloser, int64, error)
}

// directory is a store of files. Nothing outside of it is read.
type directory struct{ root *os.Root }

func (d directory) open(name string) (io.ReadCloser, int64, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, 0, reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("it is a link or no regular file, which isn't followed")
	}
	file, err := d.root.Open(name)
	if err != nil {
		return nil, 0, reason(err)
	}
	return file, info.Size(), nil
}

// document reads a JSON document of a store.
func (s Source) document(source string, from store, name string) ([]byte, error) {
	file, _, err := from.open(name)
	if err != nil {
		return nil, fault(source, "%s can't be read: %v", name, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	if err != nil {
		return nil, fault(source, "%s can't be read: %v", name, err)
	}
	if len(data) > maxDocument {
		return nil, fault(source, "%s has more than %d MiB", name, maxDocument>>20)
	}
	return data, nil
}

// fromLayout reads the image that a tag or a digest names; the only one there is if
// that is empty.
func (s Source) fromLayout(source string, from store, wanted string) (Bundle, error) {
	text, err := s.document(source, from, indexFile)
	if err != nil {
		return Bundle{}, err
	}
	var index registry.Manifest
	if err := json.Unmarshal(text, &index); err != nil {
		return Bundle{}, fault(source, "%s is no JSON; make the layout again", indexFile)
	}
	chosen, err := choose(source, index.Manifests, wanted)
	if err != nil {
		return Bundle{}, err
	}
	for range maxNesting {
		text, err := s.blob(source, from, chosen.Digest, maxDocument)
		if err != nil {
			return Bundle{}, err
		}
		var manifest registry.Manifest
		if err := json.Unmarshal(text, &manifest); err != nil {
			return Bundle{}, fault(source, "the manifest %s is no JSON; make the layout again", chosen.Digest)
		}
		if len(manifest.Manifests) > 0 {
			chosen = platform(manifest.Manifests)
			continue
		}
		tree := newTree(source, s.Limits)
		err = s.layers(tree, manifest.Layers, func(layer registry.Descriptor) ([]byte, error) {
			return s.blob(source, from, layer.Digest, s.Limits.Layer)
		})
		return Bundle{Files: tree.files, Source: source, Digest: chosen.Digest}, err
	}
	return Bundle{}, fault(source, "its indexes are nested more than %d deep", maxNesting)
}

// choose finds the entry of an index that is meant.
func choose(source string, entries []registry.Descriptor, wanted string) (registry.Descriptor, error) {
	var tags []string
	for _, each := range entries {
		tag := each.Annotations[annotation]
		if wanted != "" && (each.Digest == wanted || tag == wanted || strings.HasSuffix(tag, ":"+wanted)) {
			return each, nil
		}
		tags = append(tags, strings.TrimSpace(tag+" "+each.Digest))
	}
	switch {
	case len(entries) == 0:
		return registry.Descriptor{}, fault(source, "its %s names no image", indexFile)
	case wanted != "":
		return registry.Descriptor{}, fault(source, "it has no image %s; it has %s", shorten(wanted), shorten(strings.Join(tags, ", ")))
	case len(entries) > 1 && !slices.ContainsFunc(entries, func(d registry.Descriptor) bool { return d.Platform != nil }):
		return registry.Descriptor{}, fault(source, "it has %d images; say which with @ and its digest: %s", len(entries), shorten(strings.Join(tags, ", ")))
	}
	return platform(entries), nil
}

// platform chooses among the images of an index: a bundle holds no programs, so that
// any will do, and this machine's is as good as another.
func platform(entries []registry.Descriptor) registry.Descriptor {
	for _, architecture := range []string{runtime.GOARCH, "amd64"} {
		for _, each := range entries {
			if each.Platform != nil && each.Platform.Architecture == architecture {
				return each
			}
		}
	}
	return entries[0]
}

// blob reads a part that a digest names, and checks it.
func (s Source) blob(source string, from store, digest string, limit int64) ([]byte, error) {
	if !digestForm.MatchString(digest) {
		return nil, fault(source, "it names a blob %q, whose digest is none of sha256; make it again", shorten(digest))
	}
	file, size, err := from.open(path.Join("blobs", strings.Replace(digest, ":", "/", 1)))
	if err != nil {
		return nil, fault(source, "the blob %s can't be read: %v", digest, err)
	}
	defer file.Close()
	if size > limit {
		return nil, fault(source, "the blob %s has more than %d MiB", digest, limit>>20)
	}
	data, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return nil, fault(source, "the blob %s can't be read: %v", digest, err)
	}
	if got := registry.Digest(data); got != digest {
		return nil, fault(source, "the blob %s has digest %s: it is damaged or was tampered with; get it again", digest, got)
	}
	return data, nil
}

// layers applies layers in their order.
func (s Source) layers(tree *tree, layers []registry.Descriptor, get func(registry.Descriptor) ([]byte, error)) error {
	switch {
	case len(layers) == 0:
		return fault(tree.source, "the image has no layers; it isn't a bundle")
	case len(layers) > s.Limits.Layers:
		return fault(tree.source, "the image has %d layers; at most %d are read", len(layers), s.Limits.Layers)
	}
	for _, each := range layers {
		data, err := get(each)
		if err != nil {
			return err
		}
		if name := each.Annotations[titleAnnotation]; isText(name) && !strings.Contains(each.MediaType, "tar") {
			err = tree.single(name, data)
		} else {
			err = tree.apply(bytes.NewReader(data), int64(len(data)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// image reads a bundle from a registry.
func (s Source) image(ctx context.Context, reference string) (Bundle, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	at, err := parseReference(reference)
	if err != nil {
		return Bundle{}, err
	}
	credentials := registry.Credentials{}
	if s.Credentials != nil {
		if credentials, err = s.Credentials(ctx, at.host, at.path); err != nil {
			return Bundle{}, err
		}
	}
	repository, err := s.Registry.OpenRepository(ctx, at.scheme+at.host+"/"+at.path, credentials)
	if err != nil {
		return Bundle{}, at.explain(err)
	}
	defer repository.Close()
	manifest, named, err := s.manifest(ctx, repository, at)
	if err != nil {
		return Bundle{}, err
	}
	if s.Key != nil {
		if err := s.Key.Check(ctx, repository, named...); err != nil {
			return Bundle{}, at.explain(err)
		}
	}
	tree := newTree(at.String(), s.Limits)
	err = s.layers(tree, manifest.Layers, func(layer registry.Descriptor) ([]byte, error) {
		data, err := repository.Blob(ctx, layer, s.Limits.Layer)
		return data, at.explain(err)
	})
	if err != nil {
		return Bundle{}, err
	}
	return Bundle{Files: tree.files, Source: at.String(), Digest: manifest.Digest}, nil
}

// manifest reads the manifest of an image, and gives the digests that lead to it: of
// the index that the reference names, and of all below it.
func (s Source) manifest(ctx context.Context, repository *registry.Repository, at reference) (registry.Manifest, []string, error) {
	manifest, err := repository.Manifest(ctx, at.version)
	digests := []string{manifest.Digest}
	for nested := 0; err == nil && len(manifest.Manifests) > 0; nested++ {
		if nested >= maxNesting {
			return manifest, nil, fault(at.String(), "its indexes are nested more than %d deep", maxNesting)
		}
		manifest, err = repository.Manifest(ctx, platform(manifest.Manifests).Digest)
		digests = append(digests, manifest.Digest)
	}
	return manifest, digests, at.explain(err)
}
