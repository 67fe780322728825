package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// WriteYAML writes objects as documents of one stream.
func WriteYAML(out io.Writer, objects []*unstructured.Unstructured) error {
	var all bytes.Buffer
	for _, each := range objects {
		text, err := yaml.Marshal(each.Object)
		if err != nil {
			return err
		}
		all.WriteString("---\n")
		all.Write(text)
	}
	_, err := out.Write(all.Bytes())
	return err
}

// WriteJSON writes objects as one List.
func WriteJSON(out io.Writer, objects []*unstructured.Unstructured) error {
	items := make([]any, 0, len(objects))
	for _, each := range objects {
		items = append(items, each.Object)
	}
	text, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", "  ")
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}

// ownFile is what WriteDirectory calls its files.
var ownFile = regexp.MustCompile(`^[0-9]{4}-[a-z0-9.-]+\.yaml$`)

// unfit is what has no place in a file's name.
var unfit = regexp.MustCompile(`[^a-z0-9.-]+`)

// longestFileName leaves room below the 255 bytes that file systems take.
const longestFileName = 200

// WriteDirectory writes a file for each object, whose names sort in the order of
// applying. What it wrote there formerly is replaced; a directory with anything else
// in it is an error. Either all is there in the end or all is as it was.
func WriteDirectory(dir string, objects []*unstructured.Unstructured) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, each := range entries {
		if !each.Type().IsRegular() || !ownFile.MatchString(each.Name()) {
			return fmt.Errorf("%s holds %s, which slipway bundle extract hasn't written; give another directory", dir, each.Name())
		}
	}
	files := map[string][]byte{}
	for i, each := range objects {
		text, err := yaml.Marshal(each.Object)
		if err != nil {
			return err
		}
		name := unfit.ReplaceAllString(strings.ToLower(each.GetKind()+"-"+each.GetName()), "-")
		files[fmt.Sprintf("%04d-%s.yaml", i+1, name[:min(len(name), longestFileName)])] = text
	}
	return replaceDirectory(dir, files)
}

// replaceDirectory puts a directory of files in the place of dir. The files are
// written beside it first, so that dir never holds a part of them.
func replaceDirectory(dir string, files map[string][]byte) (err error) {
	if dir, err = located(dir); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(parent, ".slipway-*")
	if err != nil {
		return err
	}
	lost := false
	defer func() {
		if !lost {
			err = errors.Join(err, os.RemoveAll(work))
		}
	}()
	made := filepath.Join(work, "new")
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		name = filepath.Join(made, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	old := filepath.Join(work, "old")
	replaced := os.Rename(dir, old)
	if replaced != nil && !errors.Is(replaced, fs.ErrNotExist) {
		return replaced
	}
	if err := os.Rename(made, dir); err != nil {
		if lost = replaced == nil && os.Rename(old, dir) != nil; lost {
			return fmt.Errorf("%s can't be written, and what was in it is now in %s: %w", dir, old, err)
		}
		return err
	}
	return nil
}

// located is a directory's own path, whatever leads there. One that holds the working
// directory can't be replaced: the user's shell would be left in the old one.
func located(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	switch own, err := filepath.EvalSymlinks(dir); {
	case err == nil:
		dir = own
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	working, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if below, err := filepath.Rel(dir, working); err == nil && filepath.IsLocal(below) {
		return "", fmt.Errorf("%s holds the working directory, so it can't be replaced; run the command from outside of it", dir)
	}
	return dir, nil
}
