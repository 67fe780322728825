package bundle

import (
	"archive/tar"
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLayer: whatever a layer is, what is kept of it is within the bounds and the
// image, and an error is one line.
func FuzzLayer(f *testing.F) {
	for _, name := range []string{"manifests/a.yaml", "../a.yaml", "manifests/.wh.b.yaml", "manifests/.wh..wh..opq", "/a.yaml", "./a/../b.json"} {
		var text bytes.Buffer
		writer := tar.NewWriter(&text)
		if err := writer.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 1}); err != nil {
			f.Fatal(err)
		}
		if _, err := writer.Write([]byte("a")); err != nil {
			f.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(text.Bytes())
	}
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	limits := Limits{Layers: 2, Entries: 100, Layer: 1 << 20, Unpacked: 1 << 20, Ratio: 10, File: 1 << 16, Files: 1 << 17}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree := newTree("it", limits)
		tree.files["manifests/b.yaml"] = []byte("b")
		err := tree.apply(bytes.NewReader(data), int64(len(data)))
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
		total := 0
		for name, text := range tree.files {
			total += len(text)
			if !filepath.IsLocal(name) || filepath.Clean(name) != name || !isText(name) {
				t.Errorf("file %q", name)
			}
		}
		if total > 1<<17 || tree.entries > limits.Entries+1 {
			t.Errorf("%d bytes, %d entries", total, tree.entries)
		}
	})
}
