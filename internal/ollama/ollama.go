// Package ollama is a client of Ollama's HTTP API: which models a server has,
// fetching one with its progress, loading it, and asking it something. Every
// body, line and answer is bounded, and a failure says whether trying again can
// help (Error).
//
// It never starts a server, never retries, and knows no Kubernetes. What it
// expects of the server is tested against the real one (Ollama 0.9.6; its
// docs/api.md describes the API).
package ollama

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Bounds on what a server may send.
const (
	maxBodyBytes = 8 << 20
	// A line may hold the numbers of all tokens so far: the last of an answer.
	maxLineBytes  = 4 << 20
	maxErrorBytes = 64 << 10
	// maxLayers is how many layers of a model a Pull adds up.
	maxLayers = 256
	// A petabyte; so the sum of all layers is a number.
	maxLayerBytes = 1 << 50
)

// Client talks to one Ollama server. It is safe for concurrent use. The context
// of a call bounds its time; there is no other timeout, because a Pull may last
// hours.
type Client struct {
	// BaseURL is the server's, as in http://10.0.0.1:11434.
	BaseURL string
	// HTTP sends the requests; a client that follows no redirect and uses no proxy
	// if nil.
	HTTP *http.Client
}

// direct is the client of a server that is reached without a detour.
var direct = &http.Client{
	Transport: &http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	},
}

// Model is a model that a server has stored.
type Model struct {
	// Name is the reference in its normal form.
	Name string `json:"name"`
	// Digest is of the model's manifest, in hexadecimal.
	Digest string `json:"digest"`
	// Size is in bytes, of all layers.
	Size int64 `json:"size"`
}

// Running is a model that a server has in memory.
type Running struct {
	Name string `json:"name"`
	// Size is what it takes in bytes, of any memory; SizeVRAM is the GPUs' part.
	Size     int64 `json:"size"`
	SizeVRAM int64 `json:"size_vram"`
	// ExpiresAt is when the server drops it if nobody asks it anything; centuries
	// away for a model that is kept for ever.
	ExpiresAt time.Time `json:"expires_at"`
}

// Version returns the server's version. It is the cheapest sign that the server
// answers.
func (c *Client) Version(ctx context.Context) (string, error) {
	var answer struct {
		Version string `json:"version"`
	}
	err := c.call(ctx, http.MethodGet, "/api/version", nil, &answer)
	return answer.Version, err
}

// Tags lists the models that are stored, the newest first.
func (c *Client) Tags(ctx context.Context) ([]Model, error) {
	var answer struct {
		Models []Model `json:"models"`
	}
	err := c.call(ctx, http.MethodGet, "/api/tags", nil, &answer)
	return answer.Models, err
}

// Loaded lists the models that are in memory.
func (c *Client) Loaded(ctx context.Context) ([]Running, error) {
	var answer struct {
		Models []Running `json:"models"`
	}
	err := c.call(ctx, http.MethodGet, "/api/ps", nil, &answer)
	return answer.Models, err
}

// Copy gives a stored model another name; the data is there once.
func (c *Client) Copy(ctx context.Context, source, destination string) error {
	return c.call(ctx, http.MethodPost, "/api/copy", map[string]any{"source": source, "destination": destination}, nil)
}

// Delete removes a stored model, and its data unless another model has it too.
// Where the model is loaded it stays in memory until it expires.
func (c *Client) Delete(ctx context.Context, model string) error {
	return c.call(ctx, http.MethodDelete, "/api/delete", map[string]any{"model": model}, nil)
}

// Load brings a stored model into memory and returns when it is there. It stays
// for keepAlive after its last use; less than zero is for ever, zero what the
// server is set to.
func (c *Client) Load(ctx context.Context, model string, keepAlive time.Duration) error {
	request := map[string]any{"model": model, "stream": false}
	switch {
	case keepAlive < 0:
		request["keep_alive"] = -1
	case keepAlive > 0:
		request["keep_alive"] = keepAlive.String()
	}
	return c.call(ctx, http.MethodPost, "/api/generate", request, nil)
}

// Unload tells the server to drop a model from memory. The memory is free a
// moment later: Loaded says when.
func (c *Client) Unload(ctx context.Context, model string) error {
	return c.call(ctx, http.MethodPost, "/api/generate", map[string]any{"model": model, "stream": false, "keep_alive": 0}, nil)
}

// call sends a request and decodes the answer into out, unless out is nil.
func (c *Client) call(ctx context.Context, method, path string, request, out any) error {
	response, err := c.send(ctx, method, path, request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBodyBytes+1))
	switch {
	case err != nil:
		return unreachable(ctx, err)
	case len(body) > maxBodyBytes:
		return &Error{Kind: ErrServer, Said: fmt.Sprintf("an answer to %s of more than %d bytes", path, maxBodyBytes)}
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return &Error{Kind: ErrServer, Said: fmt.Sprintf("an answer to %s that is no JSON: %v", path, err)}
	}
	return nil
}

// send returns the response to a request that the server accepts. The caller
// closes its body.
func (c *Client) send(ctx context.Context, method, path string, request any) (*http.Response, error) {
	var body io.Reader
	if request != nil {
		encoded, err := json.Marshal(request)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	message, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, body)
	if err != nil {
		return nil, fmt.Errorf("ask Ollama at %s: %w", c.BaseURL, err)
	}
	if body != nil {
		message.Header.Set("Content-Type", "application/json")
	}
	client := c.HTTP
	if client == nil {
		client = direct
	}
	response, err := client.Do(message)
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	return nil, refused(path, response.StatusCode, text)
}
