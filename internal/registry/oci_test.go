package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// hub is an OCI registry.
type hub struct {
	*httptest.Server
	inner http.Handler // the registry itself, which asks for nothing
	mu    sync.Mutex
	// ask, if set, stands before the registry and says whether it has answered.
	ask func(http.ResponseWriter, *http.Request) bool
	// paths that were asked for.
	paths []string
}

func newHub(t testing.TB) *hub {
	t.Helper()
	h := &hub{inner: registry.New(registry.Logger(quiet))}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.paths = append(h.paths, r.URL.Path)
	ask := h.ask
	h.mu.Unlock()
	if ask == nil || !ask(w, r) {
		h.inner.ServeHTTP(w, r)
	}
}

func (h *hub) host() string { return strings.TrimPrefix(h.URL, "http://") }

func (h *hub) asked(part string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	count := 0
	for _, path := range h.paths {
		if strings.Contains(path, part) {
			count++
		}
	}
	return count
}

// push publishes a chart in the registry under a tag, before which nothing stands.
func (h *hub) push(t testing.TB, path, tag string, media types.MediaType, data []byte) v1.Hash {
	t.Helper()
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.helm.config.v1+json"),
		static.NewLayer(data, media))
	if err != nil {
		t.Fatal(err)
	}
	reference, err := name.NewTag(h.host() + "/" + path + ":" + tag)
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	ask := h.ask
	h.ask = nil
	h.mu.Unlock()
	if err := remote.Write(reference, image, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.ask, h.paths = ask, nil
	h.mu.Unlock()
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func (h *hub) pushChart(t testing.TB, chart, version string) {
	h.push(t, "charts/"+chart, strings.ReplaceAll(version, "+", "_"), chartLayer, chartOf(t, chart, version))
}

func TestChartsInAnOCIRegistry(t *testing.T) {
	hub := newHub(t)
	for _, version := range []string{"v1.0.0", "1.0.1", "1.1.0+build.5", "2.0.0-rc.1"} {
		hub.pushChart(t, "inferencepool", version)
	}
	// Tags that move with the versions, and others.
	for _, tag := range []string{"1", "1.9", "latest", "v9"} {
		hub.push(t, "charts/inferencepool", tag, chartLayer, chartOf(t, "inferencepool", "1.0.1"))
	}
	client := newClient(Options{})
	repository := "oci://" + hub.host() + "/charts"
	for asked, want := range map[string]string{
		"1.0.0": "v1.0.0", "v1.0.1": "1.0.1", "1.1.0+build.5": "1.1.0+build.5", "~1.0": "1.0.1", "": "1.1.0+build.5", ">1.5-0": "2.0.0-rc.1",
	} {
		archive, err := client.Chart(t.Context(), Chart{Repository: repository, Name: "inferencepool", Version: asked}, Credentials{})
		wantChart(t, archive, err, "inferencepool", want)
	}
	// An exact version needs no list.
	hub.mu.Lock()
	hub.paths = nil
	hub.mu.Unlock()
	archive, err := newClient(Options{}).Chart(t.Context(), Chart{Repository: repository, Name: "inferencepool", Version: "1.0.1"}, Credentials{})
	wantChart(t, archive, err, "inferencepool", "1.0.1")
	if hub.asked("/tags/") != 0 || hub.asked("/manifests/") != 1 || hub.asked("/blobs/") != 1 {
		t.Errorf("asked for %v", hub.paths)
	}
	_, err = client.Chart(t.Context(), Chart{Repository: repository, Name: "inferencepool", Version: "1.0.7"}, Credentials{})
	wantError[*NotFoundError](t, err, "has no version 1.0.7 of chart inferencepool; it has 2.0.0-rc.1")
	_, err = client.Chart(t.Context(), Chart{Repository: repository, Name: "nothing", Version: "1.0.0"}, Credentials{})
	wantError[*NotFoundError](t, err, "has no chart nothing")

	archive, err = client.Chart(t.Context(), Chart{Repository: "oci+http://" + hub.host() + "/charts/", Name: "inferencepool", Version: "1.0.1"}, Credentials{})
	wantChart(t, archive, err, "inferencepool", "1.0.1")
	hub.push(t, "charts/image", "1.0.0", types.OCILayer, []byte("x"))
	_, err = client.Chart(t.Context(), Chart{Repository: repository, Name: "image", Version: "1.0.0"}, Credentials{})
	wantError[*InvalidError](t, err, "is an image and no Helm chart")
	_, err = newClient(Options{Limits: Limits{Archive: 100}}).Chart(t.Context(), Chart{Repository: repository, Name: "inferencepool", Version: "1.0.1"}, Credentials{})
	wantError[*TooLargeError](t, err, "larger than the 100 bytes")
	hub.Close()
	_, err = newClient(Options{}).Chart(t.Context(), Chart{Repository: repository, Name: "inferencepool", Version: "1.0.1"}, Credentials{})
	wantError[*UnavailableError](t, err, repository+"/inferencepool is not available", "connection refused")
}

func TestRegistryWithBasicAuth(t *testing.T) {
	hub := newHub(t)
	hub.pushChart(t, "infra", "1.0.0")
	hub.ask = func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if user == "me" && password == "hunter2" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="it"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	chart := Chart{Repository: "oci://" + hub.host() + "/charts", Name: "infra", Version: "^1"}
	archive, err := newClient(Options{}).Chart(t.Context(), chart, Credentials{Username: "me", Password: "hunter2"})
	wantChart(t, archive, err, "infra", "1.0.0")
	_, err = newClient(Options{}).Chart(t.Context(), chart, Credentials{Username: "me", Password: "hunter3"})
	wantError[*UnauthorizedError](t, err, "refuses the credentials")
	_, err = newClient(Options{}).Chart(t.Context(), chart, Credentials{})
	wantError[*UnauthorizedError](t, err, "asks for credentials")
}

// Most registries hand out tokens.
func TestRegistryWithTokens(t *testing.T) {
	hub := newHub(t)
	hub.pushChart(t, "infra", "1.0.0")
	hub.ask = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" {
				w.WriteHeader(http.StatusUnauthorized)
			} else if r.URL.Query().Get("scope") != "repository:charts/infra:pull" {
				w.WriteHeader(http.StatusBadRequest)
			} else {
				w.Write([]byte(`{"token":"sesame"}`))
			}
			return true
		}
		if r.Header.Get("Authorization") == "Bearer sesame" {
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="it"`, r.Host))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	chart := Chart{Repository: "oci://" + hub.host() + "/charts", Name: "infra", Version: "1.0.0"}
	archive, err := newClient(Options{}).Chart(t.Context(), chart, Credentials{Username: "me", Password: "hunter2"})
	wantChart(t, archive, err, "infra", "1.0.0")
	archive, err = newClient(Options{}).Chart(t.Context(), chart, Credentials{Token: "sesame"})
	wantChart(t, archive, err, "infra", "1.0.0")
	_, err = newClient(Options{}).Chart(t.Context(), chart, Credentials{Username: "me", Password: "hunter3"})
	wantError[*UnauthorizedError](t, err, "refuses the credentials")
	_, err = newClient(Options{}).Chart(t.Context(), chart, Credentials{})
	wantError[*UnauthorizedError](t, err, "asks for credentials")
}

// Registries keep blobs elsewhere, and send there whoever asks.
func TestBlobsElsewhere(t *testing.T) {
	store := newSite(t, false)
	hub := newHub(t)
	hub.pushChart(t, "infra", "1.0.0")
	data := chartOf(t, "infra", "1.0.0")
	store.files["/blob"] = data
	hub.ask = func(w http.ResponseWriter, r *http.Request) bool {
		if user, _, _ := r.BasicAuth(); user != "me" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		http.Redirect(w, r, store.URL+"/blob?signature=hunter2", http.StatusTemporaryRedirect)
		return true
	}
	chart := Chart{Repository: "oci://" + hub.host() + "/charts", Name: "infra", Version: "1.0.0"}
	credentials := Credentials{Username: "me", Password: "hunter2"}
	archive, err := newClient(Options{}).Chart(t.Context(), chart, credentials)
	wantChart(t, archive, err, "infra", "1.0.0")
	if len(store.authorized) > 0 {
		t.Error("the store was sent credentials")
	}
	store.set(func() { store.files["/blob"] = data[:len(data)-1] })
	_, err = newClient(Options{}).Chart(t.Context(), chart, credentials)
	wantError[*DigestError](t, err)
	store.Close()
	_, err = newClient(Options{}).Chart(t.Context(), chart, credentials)
	wantError[*UnavailableError](t, err)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%q tells a secret", err)
	}
}

func TestTagsComeInPages(t *testing.T) {
	hub := newHub(t)
	hub.pushChart(t, "infra", "1.2.3")
	hub.ask = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return false
		}
		pages := map[string][]string{"": {"1.0.0", "1.1.0"}, "1.1.0": {"1.2.3", "latest"}}
		last := r.URL.Query().Get("last")
		if last == "" {
			// The host of a link doesn't count, or it could lead away.
			w.Header().Set("Link", `<http://elsewhere.invalid/v2/charts/infra/tags/list?last=1.1.0&n=1000>; rel="next"`)
		}
		data, _ := json.Marshal(map[string]any{"tags": pages[last]})
		w.Write(data)
		return true
	}
	archive, err := newClient(Options{}).Chart(t.Context(), Chart{Repository: "oci://" + hub.host() + "/charts", Name: "infra"}, Credentials{})
	wantChart(t, archive, err, "infra", "1.2.3")
}

