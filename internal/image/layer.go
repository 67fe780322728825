package image

import (
	"archive/tar"
	"bytes"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entry is one file or directory of the root file system. All of it belongs to
// root and nothing but /tmp can be written by the image's user, so that a
// container with a writable root file system can't change its own program.
type entry struct {
	name    string
	kind    byte
	mode    int64
	content []byte
	// target is what a link points at.
	target string
}

// entries lists the root file system, sorted by name, which puts parents before
// children. The binary is at the first path, the other paths are links to it.
func entries(binary []byte, paths []string) []entry {
	list := []entry{
		{name: "etc/", kind: tar.TypeDir, mode: 0o755},
		{name: "etc/group", kind: tar.TypeReg, mode: 0o644, content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{name: "etc/passwd", kind: tar.TypeReg, mode: 0o644, content: []byte(
			"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n")},
		{name: "tmp/", kind: tar.TypeDir, mode: 0o1777},
	}
	for i, at := range paths {
		file := entry{name: strings.TrimPrefix(at, "/"), kind: tar.TypeReg, mode: 0o755, content: binary}
		if i > 0 {
			file = entry{name: file.name, kind: tar.TypeSymlink, mode: 0o777, target: paths[0]}
		}
		list = append(list, file)
		for dir := path.Dir(file.name); dir != "."; dir = path.Dir(dir) {
			list = append(list, entry{name: dir + "/", kind: tar.TypeDir, mode: 0o755})
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(list, func(a, b entry) bool { return a.name == b.name })
}

// newLayer packs the root file system into a layer. The same binary gives the
// same bytes: entries are in a fixed order, with no time, owner name or
// extension that varies.
func newLayer(binary []byte, paths []string, uncompressed bool) (v1.Layer, error) {
	content, err := pack(entries(binary, paths))
	if err != nil {
		return nil, err
	}
	if uncompressed {
		return static.NewLayer(content, types.OCIUncompressedLayer), nil
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// pack writes entries as a tar archive.
func pack(list []entry) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, item := range list {
		header := &tar.Header{
			Typeflag: item.kind,
			Name:     item.name,
			Linkname: item.target,
			Mode:     item.mode,
			Size:     int64(len(item.content)),
			ModTime:  time.Unix(0, 0),
			Format:   tar.FormatUSTAR,
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(item.content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}
