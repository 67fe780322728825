package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// ratioFloor is how much contents are free of Limits.Ratio: a small file of
// spaces is no bomb.
const ratioFloor = 1 << 20

// longestName is the longest path in an archive, in bytes; Linux's own bound
// (PATH_MAX) is the same.
const longestName = 4096

// File is a regular file in an archive.
type File struct {
	// Name is clean, relative, with slashes, and leads nowhere else.
	Name string
	// Mode has permission bits only.
	Mode fs.FileMode
	Data []byte
}

// Unpack reads a tar archive, compressed by gzip or not, and calls visit with each
// regular file in it, in its order. It refuses (*HostileError) what has no place in
// an archive from outside: paths that lead out of it, links, devices, two files of
// one name, contents out of all proportion to the archive; and (*TooLargeError) what
// is beyond limits. what names the archive in errors. What visit returns ends it.
func Unpack(what string, archive []byte, limits Limits, visit func(File) error) error {
	return newUnpacking(limits).unpack(what, archive, visit)
}

// Extract unpacks a tar archive into the directory dir, which must be there and
// should be empty: a file that is there already is an error. Nothing is written
// outside of dir. After an error, part of the archive is there.
func Extract(what string, archive []byte, dir string, limits Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return Unpack(what, archive, limits, func(file File) error {
		if err := root.MkdirAll(path.Dir(file.Name), 0o755); err != nil {
			return err
		}
		// Readable by all, executable if it was, writable by nobody else.
		target, err := root.OpenFile(file.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644|file.Mode&0o111)
		if err != nil {
			return err
		}
		_, err = target.Write(file.Data)
		return errors.Join(err, target.Close())
	})
}

// unpacking counts what has been unpacked, of an archive and of those within it
// together.
type unpacking struct {
	limits   Limits
	unpacked int64
	files    int
}

func newUnpacking(limits Limits) *unpacking { return &unpacking{limits: limits.orDefault()} }

func (u *unpacking) unpack(what string, archive []byte, visit func(File) error) error {
	if int64(len(archive)) > u.limits.Archive {
		return &TooLargeError{What: what, Limit: u.limits.Archive}
	}
	content, err := u.content(what, archive)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return drain(what, content)
		}
		if err != nil {
			return damaged(what, err)
		}
		if u.files++; u.files > u.limits.Files {
			return &HostileError{Archive: what, Why: fmt.Sprintf("it has more than %d entries", u.limits.Files)}
		}
		regular, err := check(what, header)
		if err != nil {
			return err
		}
		if !regular {
			continue
		}
		name := path.Clean(header.Name)
		if names[name] {
			return &HostileError{Archive: what, Why: fmt.Sprintf("it has two files %q", name)}
		}
		names[name] = true
		data, err := u.read(what, name, header.Size, reader)
		if err != nil {
			return err
		}
		if err := visit(File{Name: name, Mode: fs.FileMode(header.Mode).Perm(), Data: data}); err != nil {
			return err
		}
	}
}

// content is the tar stream, which fails beyond the limits.
func (u *unpacking) content(what string, archive []byte) (io.Reader, error) {
	bounded := &bounded{unpacking: u, what: what, from: bytes.NewReader(archive)}
	if !bytes.HasPrefix(archive, []byte{0x1f, 0x8b}) {
		return bounded, nil
	}
	unzipped, err := gzip.NewReader(bounded.from)
	if err != nil {
		return nil, damaged(what, err)
	}
	bounded.from = unzipped
	bounded.most = max(ratioFloor, int64(len(archive))*u.limits.Ratio)
	return bounded, nil
}

// drain reads on after the last entry, where the checksum of the compression stands.
func drain(what string, content io.Reader) error {
	if _, err := io.Copy(io.Discard, content); err != nil {
		return damaged(what, err)
	}
	return nil
}

// read returns a file's contents. The header's size is only a claim, and not
// reserved.
func (u *unpacking) read(what, name string, claimed int64, reader io.Reader) ([]byte, error) {
	tooLarge := &TooLargeError{What: fmt.Sprintf("%q in %s", name, what), Limit: u.limits.File}
	if claimed > u.limits.File {
		return nil, tooLarge
	}
	data, err := io.ReadAll(io.LimitReader(reader, u.limits.File+1))
	if err != nil {
		return nil, damaged(what, err)
	}
	if int64(len(data)) > u.limits.File {
		return nil, tooLarge
	}
	return data, nil
}

// bounded reads contents and counts them.
type bounded struct {
	unpacking *unpacking
	what      string
	from      io.Reader
	// read is how much, most how much there may be; 0 is no bound of its own.
	read, most int64
}

func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.from.Read(into)
	b.read += int64(n)
	b.unpacking.unpacked += int64(n)
	if limit := b.unpacking.limits.Unpacked; b.unpacking.unpacked > limit {
		return 0, &TooLargeError{What: "the contents of " + b.what, Limit: limit}
	}
	if b.most > 0 && b.read > b.most {
		return 0, &HostileError{Archive: b.what, Why: fmt.Sprintf("it unpacks to more than %d times its size", b.unpacking.limits.Ratio)}
	}
	return n, err
}

// damaged explains why an archive can't be read, unless a limit says so.
func damaged(what string, err error) error {
	var large *TooLargeError
	var hostile *HostileError
	if errors.As(err, &large) || errors.As(err, &hostile) {
		return err
	}
	return &InvalidError{fmt.Sprintf("%s is no whole tar archive: %v; publish it again", what, err)}
}

// check refuses entries that no archive needs, and says whether one is a file.
func check(what string, header *tar.Header) (regular bool, err error) {
	hostile := func(why string) (bool, error) {
		return false, &HostileError{Archive: what, Why: fmt.Sprintf("its entry %q %s", shorten(header.Name), why)}
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeDir:
	case tar.TypeXGlobalHeader: // What git archive writes; it is no entry.
		return false, nil
	case tar.TypeSymlink, tar.TypeLink:
		return hostile("is a link")
	default:
		return hostile("is neither a file nor a directory")
	}
	name := header.Name
	switch {
	case len(name) > longestName:
		return hostile("has too long a name")
	case strings.ContainsAny(name, "\\\x00"):
		return hostile("has a backslash or a zero byte in its name")
	case path.IsAbs(name), len(name) > 1 && name[1] == ':':
		return hostile("is an absolute path")
	case !fs.ValidPath(path.Clean(name)):
		return hostile("leads out of the archive")
	case header.Typeflag == tar.TypeReg && path.Clean(name) == ".":
		return hostile("is a file without a name")
	}
	return header.Typeflag == tar.TypeReg, nil
}

// shorten keeps an error on a line.
func shorten(name string) string {
	const most = 100
	if len(name) > most {
		return name[:most] + "…"
	}
	return name
}
