package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/registry/bundle"
)

// entry is one of a layer's tar archive.
type entry struct {
	name, text string
	kind       byte
}

func packed(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var text bytes.Buffer
	zipped := gzip.NewWriter(&text)
	writer := tar.NewWriter(zipped)
	for _, each := range entries {
		header := &tar.Header{Name: each.name, Mode: 0o644, Size: int64(len(each.text)), Typeflag: each.kind}
		if each.kind == tar.TypeSymlink || each.kind == tar.TypeLink {
			header.Linkname, header.Size = each.text, 0
		}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Size > 0 {
			if _, err := writer.Write([]byte(each.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(writer.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func image(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	made := empty.Image
	for _, data := range layers {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
		if err != nil {
			layer = static.NewLayer(data, types.DockerLayer)
		}
		if made, err = mutate.AppendLayers(made, layer); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

// three layers of which the later ones change what the earlier ones have.
func three(t testing.TB) v1.Image {
	return image(t,
		packed(t,
			entry{"manifests/", "", tar.TypeDir}, entry{"./manifests/a.yaml", "a: 1", 0}, entry{"manifests/b.yaml", "b: 1", 0},
			entry{"manifests/old/c.yaml", "c: 1", 0}, entry{"metadata/annotations.yaml", "m: 1", 0}, entry{"metadata/x.yaml", "x: 1", 0},
			entry{"usr/bin/program", "\x7fELF", 0}, entry{"etc/link", "/etc/shadow", tar.TypeSymlink}),
		packed(t, entry{"manifests/.wh.b.yaml", "", 0}, entry{"manifests/.wh.old", "", 0}, entry{"manifests/a.yaml", "a: 2", 0}),
		packed(t, entry{"metadata/annotations.yaml", "m: 3", 0}, entry{"metadata/.wh..wh..opq", "", 0}),
	)
}

var wantThree = map[string]string{"manifests/a.yaml": "a: 2", "metadata/annotations.yaml": "m: 3"}

// hub is a registry; ask, if set, stands before it and says whether it has answered.
func hub(t testing.TB, ask func(http.ResponseWriter, *http.Request) bool) (host string) {
	t.Helper()
	inner := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ask == nil || r.Header.Get("X-Test") != "" || !ask(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// marked lets the test itself through to a registry that asks others.
type marked struct{}

func (marked) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Test", "1")
	return http.DefaultTransport.RoundTrip(r)
}

func push(t testing.TB, reference string, made v1.Image) string {
	t.Helper()
	at, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(at, made, remote.WithContext(t.Context()), remote.WithTransport(marked{})); err != nil {
		t.Fatal(err)
	}
	digest, err := made.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func source(credentials registry.Credentials) bundle.Source {
	return bundle.Source{
		Registry: registry.New(registry.Options{Now: time.Now}),
		Credentials: func(context.Context, string, string) (registry.Credentials, error) {
			return credentials, nil
		},
	}
}

func texts(found bundle.Bundle) map[string]string {
	made := map[string]string{}
	for name, text := range found.Files {
		made[name] = string(text)
	}
	return made
}

func fetch(t *testing.T, reference string) bundle.Bundle {
	t.Helper()
	found, err := source(registry.Credentials{}).Fetch(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantThree, texts(found)); diff != "" {
		t.Error(diff)
	}
	return found
}

func TestWhereBundlesAre(t *testing.T) {
	host := hub(t, nil)
	made := three(t)
	digest := push(t, host+"/team/bundle:v1", made)
	for _, reference := range []string{host + "/team/bundle:v1", host + "/team/bundle@" + digest, "docker://" + host + "/team/bundle:v1@" + digest, "oci+http://" + host + "/team/bundle:v1"} {
		if found := fetch(t, reference); found.Digest != digest {
			t.Errorf("%s: %s", reference, found.Digest)
		}
	}
	index, err := name.NewTag(host + "/team/bundle:index")
	if err != nil {
		t.Fatal(err)
	}
	other := mutate.IndexAddendum{Add: empty.Image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}}
	mine := mutate.IndexAddendum{Add: made, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}}
	if err := remote.WriteIndex(index, mutate.AppendManifests(empty.Index, other, mine)); err != nil {
		t.Fatal(err)
	}
	fetch(t, host+"/team/bundle:index")

	dir := t.TempDir()
	path, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(made, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "v1"})); err != nil {
		t.Fatal(err)
	}
	for _, reference := range []string{dir + "/layout", "oci:" + dir + "/layout", "oci:" + dir + "/layout:v1", dir + "/layout@" + digest} {
		fetch(t, reference)
	}
	tag, err := name.NewTag("example.com/bundle:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(dir+"/bundle.tar", tag, made); err != nil {
		t.Fatal(err)
	}
	fetch(t, dir+"/bundle.tar")
	fetch(t, "docker-archive:"+dir+"/bundle.tar")
	archived(t, dir+"/layout", dir+"/oci.tar")
	if found := fetch(t, dir+"/oci.tar@"+digest); found.Digest != digest {
		t.Error(found.Digest)
	}
	for name, text := range wantThree {
		write(t, filepath.Join(dir, "plain", name), text)
	}
	write(t, filepath.Join(dir, "plain", "Dockerfile"), "FROM scratch")
	fetch(t, dir+"/plain")
	t.Chdir(dir)
	fetch(t, "plain")
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// archived writes a directory as a tar file.
func archived(t *testing.T, dir, into string) {
	t.Helper()
	file, err := os.Create(into)
	if err != nil {
		t.Fatal(err)
	}
	writer := tar.NewWriter(file)
	if err := errors.Join(writer.AddFS(os.DirFS(dir)), writer.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestBasicAuthentication(t *testing.T) {
	host := hub(t, func(w http.ResponseWriter, r *http.Request) bool {
		user, password, given := r.BasicAuth()
		if user == "me" && password == "hunter2" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="it"`)
		if given && user == "stranger" {
			w.WriteHeader(http.StatusForbidden)
		} else {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return true
	})
	push(t, host+"/team/bundle:v1", three(t))
	found, err := source(registry.Credentials{Username: "me", Password: "hunter2"}).Fetch(t.Context(), host+"/team/bundle:v1")
	if err != nil || len(found.Files) != len(wantThree) {
		t.Errorf("%v, %v", texts(found), err)
	}
	for user, want := range map[string]string{"": "asks for credentials", "me": "refuses the credentials", "stranger": "refuses the credentials"} {
		password := ""
		if user != "" {
			password = "hunter3"
		}
		_, err := source(registry.Credentials{Username: user, Password: password}).Fetch(t.Context(), host+"/team/bundle:v1")
		sentence(t, err, want)
	}
}

func sentence(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hunter") {
		t.Errorf("got %v, want one line with %q and no secret", err, want)
	}
}

// bomb is 2 GB of zeros in a file of a layer, and never that much in memory.
func bomb(t testing.TB, name string) []byte {
	t.Helper()
	const size = 2 << 30
	var text bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&text, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	writer := tar.NewWriter(zipped)
	if err := writer.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size}); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range size / len(zeros) {
		if _, err := writer.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writer.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func TestWhatMeansHarm(t *testing.T) {
	host := hub(t, nil)
	good := entry{"manifests/a.yaml", "a: 1", 0}
	big := bomb(t, "manifests/a.yaml")
	for name, test := range map[string]struct {
		layers [][]byte
		want   string
	}{
		"climbs":     {[][]byte{packed(t, good, entry{"../../etc/cron.d/x.yaml", "x", 0})}, "leads out of the image"},
		"absolute":   {[][]byte{packed(t, entry{"/etc/x.yaml", "x", 0})}, "leads out of the image"},
		"link":       {[][]byte{packed(t, entry{"manifests/a.yaml", "/etc/passwd", tar.TypeSymlink})}, "isn't followed"},
		"hard link":  {[][]byte{packed(t, entry{"manifests/a.yaml", "../../etc/passwd", tar.TypeLink})}, "isn't followed"},
		"bomb":       {[][]byte{big}, "more than"},
		"other bomb": {[][]byte{bomb(t, "usr/zeros")}, "unpacks to more than 200 times its size"},
		"no layers":  {nil, "has no layers"},
		"many":       {slices.Repeat([][]byte{packed(t, good)}, 129), "has 129 layers; at most 128"},
		"cut off":    {[][]byte{packed(t, good)[:40]}, "no whole tar archive"},
		"no tar":     {[][]byte{[]byte("hello")}, "no whole tar archive"},
		"zstd":       {[][]byte{{0x28, 0xb5, 0x2f, 0xfd, 0}}, "compressed by zstd"},
	} {
		t.Run(name, func(t *testing.T) {
			made := empty.Image
			for _, data := range test.layers {
				var err error
				if made, err = mutate.AppendLayers(made, static.NewLayer(data, types.DockerLayer)); err != nil {
					t.Fatal(err)
				}
			}
			tag := strings.ReplaceAll(name, " ", "-")
			push(t, host+"/bad:"+tag, made)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found, err := source(registry.Credentials{}).Fetch(t.Context(), host+"/bad:"+tag)
			runtime.ReadMemStats(&after)
			sentence(t, err, test.want)
			if len(found.Files) > 0 {
				t.Error("files beside an error")
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
				t.Errorf("%d MiB were allocated", used>>20)
			}
		})
	}
}

func TestSentences(t *testing.T) {
	host := hub(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "/forbidden/"):
			w.WriteHeader(http.StatusForbidden)
		case strings.Contains(r.URL.Path, "/swapped/manifests/sha256:"):
			w.Write([]byte(`{"schemaVersion":2}`))
		case strings.Contains(r.URL.Path, "/broken/"):
			w.WriteHeader(http.StatusBadGateway)
		default:
			return false
		}
		return true
	})
	digest := push(t, host+"/bundle:v1", three(t))
	push(t, host+"/swapped:v1", three(t))
	dir := t.TempDir()
	write(t, dir+"/text.tar", "hello")
	write(t, dir+"/layout/oci-layout", "{}")
	write(t, dir+"/layout/index.json", `{"manifests":[]}`)
	write(t, dir+"/climbs/oci-layout", "{}")
	write(t, dir+"/climbs/index.json", `{"manifests":[{"digest":"sha256:../../../etc/passwd"}]}`)
	write(t, dir+"/wrong/oci-layout", "{}")
	write(t, dir+"/wrong/index.json", `{"manifests":[{"digest":"`+digest+`"}]}`)
	write(t, dir+"/wrong/blobs/"+strings.Replace(digest, ":", "/", 1), "{}")
	if err := errors.Join(os.MkdirAll(dir+"/links/manifests", 0o755), os.Symlink("/etc/passwd", dir+"/links/manifests/a.yaml")); err != nil {
		t.Fatal(err)
	}
	none := "sha256:" + strings.Repeat("0", 64)
	for reference, want := range map[string]string{
		host + "/bundle:v2":            "the registry has no such image; check its path and its tag",
		host + "/bundle@" + none:       "the registry has no such image; check its path and its digest",
		host + "/swapped@" + digest:    "not " + digest,
		host + "/forbidden:v1":         "asks for credentials",
		host + "/broken:v1":            "502 Bad Gateway",
		host + "/bundle@sha256:1":      "the digest is none",
		"me:hunter2@" + host + "/b:v1": "may hold no user name",
		"bundle":                       "neither there as a file nor the name of an image",
		"":                             "it isn't named",
		dir + "/none":                  "it isn't there",
		dir + "/text.tar":              "no whole tar archive",
		dir + "/layout":                "names no image",
		dir + "/climbs":                "digest is none of sha256",
		dir + "/wrong":                 "damaged or was tampered with",
		dir + "/wrong@" + none:         "it has no image",
		dir + "/links":                 "is a link",
		dir + "@" + none:               "a directory has no digest",
		"127.0.0.1:1/bundle:v1":        "is not available",
	} {
		t.Run(reference, func(t *testing.T) {
			_, err := source(registry.Credentials{}).Fetch(t.Context(), reference)
			sentence(t, err, want)
		})
	}
}
