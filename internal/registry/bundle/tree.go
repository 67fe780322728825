package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Whiteouts (OCI image specification, layer.md): a file that says what of the layers
// below isn't there any more.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

const (
	// ratioFloor is how much contents are free of Limits.Ratio.
	ratioFloor = 1 << 20
	// longestName is Linux's own bound (PATH_MAX).
	longestName = 4096
)

// How compressed contents begin (RFC 1952; RFC 8878).
var (
	gzipMark = []byte{0x1f, 0x8b}
	zstdMark = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// tree is what the layers so far leave: only the files that a bundle may consist of
// are kept, all others are read past.
type tree struct {
	source   string
	limits   Limits
	files    map[string][]byte
	entries  int
	unpacked int64
	kept     int64
}

func newTree(source string, limits Limits) *tree {
	return &tree{source: source, limits: limits, files: map[string][]byte{}}
}

// isText reports whether a file may be part of a bundle.
func isText(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// count counts an entry.
func (t *tree) count() error {
	if t.entries++; t.entries > t.limits.Entries {
		return fault(t.source, "it has more than %d files", t.limits.Entries)
	}
	return nil
}

// keep reads a file of the bundle.
func (t *tree) keep(name string, from io.Reader) error {
	if err := t.count(); err != nil {
		return err
	}
	data, err := t.read(name, from)
	if err == nil {
		t.files[name] = data
	}
	return err
}

// read returns contents. A header's size is only a claim, and nothing is reserved
// for it.
func (t *tree) read(name string, from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, t.limits.File+1))
	if err != nil {
		return nil, t.damaged(err)
	}
	if int64(len(data)) > t.limits.File {
		return nil, fault(t.source, "%s has more than %d MiB", name, t.limits.File>>20)
	}
	if t.kept += int64(len(data)); t.kept > t.limits.Files {
		return nil, fault(t.source, "its files have more than %d MiB", t.limits.Files>>20)
	}
	return data, nil
}

func (t *tree) damaged(err error) error {
	var told *Error
	if errors.As(err, &told) {
		return err
	}
	return fault(t.source, "a layer is no whole tar archive (%v); build and push the bundle again", err)
}

// single takes a layer that is a file itself.
func (t *tree) single(name string, data []byte) error {
	if !fs.ValidPath(path.Clean(name)) || len(name) > longestName {
		return fault(t.source, "a layer is the file %q, which leads out of the image; it is refused", shorten(name))
	}
	return t.keep(path.Clean(name), bytes.NewReader(data))
}

// layer is what one layer changes.
type layer struct {
	// removed are paths of layers below, emptied are directories that lose what
	// layers below have in them.
	removed, emptied []string
	files            map[string][]byte
}

// apply lays a layer of size bytes over those so far.
func (t *tree) apply(blob io.Reader, size int64) error {
	content, err := t.content(blob, size)
	if err != nil {
		return err
	}
	made := layer{files: map[string][]byte{}}
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = t.entry(&made, header, reader)
		}
		if err != nil {
			return t.damaged(err)
		}
	}
	// The checksum of the compression stands at the end.
	if _, err := io.Copy(io.Discard, content); err != nil {
		return t.damaged(err)
	}
	t.lay(made)
	return nil
}

// content is the layer's tar stream, which fails beyond the limits.
func (t *tree) content(blob io.Reader, size int64) (io.Reader, error) {
	buffered := bufio.NewReader(blob)
	mark, err := buffered.Peek(len(zstdMark))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, t.damaged(err)
	}
	counted := &bounded{tree: t, from: buffered}
	switch {
	case bytes.HasPrefix(mark, zstdMark):
		return nil, fault(t.source, "a layer is compressed by zstd, which isn't supported; push the bundle with gzip")
	case bytes.HasPrefix(mark, gzipMark):
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, t.damaged(err)
		}
		counted.from, counted.most = unzipped, max(ratioFloor, size*t.limits.Ratio)
	}
	return counted, nil
}

// bounded reads contents and counts them.
type bounded struct {
	tree *tree
	from io.Reader
	// read is how much, most how much there may be; 0 is no bound of its own.
	read, most int64
}

func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.from.Read(into)
	b.read += int64(n)
	b.tree.unpacked += int64(n)
	if limit := b.tree.limits.Unpacked; b.tree.unpacked > limit {
		return 0, fault(b.tree.source, "its layers unpack to more than %d MiB", limit>>20)
	}
	if b.most > 0 && b.read > b.most {
		return 0, fault(b.tree.source, "a layer unpacks to more than %d times its size", b.tree.limits.Ratio)
	}
	return n, err
}

// entry takes one entry of a layer.
func (t *tree) entry(made *layer, header *tar.Header, content io.Reader) error {
	if err := t.count(); err != nil {
		return err
	}
	name := header.Name
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if len(name) > longestName || path.IsAbs(name) || !fs.ValidPath(path.Clean(name)) {
		return fault(t.source, "a layer has the entry %q, which leads out of the image; it is refused", shorten(name))
	}
	name = path.Clean(name)
	dir, base := path.Split(name)
	switch {
	case base == opaque:
		made.emptied = append(made.emptied, path.Clean(dir))
	case strings.HasPrefix(base, whiteout):
		made.removed = append(made.removed, dir+strings.TrimPrefix(base, whiteout))
	case header.Typeflag == tar.TypeDir:
		// It keeps what layers below have in it.
	case header.Typeflag == tar.TypeSymlink || header.Typeflag == tar.TypeLink:
		if isText(name) && inBundle(name) {
			return fault(t.source, "a layer has the link %q, which isn't followed; put the file itself there", shorten(name))
		}
		made.replace(name)
	case header.Typeflag == tar.TypeReg && isText(name):
		data, err := t.read(name, content)
		if err != nil {
			return err
		}
		made.replace(name)
		made.files[name] = data
	default: // Programs, devices: not of a bundle, and never made.
		made.replace(name)
	}
	return nil
}

// inBundle reports whether a path is where bundles have their files.
func inBundle(name string) bool {
	return strings.HasPrefix(name, "manifests/") || strings.HasPrefix(name, "metadata/")
}

// replace lets an entry take the place of what has its name so far.
func (l *layer) replace(name string) {
	l.removed = append(l.removed, name)
	delete(l.files, name)
}

// lay applies a layer: what it takes away first, since that is of the layers below.
func (t *tree) lay(made layer) {
	gone := map[string]bool{}
	for _, name := range made.removed {
		gone[name] = true
	}
	emptied := map[string]bool{}
	for _, name := range made.emptied {
		emptied[name] = true
	}
	for name := range t.files {
		// Whatever took the name of a file's directory has taken all that was in it.
		out := gone[name] || emptied["."]
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			out = out || gone[dir] || emptied[dir]
		}
		if out {
			t.kept -= int64(len(t.files[name]))
			delete(t.files, name)
		}
	}
	for name, data := range made.files {
		t.files[name] = data
	}
}

// shorten keeps an error on a line.
func shorten(name string) string {
	const most = 100
	if len(name) > most {
		return fmt.Sprintf("%s…", name[:most])
	}
	return name
}
