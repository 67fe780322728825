// Package manifests brings plain manifests: from a directory, an OCI artifact, or a
// file at a URL. It bounds what it reads, checks digests and gives the objects; it
// writes nothing, and runs neither kustomize nor templates.
package manifests

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/registry/bundle"
)

// Where says where manifests are: at exactly one of Path, Image and URL.
type Where struct {
	// Path of a directory with YAML and JSON files in it, at any depth, or of one file,
	// which may be a tar archive of them.
	Path string
	// Image is an OCI artifact, as registry/path:tag or registry/path@sha256:…, whose
	// layers are tar archives (as flux push and images have them) or files (oras push).
	Image string
	// URL of a file, as for Path. It needs a digest.
	URL string
	// Digest, if set, is what the manifests must have: of the file, the artifact's
	// manifest, or a directory as Manifests.Digest tells it.
	Digest string
}

// Manifests are what was found.
type Manifests struct {
	// Objects in the order of files and documents. No two are the same.
	Objects []*unstructured.Unstructured
	// Source says where they are from, without anything secret.
	Source string
	// Digest of the file or the artifact's manifest: sha256:… in hexadecimal. A
	// directory's is made of its files' names and contents.
	Digest string
}

// Source brings manifests.
type Source struct {
	// Images is how artifacts are fetched: its Registry, Credentials, Key and Limits.
	Images bundle.Source
}

// Bounds of a file that isn't in a registry.
const (
	maxFile   = 32 << 20 // large enough for CRDs of the largest projects, all in one
	fetchTime = 2 * time.Minute
)

func fault(source, format string, arguments ...any) *bundle.Error {
	return &bundle.Error{Source: source, Why: fmt.Sprintf(format, arguments...)}
}

// Fetch brings manifests. An error is a *bundle.Error, of one line, or the context's.
func (s Source) Fetch(ctx context.Context, where Where) (Manifests, error) {
	found, err := s.files(ctx, where)
	if err != nil {
		return Manifests{}, err
	}
	if where.Digest != "" && where.Digest != found.digest {
		return Manifests{}, fault(found.source, "it has digest %s, not %s: don't use it, or correct the digest if it is the one that you mean", found.digest, where.Digest)
	}
	objects, err := parse(found)
	if err != nil {
		return Manifests{}, err
	}
	return Manifests{Objects: objects, Source: found.source, Digest: found.digest}, nil
}

// found are files as they were fetched.
type found struct {
	files          map[string][]byte
	source, digest string
}

func (s Source) files(ctx context.Context, where Where) (found, error) {
	given := slices.DeleteFunc([]string{where.Path, where.Image, where.URL}, func(v string) bool { return v == "" })
	switch {
	case len(given) != 1:
		return found{}, fault("the manifests", "they need exactly one of path, image and url")
	case where.Image != "":
		return s.artifact(ctx, where)
	case s.Images.Key != nil:
		return found{}, fault(given[0], "a signature can be checked in a registry only; leave the key out, or publish the manifests as an OCI artifact")
	case where.URL != "":
		return s.remote(ctx, where)
	}
	return s.local(ctx, where.Path)
}

// artifact reads from a registry.
func (s Source) artifact(ctx context.Context, where Where) (found, error) {
	reference := strings.TrimPrefix(where.Image, "oci://")
	if where.Digest != "" && !strings.Contains(reference, "@") {
		reference += "@" + where.Digest
	}
	if !strings.HasPrefix(reference, "oci+http://") {
		reference = "docker://" + reference
	}
	made, err := s.Images.Fetch(ctx, reference)
	if err != nil {
		return found{}, err
	}
	digest := made.Digest
	if where.Digest != "" && strings.HasSuffix(reference, "@"+where.Digest) {
		// It may be an index's, which leads to the manifest.
		digest = where.Digest
	}
	return found{made.Files, made.Source, digest}, nil
}

// remote reads the file at a URL.
func (s Source) remote(ctx context.Context, where Where) (found, error) {
	source := "the manifests"
	at, err := url.Parse(where.URL)
	if err == nil && at.User == nil {
		source = (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
	}
	if where.Digest == "" {
		return found{}, fault(source, "manifests of a URL need a digest; write sha256: and what sha256sum says of the file")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	data, err := s.Images.Registry.File(ctx, where.URL, maxFile)
	var unauthorized *registry.UnauthorizedError
	var unavailable *registry.UnavailableError
	switch {
	case errors.As(err, &unauthorized):
		return found{}, fault(source, "it asks for credentials; publish it where it needs none, or as an OCI artifact")
	case errors.As(err, &unavailable):
		return found{}, fault(source, "it is not available: %v", unavailable.Err).Because(err)
	case err != nil:
		return found{}, fault(source, "%v", err)
	}
	// Before it is unpacked: what isn't the file that is meant isn't looked into.
	if digest := registry.Digest(data); digest != where.Digest {
		return found{}, fault(source, "it has digest %s, not %s: don't use it, or correct the digest if it is the one that you mean", digest, where.Digest)
	}
	files, err := s.Images.Unpack(source, named(at.Path), data)
	return found{files, source, where.Digest}, err
}

// named is the name of a file that isn't an archive: errors tell it.
func named(location string) string {
	if base := path.Base(location); strings.HasSuffix(base, ".json") {
		return base
	}
	return strings.TrimSuffix(strings.TrimSuffix(path.Base(location), ".yaml"), ".yml") + ".yaml"
}

// local reads a directory or a file.
func (s Source) local(ctx context.Context, name string) (found, error) {
	info, err := os.Stat(name)
	if err != nil {
		return found{}, fault(name, "it isn't there (%v); the path is one of the machine that reads it", reason(err))
	}
	if info.IsDir() {
		made, err := s.Images.Fetch(ctx, "dir:"+name)
		return found{made.Files, name, summed(made.Files)}, err
	}
	file, err := os.Open(name)
	if err != nil {
		return found{}, fault(name, "it can't be read: %v", reason(err))
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return found{}, fault(name, "it can't be read: %v", reason(err))
	}
	if len(data) > maxFile {
		return found{}, fault(name, "it has more than %d MiB", maxFile>>20)
	}
	files, err := s.Images.Unpack(name, named(filepath.ToSlash(name)), data)
	return found{files, name, registry.Digest(data)}, err
}

// summed is the digest of a directory. Lengths keep names and contents apart.
func summed(files map[string][]byte) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%d %s %d ", len(name), name, len(files[name])) // A hash takes all.
		sum.Write(files[name])
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// reason is an error of the file system without the path, which stands before it.
func reason(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
