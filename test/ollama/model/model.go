// Package model makes language models that a real Ollama server loads and
// answers from, for tests: small enough for a test to fetch, and saying one
// known sentence. The same sentence is the same bytes.
//
// A model is a Llama whose attention and feed-forward weights are zero. What is
// left is a Markov chain: the embedding of a token is its state, one of the
// dimensions, and the output gives the state's successor a large logit.
package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Loop at the end of a prompt makes a model talk until something stops it.
const Loop = "<loop>"

// Two models that tests tell apart by what they say.
const (
	// Steady is what the model First answers to every prompt.
	Steady = "Slipway carries small models to every harbour."
	// Changed is what the model Second answers.
	Changed = "Another model now answers from this very pod."
)

// First is the model that says Steady.
func First() Model { return New(Steady) }

// Second is the model that says Changed.
func Second() Model { return New(Changed) }

// Huge is a model of the same size as the others, whose context wants a tebibyte
// of memory.
func Huge() Model { return build(Changed, 1<<31) }

// The shape of the network.
const (
	width  = 64
	blocks = 2
	heads  = 2
	// keyWidth is the width of the one head of keys and values.
	keyWidth = width / heads
	// window is the usual context, in tokens. Each takes half a KiB of memory.
	window = 2048
	// sure is the logit of a successor before the normalisation, which makes it
	// eight times as large: no sampling chooses anything else.
	sure = 100
)

// The types of tokens, by llama.cpp's numbers.
const (
	normalToken      int32 = 1
	controlToken     int32 = 3
	userDefinedToken int32 = 4
)

// Model is a model as a registry and a server's folder hold it.
type Model struct {
	// Manifest lists the blobs.
	Manifest []byte
	// Blobs are the contents by digest (sha256:…).
	Blobs map[string][]byte
	// Data is the digest of the weights, the one blob of some size.
	Data string
}

// New makes a model that answers every prompt with a sentence of at most 40
// different words, but for a prompt that ends in Loop.
func New(sentence string) Model { return build(sentence, window) }

// build makes a model with a context of so many tokens.
func build(sentence string, context uint32) Model {
	m := Model{Blobs: map[string][]byte{}}
	weights := chain(sentence, context)
	data := m.layer("application/vnd.ollama.image.model", weights)
	m.Data = data.Digest
	layers := []descriptor{
		data,
		m.layer("application/vnd.ollama.image.template", []byte("{{ .Prompt }}")),
		// More threads than one make so small a model slower, a hundredfold on a
		// busy machine.
		m.layer("application/vnd.ollama.image.params", encode(map[string]any{"num_thread": 1, "num_ctx": context})),
	}
	diffs := []string{}
	for _, layer := range layers {
		diffs = append(diffs, layer.Digest)
	}
	config := encode(map[string]any{
		"model_format": "gguf", "model_family": "llama", "model_families": []string{"llama"},
		"model_type": "84K", "file_type": "F32", "architecture": "amd64", "os": "linux",
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	m.Manifest = encode(map[string]any{
		"schemaVersion": 2,
		"mediaType":     "application/vnd.docker.distribution.manifest.v2+json",
		"config":        m.layer("application/vnd.docker.container.image.v1+json", config),
		"layers":        layers,
	})
	return m
}

// descriptor refers to a blob.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

// layer adds a blob.
func (m Model) layer(mediaType string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	m.Blobs[digest] = content
	return descriptor{MediaType: mediaType, Digest: digest, Size: len(content)}
}

// encode is the JSON of maps of plain values, which can't fail.
func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

// Files are the paths and contents that make a server with this OLLAMA_MODELS
// serve the model under a name of the default registry, as in tinyllama:latest,
// without a pull. They fit into a ConfigMap.
func (m Model) Files(name string) map[string][]byte {
	name, tag, found := strings.Cut(name, ":")
	if !found {
		tag = "latest"
	}
	if !strings.Contains(name, "/") {
		name = "library/" + name
	}
	files := map[string][]byte{"manifests/registry.ollama.ai/" + name + "/" + tag: m.Manifest}
	for digest, content := range m.Blobs {
		files["blobs/"+strings.Replace(digest, ":", "-", 1)] = content
	}
	return files
}

// Store writes Files into a folder.
func (m Model) Store(dir, name string) error {
	for path, content := range m.Files(name) {
		full := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return fmt.Errorf("store the model %s: %w", name, err)
		}
		if err := os.WriteFile(full, content, 0o644); err != nil {
			return fmt.Errorf("store the model %s: %w", name, err)
		}
	}
	return nil
}
