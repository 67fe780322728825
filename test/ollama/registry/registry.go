// Package registry is a registry that a real Ollama server pulls models from,
// for tests: it serves a few small models, fails as it is told, and remembers
// what it was asked for.
//
// It speaks the part of the registry protocol that Ollama 0.9.6 uses
// (server/images.go and download.go of its source): no uploads, no credentials,
// no listing.
package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/test/ollama/model"
)

// maxRequests is how many requests are remembered.
const maxRequests = 4096

// Faults are what goes wrong. The zero value is a registry that works.
type Faults struct {
	// Fail is how many of the next requests are answered with Status, after Skip
	// that are answered as usual.
	Fail int `json:"fail,omitempty"`
	Skip int `json:"skip,omitempty"`
	// Status is what they are answered with; 500 if zero. With 401 the registry
	// says where to get a token.
	Status int `json:"status,omitempty"`
	// Break is how many of the next transfers of a model's data end, with their
	// connection, after BreakAfter bytes.
	Break      int   `json:"break,omitempty"`
	BreakAfter int64 `json:"breakAfter,omitempty"`
	// Damage is how many of the next transfers of a model's data have a wrong
	// byte.
	Damage int `json:"damage,omitempty"`
	// BytesPerSecond slows transfers of a model's data; zero is full speed.
	BytesPerSecond int `json:"bytesPerSecond,omitempty"`
}

// Request is a request that the registry was sent.
type Request struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	// Range is the part of a blob that was asked for, as in bytes=0-99.
	Range string `json:"range,omitempty"`
}

// Registry is an http.Handler. Beside /v2/ it has /control/faults (GET and PUT)
// and /control/requests (GET and DELETE), in JSON, for tests that reach it over
// a network only.
type Registry struct {
	models map[string]model.Model
	// data are the digests of the models' weights.
	data map[string]bool

	mu       sync.Mutex
	faults   Faults
	requests []Request
}

// New makes a registry of models by their names, as in library/tinyllama:latest.
func New(models map[string]model.Model) *Registry {
	r := &Registry{models: models, data: map[string]bool{}}
	for _, m := range models {
		r.data[m.Data] = true
	}
	return r
}

// Usual are the models of a registry that isn't given others: those that
// manifests in the specification name, a private one, and one that fits into no
// memory. All but tinyllama say model.Changed.
func Usual() map[string]model.Model {
	first, second := model.First(), model.Second()
	return map[string]model.Model{
		"library/tinyllama:latest": first,
		"library/llama2:latest":    second,
		"library/llama2:7b":        second,
		"library/mistral:latest":   second,
		"library/phi:latest":       second,
		"library/codellama:latest": second,
		"team/private:v1":          second,
		"library/huge:latest":      model.Huge(),
	}
}

// Set replaces the faults.
func (r *Registry) Set(faults Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = faults
}

// Faults are the faults that are left.
func (r *Registry) Faults() Faults {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faults
}

// Requests are the last requests below /v2/, the oldest first.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Request{}, r.requests...)
}

// Forget drops the requests that were remembered.
func (r *Registry) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = nil
}

// ServeHTTP answers a request.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	switch {
	case strings.HasPrefix(request.URL.Path, "/v2/"):
		r.serve(w, request)
	case request.URL.Path == "/control/faults":
		r.controlFaults(w, request)
	case request.URL.Path == "/control/requests":
		if request.Method == http.MethodDelete {
			r.Forget()
		}
		writeJSON(w, r.Requests())
	case request.URL.Path == "/token":
		// What the registry then accepts or doesn't.
		writeJSON(w, map[string]string{"token": "of-a-test"})
	default:
		http.NotFound(w, request)
	}
}

func (r *Registry) controlFaults(w http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodPut {
		decoder := json.NewDecoder(http.MaxBytesReader(w, request.Body, 64<<10))
		decoder.DisallowUnknownFields()
		var faults Faults
		if err := decoder.Decode(&faults); err != nil {
			http.Error(w, "faults: "+err.Error(), http.StatusBadRequest)
			return
		}
		r.Set(faults)
	}
	writeJSON(w, r.Faults())
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	// A reader that went away is no fault here.
	_ = json.NewEncoder(w).Encode(value)
}

