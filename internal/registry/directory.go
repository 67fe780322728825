package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxArchives is how many archives of one chart a directory without an index may
// hold.
const maxArchives = 1000

// dirSource is a repository in a directory: one with an index.yaml, a heap of
// archives, or a chart that is unpacked there. What leads out of the directory
// isn't read.
type dirSource struct {
	root   *os.Root
	files  fs.FS
	name   string // as it stands in errors
	limits Limits
	// of is the repository that entries of the index must have been fetched from, if
	// they say so; empty takes all.
	of string
}

func openDirectory(dir, of string, limits Limits) (*dirSource, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &InvalidError{fmt.Sprintf("there is no directory %s; check the repository's path, and that the volume is mounted in the operator's pod", dir)}
	}
	if err != nil {
		return nil, unreadable(dir, err)
	}
	return &dirSource{root: root, files: root.FS(), name: dir, limits: limits, of: of}, nil
}

// unreadable explains a fault of the file system.
func unreadable(dir string, err error) error {
	var large *TooLargeError
	if errors.As(err, &large) {
		return err
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return &UnavailableError{Repository: dir, Err: err}
}

func (s *dirSource) close() { _ = s.root.Close() } // It was only read.

func (s *dirSource) find(_ context.Context, name string, version wanted) (published, error) {
	data, err := readLimited(s.files, "index.yaml", s.limits.Index)
	var entries []indexEntry
	switch {
	case err == nil:
		entries, err = parseIndex("the index of "+s.name, data, name)
	case errors.Is(err, fs.ErrNotExist):
		entries, err = s.list(name)
	default:
		return published{}, unreadable(s.name, err)
	}
	if err != nil {
		return published{}, err
	}
	kept := entries[:0]
	for _, entry := range entries {
		if from := entry.Annotations[repositoryAnnotation]; s.of == "" || from == "" || from == s.of {
			kept = append(kept, entry)
		}
	}
	entry, err := chooseEntry(s.name, name, version, kept)
	if err != nil {
		return published{}, err
	}
	at, err := url.Parse(entry.URLs[0])
	if err != nil || at.Scheme != "" || at.Host != "" || !filepath.IsLocal(at.Path) {
		return published{}, &InvalidError{fmt.Sprintf("%s has chart %s %s at no path within it; make its index by helm repo index or slipway charts vendor", s.name, name, entry.Version)}
	}
	return published{name: name, version: entry.Version, digest: promised(entry.Digest), location: filepath.Join(s.name, at.Path)}, nil
}

func (s *dirSource) fetch(_ context.Context, chart published) ([]byte, error) {
	local, err := filepath.Rel(s.name, chart.location)
	if err != nil {
		return nil, err
	}
	info, err := fs.Stat(s.files, local)
	if err != nil {
		return nil, unreadable(chart.location, err)
	}
	if info.IsDir() {
		unpacked, err := fs.Sub(s.files, local)
		if err != nil {
			return nil, err
		}
		return pack(chart.location, chart.name, unpacked, s.limits)
	}
	data, err := readLimited(s.files, local, s.limits.Archive)
	if err != nil {
		return nil, unreadable(chart.location, err)
	}
	return data, nil
}

// list makes entries of the archives NAME-VERSION.tgz, as helm package calls them, of
// a chart in the directory NAME and of a chart in the directory itself.
func (s *dirSource) list(name string) ([]indexEntry, error) {
	archives, err := fs.Glob(s.files, name+"-*.tgz")
	if err != nil {
		return nil, err
	}
	if len(archives) > maxArchives {
		return nil, &InvalidError{fmt.Sprintf("%s holds more than %d archives of chart %s; make an index by helm repo index", s.name, maxArchives, name)}
	}
	entries := []indexEntry{}
	for _, dir := range []string{name, "."} {
		chart, err := readMetadata(s.files, path.Join(dir, "Chart.yaml"), s.limits)
		if err == nil && chart.Name == name {
			entries = append(entries, indexEntry{Version: chart.Version, URLs: []string{dir}})
		}
	}
	for _, file := range archives {
		version := strings.TrimSuffix(strings.TrimPrefix(file, name+"-"), ".tgz")
		entries = append(entries, indexEntry{Version: version, URLs: []string{file}})
	}
	return entries, nil
}

// readLimited reads a file of up to limit bytes.
func readLimited(files fs.FS, name string, limit int64) ([]byte, error) {
	// Looked at first, because opening a pipe would wait for a writer.
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &TooLargeError{What: strings.TrimPrefix(name, "./"), Limit: limit}
	}
	return data, nil
}
