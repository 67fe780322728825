package manifests_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/registry/bundle"
	"github.com/slipway-dev/slipway/internal/registry/manifests"
)

const (
	first = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: x}\ndata: {n: \"1\"}\n---\n# nothing\n---\n" +
		"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n"
	second = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"c"},"spec":{"replicas":3}}`
)

var (
	both  = map[string]string{"a.yaml": first, "deep/er/b.json": second, "README.md": "# text"}
	three = []string{"ConfigMap x/a", "Secret b", "Deployment c"}
)

func source() manifests.Source {
	return manifests.Source{Images: bundle.Source{Registry: registry.New(registry.Options{Now: time.Now})}}
}

func names(found manifests.Manifests) []string {
	var all []string
	for _, each := range found.Objects {
		all = append(all, object.Of(each).Display())
	}
	return all
}

func fetch(t *testing.T, where manifests.Where) manifests.Manifests {
	t.Helper()
	found, err := source().Fetch(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(three, names(found)); diff != "" {
		t.Errorf("%v: %s", where, diff)
	}
	if replicas := found.Objects[2].Object["spec"].(map[string]any)["replicas"]; replicas != int64(3) {
		t.Errorf("replicas are %T", replicas)
	}
	return found
}

func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// archive is a directory as a .tar.gz.
func archive(t *testing.T, dir string) []byte {
	t.Helper()
	var text bytes.Buffer
	zipped := gzip.NewWriter(&text)
	writer := tar.NewWriter(zipped)
	if err := errors.Join(writer.AddFS(os.DirFS(dir)), writer.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func sentence(t *testing.T, err error, want string) {
	t.Helper()
	var told *bundle.Error
	if !errors.As(err, &told) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter") {
		t.Errorf("got %v, want one line with %q and no secret", err, want)
	}
}

func TestDirectoriesAndFiles(t *testing.T) {
	dir := written(t, both)
	found := fetch(t, manifests.Where{Path: dir})
	fetch(t, manifests.Where{Path: dir, Digest: found.Digest})
	other := fetch(t, manifests.Where{Path: written(t, map[string]string{"a.yaml": first + "\n", "deep/er/b.json": second})})
	if other.Digest == found.Digest {
		t.Error("the same digest for another text")
	}
	packed := filepath.Join(t.TempDir(), "all.tgz")
	if err := os.WriteFile(packed, archive(t, dir), 0o644); err != nil {
		t.Fatal(err)
	}
	fetch(t, manifests.Where{Path: packed})
	one := written(t, map[string]string{"install.yaml": first + "---\n" + second})
	if found := fetch(t, manifests.Where{Path: one + "/install.yaml"}); found.Digest != registry.Digest([]byte(first+"---\n"+second)) {
		t.Error(found.Digest)
	}
}

func hub(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func pushed(t *testing.T, reference string, layers ...mutate.Addendum) string {
	t.Helper()
	made, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	if err != nil {
		t.Fatal(err)
	}
	at, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := made.Digest()
	if err := errors.Join(err, remote.Write(at, made)); err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// file is a layer as oras push makes it.
func file(title, text string) mutate.Addendum {
	return mutate.Addendum{
		Layer:       static.NewLayer([]byte(text), "application/vnd.oci.image.layer.v1+yaml"),
		Annotations: map[string]string{"org.opencontainers.image.title": title},
	}
}

func TestArtifacts(t *testing.T) {
	host := hub(t)
	digest := pushed(t, host+"/team/packed:v1", mutate.Addendum{Layer: static.NewLayer(archive(t, written(t, both)), "application/vnd.cncf.flux.content.v1.tar+gzip")})
	for _, image := range []string{host + "/team/packed:v1", "oci://" + host + "/team/packed:v1", host + "/team/packed@" + digest, "oci+http://" + host + "/team/packed:v1"} {
		if found := fetch(t, manifests.Where{Image: image}); found.Digest != digest {
			t.Error(found.Digest)
		}
		fetch(t, manifests.Where{Image: image, Digest: digest})
	}
	pushed(t, host+"/team/files:v1", file("a.yaml", first), file("deep/er/b.json", second))
	fetch(t, manifests.Where{Image: host + "/team/files:v1"})
	none := "sha256:" + strings.Repeat("0", 64)
	pushed(t, host+"/team/climbs:v1", file("../a.yaml", first))
	for want, where := range map[string]manifests.Where{
		"leads out of the image":        {Image: host + "/team/climbs:v1"},
		"has no such image":             {Image: host + "/team/packed:v1", Digest: none},
		"has digest " + digest:          {Image: host + "/team/packed@" + digest, Digest: none},
		"neither there as a file":       {Image: "packed:v1"},
		"need exactly one of path":      {Image: host + "/team/packed:v1", Path: "/"},
		"is not available":              {Image: "127.0.0.1:1/a:b"},
		"may hold no user name":         {Image: "me:hunter2@" + host + "/team/packed:v1"},
		"the manifests: they need exac": {},
	} {
		_, err := source().Fetch(t.Context(), where)
		sentence(t, err, want)
	}
}

func TestURLs(t *testing.T) {
	text := []byte(first + "---\n" + second)
	packed := archive(t, written(t, both))
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/install.yaml":
			w.Write(text)
		case "/all.tgz":
			w.Write(packed)
		case "/moved":
			http.Redirect(w, r, server.URL+"/install.yaml?token=hunter2", http.StatusFound)
		case "/locked":
			w.WriteHeader(http.StatusForbidden)
		case "/down":
			w.WriteHeader(http.StatusBadGateway)
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	whole := registry.Digest(text)
	fetch(t, manifests.Where{URL: server.URL + "/install.yaml", Digest: whole})
	fetch(t, manifests.Where{URL: server.URL + "/moved", Digest: whole})
	fetch(t, manifests.Where{URL: server.URL + "/all.tgz", Digest: registry.Digest(packed)})
	for path, want := range map[string]string{
		"/all.tgz":              "has digest " + registry.Digest(packed) + ", not " + whole,
		"/none?token=hunter2":   "/none: there is no such file",
		"/locked?token=hunter2": "/locked: it asks for credentials",
		"/down?token=hunter2":   "/down: it is not available: it answers 502 Bad Gateway",
		"/endless":              "larger than the 32 MiB allowed",
	} {
		_, err := source().Fetch(t.Context(), manifests.Where{URL: server.URL + path, Digest: whole})
		sentence(t, err, want)
	}
	for location, want := range map[string]string{
		"ftp://example.com/a":               "it is no URL",
		"https://me:hunter2@example.com/a":  "may hold no user name or password",
		"http://127.0.0.1:1/a?key=hunter22": "http://127.0.0.1:1/a: it is not available",
	} {
		_, err := source().Fetch(t.Context(), manifests.Where{URL: location, Digest: whole})
		sentence(t, err, want)
	}
	// What passes is told from what doesn't.
	for path, passes := range map[string]bool{"/down": true, "/none": false} {
		var unavailable *registry.UnavailableError
		if _, err := source().Fetch(t.Context(), manifests.Where{URL: server.URL + path, Digest: whole}); errors.As(err, &unavailable) != passes {
			t.Errorf("%s: %#v", path, err)
		}
	}
	_, err := source().Fetch(t.Context(), manifests.Where{URL: server.URL + "/install.yaml?token=hunter2"})
	sentence(t, err, "need a digest")
}

func TestWhatIsNoManifest(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"a.yaml can't be read":                       {"a.yaml": "a: [\n"},
		"b.yaml can't be read: yaml":                 {"a.yaml": first, "b.yaml": "a: 1\na: 2\n"},
		"it is no object":                            {"a.yaml": "- 1\n"},
		"without apiVersion or kind":                 {"a.yaml": "a: 1\n"},
		"has a ConfigMap without a name":             {"a.yaml": "{apiVersion: v1, kind: ConfigMap}"},
		"is for kustomize":                           {"kustomization.yaml": "{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization}"},
		"a.yaml has a List with an item":             {"a.yaml": "{apiVersion: v1, kind: List, items: [1]}"},
		"b.yaml has ConfigMap x/a, which is in a.ya": {"a.yaml": first, "b.yaml": first},
		"there is no manifest in it":                 {"README.md": "text"},
	} {
		_, err := source().Fetch(t.Context(), manifests.Where{Path: written(t, files)})
		sentence(t, err, want)
	}
	var many strings.Builder
	for i := range 2001 {
		fmt.Fprintf(&many, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a%d}}\n---\n", i)
	}
	_, err := source().Fetch(t.Context(), manifests.Where{Path: written(t, map[string]string{"a.yaml": many.String()})})
	sentence(t, err, "more than 2000 objects")
	_, err = source().Fetch(t.Context(), manifests.Where{Path: "/nowhere/at/all"})
	sentence(t, err, "it isn't there")
	_, err = source().Fetch(t.Context(), manifests.Where{Path: written(t, both), Digest: "sha256:" + strings.Repeat("0", 64)})
	sentence(t, err, "it has digest sha256:")
}

// FuzzParse: whatever a file is, an error is one line, and objects are whole.
func FuzzParse(f *testing.F) {
	f.Add([]byte(first))
	f.Add([]byte(second))
	f.Add([]byte("items: []\nkind: List\napiVersion: v1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "a.yaml")
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		found, err := source().Fetch(t.Context(), manifests.Where{Path: name})
		if err != nil {
			sentence(t, err, ":")
			return
		}
		for _, each := range found.Objects {
			if each.GetName() == "" || each.GetKind() == "" || each.GetAPIVersion() == "" {
				t.Errorf("%v", each.Object)
			}
		}
	})
}
