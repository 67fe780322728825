package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slipway-dev/slipway/internal/cluster/config"
)

// serveMirror offers the stored images to the nodes as a registry, read only,
// for every registry's name: a pod that insists on pulling an image gets it too.
func (s *supervision) serveMirror(ctx context.Context) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", config.Gateway, config.MirrorPort))
	if err != nil {
		return fmt.Errorf("serve images to the nodes: %w", err)
	}
	server := &http.Server{Handler: mirror{s.store}, ReadHeaderTimeout: probeTimeout, IdleTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	go func() { _ = server.Serve(listener) }()
	return nil
}

// mirror serves an image store in the pull half of the OCI distribution
// specification. The registry that the client means is in the query's ns, as
// containerd sends it (its docs/hosts.md).
type mirror struct{ store *imageStore }

func (m mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if rest == "" {
		return // the protocol is spoken here
	}
	if repository, reference, ok := cutLast(rest, "/manifests/"); ok {
		m.manifest(w, r, repository, reference)
		return
	}
	if _, digest, ok := cutLast(rest, "/blobs/"); ok {
		m.blob(w, r, digest, "application/octet-stream")
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

func (m mirror) manifest(w http.ResponseWriter, r *http.Request, repository, reference string) {
	images, err := m.store.all()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	registry := r.URL.Query().Get("ns")
	for ref, img := range images {
		digest, err := img.Digest()
		if err != nil {
			continue
		}
		if ref == registry+"/"+repository+":"+reference || digest.String() == reference {
			mediaType, err := img.MediaType()
			if err != nil {
				continue
			}
			m.blob(w, r, digest.String(), string(mediaType))
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (m mirror) blob(w http.ResponseWriter, r *http.Request, digest, mediaType string) {
	hash, err := v1.NewHash(digest)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	file, err := os.Open(filepath.Join(m.store.dir, "blobs", hash.Algorithm, hash.Hex))
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	defer file.Close()
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest)
	http.ServeContent(w, r, "", time.Time{}, file)
}

// cutLast cuts text around the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}