// What isn't a chart is read by the same means.
func TestRepositoryReadsAnyImage(t *testing.T) {
	hub := newHub(t)
	digest := hub.push(t, "bundles/operator", "v1", types.OCILayer, zip(t, tarOf(t, entry2("manifests/csv.yaml"))))
	client := newClient(Options{})
	repository, err := client.OpenRepository(t.Context(), "oci://"+hub.host()+"/bundles/operator", Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer repository.Close()
	for _, reference := range []string{"v1", digest.String()} {
		manifest, err := repository.Manifest(t.Context(), reference)
		if err != nil || manifest.Digest != digest.String() || len(manifest.Layers) != 1 {
			t.Fatalf("%s: %+v, %v", reference, manifest, err)
		}
		layer, err := repository.Blob(t.Context(), manifest.Layers[0], 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		if err := Unpack("it", layer, Limits{}, func(file File) error { names = append(names, file.Name); return nil }); err != nil || len(names) != 1 {
			t.Errorf("%v, %v", names, err)
		}
	}
	_, err = repository.Manifest(t.Context(), "v2")
	wantError[*NotFoundError](t, err)
	_, err = repository.Manifest(t.Context(), "../../other/manifests/v1")
	wantError[*InvalidError](t, err, "neither a tag nor a digest")
	_, err = repository.Blob(t.Context(), Descriptor{Digest: "sha256:../x"}, 10)
	wantError[*InvalidError](t, err, "none of sha256")
	_, err = repository.Blob(t.Context(), Descriptor{Digest: Digest(nil)}, 10)
	wantError[*InvalidError](t, err, "not there")
	hub.mu.Lock()
	hub.ask = func(w http.ResponseWriter, _ *http.Request) bool { w.Write([]byte("{}")); return true }
	hub.mu.Unlock()
	_, err = repository.Blob(t.Context(), Descriptor{Digest: Digest(nil)}, 10)
	wantError[*DigestError](t, err)
	_, err = repository.Manifest(t.Context(), digest.String())
	wantError[*DigestError](t, err)
	for _, at := range []string{"https://" + hub.host() + "/x", "/x", "oci://" + hub.host(), "oci://" + hub.host() + "/a/../b", "oci://" + url.PathEscape("a b") + "/x"} {
		if _, err := client.OpenRepository(t.Context(), at, Credentials{}); err == nil {
			t.Errorf("%s was opened", at)
		}
	}
}
