package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The supervisor is told what to do over HTTP on a Unix socket in the cluster's
// folder, which only its owner can enter:
//
//	GET  /status              Status as JSON
//	POST /nodes/NAME/stop     end a node
//	POST /nodes/NAME/start    start it again
//	PUT  /images?ref=NAME     an archive: its images, or its one image under NAMEs
func (s *supervision) serveControl(ctx context.Context) (func(), error) {
	if err := os.Remove(s.folder.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old control socket: %w", err)
	}
	short, release, err := shortPath(s.folder.path(), filepath.Base(s.folder.socket()))
	if err != nil {
		return nil, err
	}
	defer release()
	listener, err := net.Listen("unix", short)
	if err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		status := s.status
		s.mu.Unlock()
		status.Nodes = s.nodeStates()
		_ = json.NewEncoder(w).Encode(status)
	})
	mux.HandleFunc("POST /nodes/{name}/stop", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.StopNode(r.PathValue("name")))
	})
	mux.HandleFunc("POST /nodes/{name}/start", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.StartNode(ctx, r.PathValue("name")))
	})
	mux.HandleFunc("PUT /images", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.receiveImages(r.Context(), r.Body, r.URL.Query()["ref"]))
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: probeTimeout}
	go func() { _ = server.Serve(listener) }()
	return func() { server.Close() }, nil
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	}
}

// receiveImages stores an archive's images and gives them to every node.
func (s *supervision) receiveImages(ctx context.Context, body io.Reader, refs []string) error {
	scratch, err := os.MkdirTemp(s.folder.path(), ".load-")
	if err != nil {
		return fmt.Errorf("make a folder for the images: %w", err)
	}
	defer os.RemoveAll(scratch)
	file := filepath.Join(scratch, "archive.tar")
	if err := unpackFile(file, io.LimitReader(body, maxArchiveBytes)); err != nil {
		return err
	}
	images, err := readArchive(file, filepath.Join(scratch, "layout"))
	if err != nil {
		return err
	}
	if images, err = rename(images, refs); err != nil {
		return err
	}
	if err := s.store.put(images); err != nil {
		return err
	}
	for _, socket := range s.sockets() {
		if err := s.importImages(ctx, socket); err != nil {
			return err
		}
	}
	return nil
}

// rename gives the one image of an archive the names that are asked for. With
// none asked for, images keep those that the archive gives them.
func rename(images map[string]v1.Image, refs []string) (map[string]v1.Image, error) {
	if len(images) == 0 {
		return nil, errors.New("the archive holds no image")
	}
	if len(refs) == 0 {
		if _, nameless := images[""]; nameless {
			return nil, errors.New("the archive's image has no name; give it one")
		}
		return images, nil
	}
	var only v1.Image
	for _, img := range images {
		if only != nil && !sameImage(only, img) {
			return nil, errors.New("the archive holds several images, so they can't take one name")
		}
		only = img
	}
	renamed := make(map[string]v1.Image, len(refs))
	for _, ref := range refs {
		renamed[ref] = only
	}
	return renamed, nil
}

func sameImage(a, b v1.Image) bool {
	first, err := a.Digest()
	if err != nil {
		return false
	}
	second, err := b.Digest()
	return err == nil && first == second
}

// shortPath is a path to a file in dir that a Unix socket's address has room
// for (108 bytes, unix(7)), valid until release is called.
func shortPath(dir, name string) (path string, release func(), err error) {
	opened, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("open the cluster's folder: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", opened.Fd(), name), func() { opened.Close() }, nil
}

// control talks to a cluster's supervisor.
type control struct{ client *http.Client }

func newControl(f folder) control {
	return control{client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			short, release, err := shortPath(f.path(), filepath.Base(f.socket()))
			if err != nil {
				return nil, err
			}
			defer release()
			return (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, "unix", short)
		},
	}}}
}

func (c control) status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var status Status
	body, err := c.do(ctx, http.MethodGet, "/status", nil)
	if err != nil {
		return status, err
	}
	defer body.Close()
	return status, json.NewDecoder(io.LimitReader(body, 1<<20)).Decode(&status)
}

func (c control) node(ctx context.Context, name, verb string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	body, err := c.do(ctx, http.MethodPost, "/nodes/"+url.PathEscape(name)+"/"+verb, nil)
	if err != nil {
		return err
	}
	return body.Close()
}

func (c control) load(ctx context.Context, archive io.Reader, refs []string) error {
	body, err := c.do(ctx, http.MethodPut, "/images?"+url.Values{"ref": refs}.Encode(), archive)
	if err != nil {
		return err
	}
	return body.Close()
}

func (c control) do(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://cluster"+path, body)
	if err != nil {
		return nil, err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("talk to the cluster's supervisor: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, errors.New(readBounded(response.Body))
	}
	return response.Body, nil
}
