package bundle

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// dockerManifest lists the images of an archive that docker save writes (Docker image
// specification 1.2, "Combined Image JSON + Filesystem Changeset Format").
const dockerManifest = "manifest.json"

// section is where a file stands in an archive.
type section struct{ offset, size int64 }

// archive is a store in a tar file, of which only the names are held in memory.
type archive struct {
	file     *os.File
	sections map[string]section
}

func (a archive) open(name string) (io.ReadCloser, int64, error) {
	at, found := a.sections[path.Clean(name)]
	if !found {
		return nil, 0, errors.New("it isn't in the archive as a file (links aren't followed)")
	}
	return io.NopCloser(io.NewSectionReader(a.file, at.offset, at.size)), at.size, nil
}

// archive reads a file that docker save or podman save has written.
func (s Source) archive(name, wanted string) (Bundle, error) {
	file, err := os.Open(name)
	if err != nil {
		return Bundle{}, fault(name, "it can't be read: %v", reason(err))
	}
	defer file.Close()
	found, err := s.list(name, file)
	if err != nil {
		return Bundle{}, err
	}
	_, isLayout := found.sections[indexFile]
	if _, isDocker := found.sections[dockerManifest]; isDocker && (!isLayout || wanted == "") {
		if wanted != "" {
			return Bundle{}, fault(name, "an archive of docker's form has no digest; leave it out")
		}
		return s.fromDocker(name, found)
	}
	if isLayout {
		return s.fromLayout(name, found, wanted)
	}
	return Bundle{}, fault(name, "it has neither %s nor %s, so docker save or podman save hasn't written it", dockerManifest, indexFile)
}

// list finds the files of an archive.
func (s Source) list(name string, file *os.File) (archive, error) {
	found := archive{file: file, sections: map[string]section{}}
	reader := tar.NewReader(file)
	for entries := 0; ; entries++ {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, fault(name, "it is no whole tar archive (%v); save it again, without compression", err)
		}
		if entries >= s.Limits.Entries {
			return found, fault(name, "it has more than %d entries", s.Limits.Entries)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		// The reader stands where the contents begin: it buffers nothing.
		offset, err := file.Seek(0, io.SeekCurrent)
		if err != nil {
			return found, fault(name, "it can't be read: %v", reason(err))
		}
		found.sections[path.Clean(header.Name)] = section{offset: offset, size: header.Size}
	}
}

// fromDocker reads an archive of docker's form.
func (s Source) fromDocker(name string, from archive) (Bundle, error) {
	text, err := s.document(name, from, dockerManifest)
	if err != nil {
		return Bundle{}, err
	}
	var images []struct{ Layers []string }
	if err := json.Unmarshal(text, &images); err != nil {
		return Bundle{}, fault(name, "its %s is no JSON; save it again", dockerManifest)
	}
	switch {
	case len(images) != 1:
		return Bundle{}, fault(name, "it has %d images; save the bundle alone", len(images))
	case len(images[0].Layers) == 0:
		return Bundle{}, fault(name, "the image has no layers; it isn't a bundle")
	case len(images[0].Layers) > s.Limits.Layers:
		return Bundle{}, fault(name, "the image has %d layers; at most %d are read", len(images[0].Layers), s.Limits.Layers)
	}
	tree := newTree(name, s.Limits)
	for _, each := range images[0].Layers {
		if err := applyFrom(tree, from, each); err != nil {
			return Bundle{}, err
		}
	}
	return Bundle{Files: tree.files, Source: name}, nil
}

func applyFrom(tree *tree, from archive, name string) error {
	blob, size, err := from.open(name)
	if err != nil {
		return fault(tree.source, "%s", fmt.Sprintf("its layer %q can't be read: %v", shorten(name), err))
	}
	defer blob.Close()
	return tree.apply(blob, size)
}
