package cluster

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/slipway-dev/slipway/internal/image"
)

// imageNameKey is the annotation of an image layout's index that names an image
// (OCI image specification, "Pre-Defined Annotation Keys").
const imageNameKey = "org.opencontainers.image.ref.name"

// Bounds of an image archive.
const (
	maxArchiveBytes = 64 << 30
	maxArchiveFiles = 10_000
)

// imageStore is an OCI image layout with the images that a cluster holds by
// itself, under their full names.
type imageStore struct {
	mu  sync.Mutex
	dir string
}

func newImageStore(dir string) *imageStore { return &imageStore{dir: dir} }

func (s *imageStore) open() (layout.Path, error) {
	if p, err := layout.FromPath(s.dir); err == nil {
		return p, nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder for images: %w", err)
	}
	return layout.Write(s.dir, empty.Index)
}

// put stores images under their names, in place of those that had them.
func (s *imageStore) put(images map[string]v1.Image) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.open()
	if err != nil {
		return err
	}
	for ref, img := range images {
		full, err := image.FullName(ref)
		if err != nil {
			return err
		}
		err = p.ReplaceImage(img, match.Annotation(imageNameKey, full), layout.WithAnnotations(map[string]string{imageNameKey: full}))
		if err != nil {
			return fmt.Errorf("store the image %s: %w", full, err)
		}
	}
	return nil
}

// all are the stored images by their full names.
func (s *imageStore) all() (map[string]v1.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.open()
	if err != nil {
		return nil, err
	}
	return named(p)
}

// named are the images of a layout that have a name.
func named(p layout.Path) (map[string]v1.Image, error) {
	index, err := p.ImageIndex()
	if err != nil {
		return nil, fmt.Errorf("read the index of images: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read the index of images: %w", err)
	}
	images := map[string]v1.Image{}
	for _, d := range manifest.Manifests {
		ref := d.Annotations["io.containerd.image.name"]
		if ref == "" {
			ref = d.Annotations[imageNameKey]
		}
		if !d.MediaType.IsImage() {
			continue
		}
		img, err := p.Image(d.Digest)
		if err != nil {
			return nil, fmt.Errorf("read the image %s: %w", ref, err)
		}
		images[ref] = img
	}
	return images, nil
}

// readArchive returns the images of a tar file: an OCI image layout, or what
// `docker save` writes. scratch is a folder for what has to be unpacked, and must
// outlive the images.
func readArchive(file, scratch string) (map[string]v1.Image, error) {
	isLayout, err := unpackLayout(file, scratch)
	if err != nil {
		return nil, err
	}
	if isLayout {
		return named(layout.Path(scratch))
	}
	opener := func() (io.ReadCloser, error) { return os.Open(file) }
	manifest, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, fmt.Errorf("%s is neither an OCI image layout nor a Docker archive: %w", file, err)
	}
	images := map[string]v1.Image{}
	for _, d := range manifest {
		for _, ref := range d.RepoTags {
			tag, err := name.NewTag(ref)
			if err != nil {
				return nil, fmt.Errorf("the archive's image name %q: %w", ref, err)
			}
			if images[ref], err = tarball.Image(opener, &tag); err != nil {
				return nil, fmt.Errorf("read the image %s: %w", ref, err)
			}
		}
	}
	return images, nil
}

// unpackLayout unpacks the files of an OCI image layout from a tar file, and
// nothing else that may be in it. It says whether there is one.
func unpackLayout(file, dir string) (bool, error) {
	in, err := os.Open(file)
	if err != nil {
		return false, fmt.Errorf("open the archive: %w", err)
	}
	defer in.Close()
	reader := tar.NewReader(bufio.NewReaderSize(in, 1<<20))
	found := false
	var total int64
	for range maxArchiveFiles {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return false, fmt.Errorf("read the archive %s: %w", file, err)
		}
		name := path.Clean(header.Name)
		if header.Typeflag != tar.TypeReg || !layoutFile(name) {
			continue
		}
		if total += header.Size; total > maxArchiveBytes {
			return false, fmt.Errorf("the archive %s holds more than %d bytes", file, int64(maxArchiveBytes))
		}
		if err := unpackFile(filepath.Join(dir, filepath.FromSlash(name)), reader); err != nil {
			return false, err
		}
		found = found || name == "index.json"
	}
	return false, fmt.Errorf("the archive %s holds more than %d files", file, maxArchiveFiles)
}

// layoutFile says whether a file belongs to an OCI image layout.
func layoutFile(name string) bool {
	if name == "index.json" || name == "oci-layout" {
		return true
	}
	digest, ok := strings.CutPrefix(name, "blobs/sha256/")
	return ok && len(digest) == 64 && strings.Trim(digest, "0123456789abcdef") == ""
}

func unpackFile(path string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("unpack an image: %w", err)
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("unpack an image: %w", err)
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}

// importImages gives a containerd the stored images that it lacks.
func (s *supervision) importImages(ctx context.Context, socket string) error {
	images, err := s.store.all()
	if err != nil {
		return err
	}
	have, err := s.ctr(ctx, socket, "images", "ls")
	if err != nil {
		return err
	}
	if images, err = lacking(images, heldDigests(have)); err != nil || len(images) == 0 {
		return err
	}
	scratch, err := os.MkdirTemp(s.folder.path(), ".import-")
	if err != nil {
		return fmt.Errorf("make a folder for an import: %w", err)
	}
	defer os.RemoveAll(scratch)
	archive := filepath.Join(scratch, "images.tar")
	if err := image.WriteArchive(archive, images); err != nil {
		return err
	}
	_, err = s.ctr(ctx, socket, "images", "import", archive)
	return err
}

// lacking are those of the stored images that a node is to be given and doesn't
// hold. llm-d's aren't given: a node pulls them from the mirror when a pod wants
// them, because in most clusters none does, and they are large.
func lacking(stored map[string]v1.Image, held map[string]string) (map[string]v1.Image, error) {
	lacks := maps.Clone(stored)
	for _, routed := range LLMD() {
		delete(lacks, routed.Ref)
	}
	for ref, img := range lacks {
		digest, err := img.Digest()
		if err != nil {
			return nil, fmt.Errorf("read the image %s: %w", ref, err)
		}
		if held[ref] == digest.String() {
			delete(lacks, ref)
		}
	}
	return lacks, nil
}

// heldDigests reads the table of `ctr images ls`: name, type, digest, and more.
func heldDigests(table string) map[string]string {
	held := map[string]string{}
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) >= 3 && strings.HasPrefix(fields[2], "sha256:") {
			held[fields[0]] = fields[2]
		}
	}
	return held
}

// ctr runs containerd's own client against a node, in Kubernetes' namespace.
func (s *supervision) ctr(ctx context.Context, socket string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.programs.Path("ctr"), append([]string{"--address", socket, "--namespace", "k8s.io"}, args...)...)
	cmd.Env = processEnv(s.programs.Dir, "/")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args[:2], " "), err, readBounded(&problems))
	}
	return out.String(), nil
}
