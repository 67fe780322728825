package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// pushJobs is how many blobs travel to a registry at a time.
const pushJobs = 4

// WriteLayout writes index under the name ref as the OCI image layout dir, in
// place of the layout that was there. A directory that holds something else is
// left alone, with an error.
func WriteLayout(dir, ref string, index v1.ImageIndex) error {
	full, err := FullName(ref)
	if err != nil {
		return err
	}
	if err := clearLayout(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write the image layout %s: %w", dir, err)
	}
	names := map[string]string{ociRefName: full, containerdName: full}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return fmt.Errorf("write the image layout %s: %w", dir, err)
	}
	return nil
}

// clearLayout removes the image layout dir, if there is one.
func clearLayout(dir string) error {
	contents, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(contents) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
		return fmt.Errorf("%s exists and is no image layout; name another directory", dir)
	}
	return os.RemoveAll(dir)
}

// ReadLayout returns the index that WriteLayout wrote to dir under the name
// ref.
func ReadLayout(dir, ref string) (v1.ImageIndex, error) {
	full, err := FullName(ref)
	if err != nil {
		return nil, err
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("no image layout at %s; build the image first: %w", dir, err)
	}
	root, err := path.ImageIndex()
	if err != nil {
		return nil, fmt.Errorf("read the image layout %s: %w", dir, err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read the image layout %s: %w", dir, err)
	}
	matches := match.Annotation(containerdName, full)
	for _, descriptor := range manifest.Manifests {
		if matches(descriptor) {
			return root.ImageIndex(descriptor.Digest)
		}
	}
	return nil, fmt.Errorf("%s holds no image %s; build it first", dir, full)
}

// Push sends index to the registry that ref names and returns the name with
// its digest. Credentials come from the configuration files of docker and
// podman. A registry on the loopback interface may speak plain HTTP. Each
// request is tried at most three times; ctx bounds the whole.
func Push(ctx context.Context, ref string, index v1.ImageIndex) (string, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return "", fmt.Errorf("%q is no image name: %w", ref, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	err = remote.WriteIndex(tag, index,
		remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithJobs(pushJobs),
		remote.WithUserAgent("slipway"))
	if err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}
	return tag.Context().Digest(digest.String()).String(), nil
}
