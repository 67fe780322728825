package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Digest is the digest of data, as Chart and Archive write it.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// metadata is what a Chart.yaml says of itself.
type metadata struct {
	Name       string `yaml:"name"`
	Version    string `yaml:"version"`
	AppVersion string `yaml:"appVersion"`
}

// inspect reads a chart's archive to its end, with the archives of dependencies
// within it, refuses it if it could do harm, and returns what it says of itself.
func inspect(what string, data []byte, limits Limits) (metadata, error) {
	found := []File{}
	unpacking := newUnpacking(limits)
	var visit func(File) error
	visit = func(file File) error {
		if nested := path.Ext(file.Name) == ".tgz" && path.Base(path.Dir(file.Name)) == "charts"; nested {
			return unpacking.unpack(fmt.Sprintf("%s in %s", file.Name, what), file.Data, func(inner File) error {
				if path.Base(inner.Name) == "Chart.yaml" {
					return nil // Not this chart's.
				}
				return visit(inner)
			})
		}
		if path.Base(file.Name) == "Chart.yaml" && strings.Count(file.Name, "/") == 1 {
			found = append(found, file)
		}
		return nil
	}
	if err := unpacking.unpack(what, data, visit); err != nil {
		return metadata{}, err
	}
	if len(found) != 1 {
		return metadata{}, &InvalidError{fmt.Sprintf("%s holds %d files NAME/Chart.yaml, where a chart has one; publish what helm package makes", what, len(found))}
	}
	var chart metadata
	if err := yaml.Unmarshal(found[0].Data, &chart); err != nil || chart.Name == "" || chart.Version == "" {
		return metadata{}, &InvalidError{fmt.Sprintf("the Chart.yaml in %s has no name and version; publish what helm package makes", what)}
	}
	return chart, nil
}

// pack makes an archive of the unpacked chart in the root of files, as helm package
// does. The same files give the same bytes. Links are refused, since they may lead
// anywhere.
func pack(what, name string, files fs.FS, limits Limits) ([]byte, error) {
	limits = limits.orDefault()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	writer := tar.NewWriter(zipped)
	count, total := 0, int64(0)
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return &HostileError{Archive: what, Why: fmt.Sprintf("%s is no regular file", file)}
		}
		data, err := readLimited(files, file, limits.File)
		if err != nil {
			return err
		}
		if count++; count > limits.Files {
			return &HostileError{Archive: what, Why: fmt.Sprintf("it has more than %d files", limits.Files)}
		}
		if total += int64(len(data)); total > limits.Unpacked {
			return &TooLargeError{What: what, Limit: limits.Unpacked}
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name + "/" + file, Mode: 0o644, Size: int64(len(data))}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		_, err = writer.Write(data)
		return err
	})
	if err := errors.Join(err, writer.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// readMetadata reads a Chart.yaml.
func readMetadata(files fs.FS, name string, limits Limits) (metadata, error) {
	var chart metadata
	data, err := readLimited(files, name, limits.File)
	if err != nil {
		return chart, err
	}
	return chart, yaml.Unmarshal(data, &chart)
}