// serve answers a request of the registry protocol.
func (r *Registry) serve(w http.ResponseWriter, request *http.Request) {
	if status := r.note(request); status != 0 {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="%[1]s",scope="pull"`, request.Host))
		}
		http.Error(w, `{"errors":[{"code":"INTERNAL_ERROR","message":"told to fail"}]}`, status)
		return
	}
	path := strings.TrimPrefix(request.URL.Path, "/v2/")
	if name, tag, found := strings.Cut(path, "/manifests/"); found {
		m, known := r.models[name+":"+tag]
		if !known {
			http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
		http.ServeContent(w, request, "", time.Time{}, bytes.NewReader(m.Manifest))
		return
	}
	name, digest, found := strings.Cut(path, "/blobs/")
	content := r.blob(name, digest)
	if !found || content == nil {
		http.Error(w, `{"errors":[{"code":"BLOB_UNKNOWN","message":"blob unknown"}]}`, http.StatusNotFound)
		return
	}
	// Where a transfer is to begin: Ollama asks that first, without a range, and
	// wants this header of whatever status.
	w.Header().Set("Location", request.URL.Path)
	if request.Method == http.MethodGet && request.Header.Get("Range") == "" {
		return
	}
	r.transfer(w, request, digest, content)
}

// note remembers a request and returns the status that it fails with, or zero.
func (r *Registry) note(request *http.Request) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, Request{Method: request.Method, Path: request.URL.Path, Range: request.Header.Get("Range")})
	if len(r.requests) > maxRequests {
		r.requests = r.requests[len(r.requests)-maxRequests:]
	}
	switch {
	case r.faults.Fail <= 0:
		return 0
	case r.faults.Skip > 0:
		r.faults.Skip--
		return 0
	}
	r.faults.Fail--
	if r.faults.Status == 0 {
		return http.StatusInternalServerError
	}
	return r.faults.Status
}

// blob is the content of a digest that a model of this name has, or nil.
func (r *Registry) blob(name, digest string) []byte {
	for full, m := range r.models {
		if strings.HasPrefix(full, name+":") && m.Blobs[digest] != nil {
			return m.Blobs[digest]
		}
	}
	return nil
}

// transfer sends a blob or the range of it that is asked for, with the faults of
// transfers if it is a model's data.
func (r *Registry) transfer(w http.ResponseWriter, request *http.Request, digest string, content []byte) {
	if request.Method != http.MethodGet || !r.data[digest] {
		http.ServeContent(w, request, "", time.Time{}, bytes.NewReader(content))
		return
	}
	r.mu.Lock()
	out := &faultyWriter{ResponseWriter: w, request: request, perSecond: r.faults.BytesPerSecond, left: -1}
	if r.faults.Break > 0 {
		r.faults.Break--
		out.left = r.faults.BreakAfter
	}
	if r.faults.Damage > 0 {
		r.faults.Damage--
		content = bytes.Clone(content)
		content[len(content)-1] ^= 0xff
	}
	r.mu.Unlock()
	http.ServeContent(out, request, "", time.Time{}, bytes.NewReader(content))
}

// faultyWriter sends slowly, or breaks the connection.
type faultyWriter struct {
	http.ResponseWriter
	request   *http.Request
	perSecond int
	// left is how many bytes are sent before the connection breaks; never if less
	// than zero.
	left int64
}

// Write sends data in pieces of a twentieth of a second.
func (f *faultyWriter) Write(data []byte) (int, error) {
	written := 0
	for written < len(data) {
		piece := data[written:]
		if f.perSecond > 0 {
			piece = piece[:min(len(piece), max(1, f.perSecond/20))]
		}
		if f.left >= 0 && int64(len(piece)) >= f.left {
			// What is promised beyond this doesn't come: the connection ends without it.
			_, _ = f.ResponseWriter.Write(piece[:f.left])
			_ = f.flush()
			panic(http.ErrAbortHandler)
		}
		n, err := f.ResponseWriter.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		if f.left > 0 {
			f.left -= int64(n)
		}
		if err := f.pause(); err != nil {
			return written, err
		}
	}
	return written, nil
}

func (f *faultyWriter) flush() error { return http.NewResponseController(f.ResponseWriter).Flush() }

// pause waits where the transfer is slow, or until nobody reads it any more.
func (f *faultyWriter) pause() error {
	if f.perSecond <= 0 {
		return nil
	}
	if err := f.flush(); err != nil {
		return err
	}
	timer := time.NewTimer(time.Second / 20)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-f.request.Context().Done():
		return f.request.Context().Err()
	}
}

// Start is where a range as Ollama asks for it begins; -1 if it is none.
func (r Request) Start() int64 {
	begin, found := strings.CutPrefix(r.Range, "bytes=")
	if !found {
		return -1
	}
	begin, _, _ = strings.Cut(begin, "-")
	start, err := strconv.ParseInt(begin, 10, 64)
	if err != nil {
		return -1
	}
	return start
}
