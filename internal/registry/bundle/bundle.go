// Package bundle brings the files of an operator's bundle: from an image in an OCI
// registry, an OCI layout, an archive of docker or podman, or a directory. It bounds
// whatever it reads, checks digests, writes nothing and follows no link. What the
// files mean is internal/olm's.
package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/registry/signature"
)

// Bundle is what was found.
type Bundle struct {
	// Files are its YAML and JSON files by their paths below its root.
	Files map[string][]byte
	// Source is where they are from: the reference without credentials.
	Source string
	// Digest of the image's manifest; empty for a directory and for an archive of
	// docker's form.
	Digest string
}

// Source brings bundles. Registry must be set.
type Source struct {
	Registry *registry.Client
	// Credentials of a repository of a registry; nil means none.
	Credentials func(ctx context.Context, host, repository string) (registry.Credentials, error)
	// Key, if set, must have signed what is fetched, which must be in a registry then.
	Key *signature.Key
	// Limits bound what is read; the zero value is DefaultLimits.
	Limits Limits
}

// Limits bound what an image may be.
type Limits struct {
	Layers  int   // how many
	Entries int   // of all layers together
	Layer   int64 // bytes of a layer as it travels
	// Unpacked bytes of all layers together, whatever they hold.
	Unpacked int64
	// Ratio is how many times larger than itself a layer may unpack, from one MiB on.
	Ratio int64
	// File and Files are bytes of one and of all that are kept.
	File, Files int64
}

// DefaultLimits are far above what bundles need, which have a megabyte or two, but
// allow for one that was built upon a whole distribution.
var DefaultLimits = Limits{Layers: 128, Entries: 100_000, Layer: 128 << 20, Unpacked: 512 << 20, Ratio: 200, File: 8 << 20, Files: 64 << 20}

// fetchTime bounds a fetch from a registry.
const fetchTime = 5 * time.Minute

// Error says in one line why a bundle can't be had, and the way out.
type Error struct {
	Source string
	Why    string
	err    error
}

func (e *Error) Error() string { return e.Source + ": " + e.Why }

// Unwrap gives the registry's own error, where there is one.
func (e *Error) Unwrap() error { return e.err }

// Because is the error with the registry's own behind it, for whoever asks what sort of
// error it is: one that passes, say.
func (e *Error) Because(err error) *Error { return &Error{Source: e.Source, Why: e.Why, err: err} }

func fault(source, format string, arguments ...any) error {
	return &Error{Source: source, Why: fmt.Sprintf(format, arguments...)}
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Fetch brings a bundle. A reference is one of
//
//   - a directory with manifests/ in it, or one of an OCI layout;
//   - a file that docker save or podman save has written;
//   - an image: registry/path:tag or registry/path@sha256:…
//
// the first that is there; oci:DIR[:tag], docker-archive:FILE, oci-archive:FILE,
// dir:DIR and docker://IMAGE say which. A layout or archive with @sha256:… after it
// must have that digest. An error is an *Error or the context's.
func (s Source) Fetch(ctx context.Context, reference string) (Bundle, error) {
	if s.Limits == (Limits{}) {
		s.Limits = DefaultLimits
	}
	if strings.TrimSpace(reference) == "" {
		return Bundle{}, fault("the bundle", "it isn't named; write registry/path:tag, a directory or a .tar")
	}
	if image, is := strings.CutPrefix(reference, "docker://"); is {
		return s.image(ctx, image)
	}
	if strings.HasPrefix(reference, "oci://") || strings.HasPrefix(reference, "oci+http://") {
		return s.image(ctx, reference)
	}
	for _, prefix := range []string{"oci:", "docker-archive:", "oci-archive:", "dir:"} {
		if file, is := strings.CutPrefix(reference, prefix); is {
			return s.local(file, prefix == "oci:")
		}
	}
	file, _, _ := strings.Cut(reference, "@")
	_, err := os.Stat(file)
	if err == nil || filepath.IsAbs(file) || strings.HasPrefix(file, "./") || strings.HasPrefix(file, "../") || strings.HasSuffix(file, ".tar") {
		return s.local(reference, false)
	}
	return s.image(ctx, reference)
}

// tarMark stands at tarMarkAt of a tar archive (POSIX.1-1988, ustar; GNU's begins with
// the same).
const (
	tarMark   = "ustar"
	tarMarkAt = 257
)

// Unpack gives the YAML and JSON files of what was fetched otherwise: of a tar archive,
// compressed by gzip or not, or data itself as a file of that name. source names it in
// errors, which are *Error.
func (s Source) Unpack(source, name string, data []byte) (map[string][]byte, error) {
	if s.Limits == (Limits{}) {
		s.Limits = DefaultLimits
	}
	tree := newTree(source, s.Limits)
	isTar := len(data) > tarMarkAt && bytes.HasPrefix(data[tarMarkAt:], []byte(tarMark))
	if isTar || bytes.HasPrefix(data, gzipMark) || bytes.HasPrefix(data, zstdMark) {
		err := tree.apply(bytes.NewReader(data), int64(len(data)))
		return tree.files, err
	}
	err := tree.keep(name, bytes.NewReader(data))
	return tree.files, err
}

// local reads what is on this machine. tagged says that a tag may follow.
func (s Source) local(reference string, tagged bool) (Bundle, error) {
	if s.Key != nil {
		return Bundle{}, fault(reference, "a signature can be checked in a registry only; leave the key out, or name the image in its registry")
	}
	file, digest, pinned := strings.Cut(reference, "@")
	if pinned && !digestForm.MatchString(digest) {
		return Bundle{}, fault(reference, "the digest is none; write @sha256: and 64 hexadecimal digits in lower case")
	}
	tag := digest
	info, err := os.Stat(file)
	if cut := strings.LastIndex(file, ":"); tagged && err != nil && cut > 0 && !pinned {
		file, tag = file[:cut], file[cut+1:]
		info, err = os.Stat(file)
	}
	if err != nil {
		return Bundle{}, fault(reference, "it isn't there (%v); write registry/path:tag, a directory or a .tar", reason(err))
	}
	if !info.IsDir() {
		return s.archive(file, tag)
	}
	root, err := os.OpenRoot(file)
	if err != nil {
		return Bundle{}, fault(reference, "it can't be read: %v", reason(err))
	}
	defer func() { _ = root.Close() }() // It was only read.
	if _, err := root.Lstat(layoutFile); err == nil {
		return s.fromLayout(file, directory{root}, tag)
	}
	if pinned {
		return Bundle{}, fault(reference, "a directory has no digest; leave it out, or give an OCI layout")
	}
	return s.fromDirectory(file, root)
}

// fromDirectory reads an unpacked bundle.
func (s Source) fromDirectory(name string, root *os.Root) (Bundle, error) {
	tree := newTree(name, s.Limits)
	err := fs.WalkDir(root.FS(), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fault(name, "%s can't be read: %v", file, reason(err))
		case entry.IsDir():
			return tree.count()
		case !isText(file):
			return tree.count()
		case !entry.Type().IsRegular():
			return fault(name, "%s is a link or no regular file, which isn't followed; put the file itself there", file)
		}
		opened, err := root.Open(file)
		if err != nil {
			return fault(name, "%s can't be read: %v", file, reason(err))
		}
		defer opened.Close()
		return tree.keep(file, opened)
	})
	if err != nil {
		return Bundle{}, err
	}
	return Bundle{Files: tree.files, Source: name}, nil
}

// reason is an error of the file system without the path, which stands before it.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
