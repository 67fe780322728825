package model_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/test/ollama/model"
)

func TestModelsAreSmallKnownAndDifferent(t *testing.T) {
	first, again, second := model.First(), model.First(), model.Second()
	if first.Data != again.Data || !bytes.Equal(first.Manifest, again.Manifest) {
		t.Error("the same sentence gives two models")
	}
	if first.Data == second.Data {
		t.Error("two sentences give one model")
	}
	total := 0
	for _, content := range first.Files("tinyllama") {
		total += len(content)
	}
	// What a ConfigMap holds.
	if size := len(first.Blobs[first.Data]); size < 300_000 || total > 1_000_000 {
		t.Errorf("the data has %d bytes, the files %d", size, total)
	}
}

func TestStoreWritesWhatAServerReads(t *testing.T) {
	dir := t.TempDir()
	m := model.First()
	if err := m.Store(dir, "team/mine:v1"); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "manifests/registry.ollama.ai/team/mine/v1"))
	if err != nil || !bytes.Equal(manifest, m.Manifest) {
		t.Errorf("the manifest is %s, %v", manifest, err)
	}
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256-*"))
	if err != nil || len(blobs) != len(m.Blobs) {
		t.Errorf("%d blobs are stored, %v; want %d", len(blobs), err, len(m.Blobs))
	}
}
