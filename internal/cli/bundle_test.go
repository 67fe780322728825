package cli

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const dolphin = "bundle/testdata/dolphin"

// call runs a command line.
func call(t *testing.T, args ...string) (out, progress string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRoot(Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// lockedRegistry is one that lets in me with the password hunter2 only, and holds
// the bundle as team/dolphin:v1 and v1.1.
func lockedRegistry(t *testing.T) (host string) {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" {
			w.Header().Set("WWW-Authenticate", `Basic realm="it"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	if err := errors.Join(writer.AddFS(os.DirFS(dolphin)), writer.Close()); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	made, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1", "v1.1"} {
		tag, err := name.NewTag(host + "/team/dolphin:" + version)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tag, made, remote.WithAuth(&authn.Basic{Username: "me", Password: "hunter2"})); err != nil {
			t.Fatal(err)
		}
	}
	return host
}

func TestBundleExtractWithCredentials(t *testing.T) {
	host := lockedRegistry(t)
	home := t.TempDir()
	for _, variable := range []string{"REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"} {
		t.Setenv(variable, "")
	}
	t.Setenv("HOME", home)
	_, _, err := call(t, "bundle", "extract", host+"/team/dolphin:v1", "-n", "sea")
	if err == nil || !strings.Contains(err.Error(), "asks for credentials") || !strings.Contains(err.Error(), "podman login "+host) {
		t.Error(err)
	}
	config := filepath.Join(home, ".docker", "config.json")
	writeAuth := func(password string) {
		text := `{"auths":{"` + host + `/team":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("me:"+password)) + `"}}}`
		if err := errors.Join(os.MkdirAll(filepath.Dir(config), 0o755), os.WriteFile(config, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	writeAuth("hunter3")
	out, progress, err := call(t, "bundle", "extract", host+"/team/dolphin:v1", "-n", "sea")
	if err == nil || !strings.Contains(err.Error(), "refuses the credentials") || out != "" || strings.Contains(err.Error()+progress, "hunter") {
		t.Errorf("%q %q %v", out, progress, err)
	}
	writeAuth("hunter2")
	out, progress, err = call(t, "bundle", "extract", host+"/team/dolphin:v1", "-n", "sea")
	if err != nil || !strings.HasPrefix(out, "---\napiVersion: apiextensions.k8s.io/v1\n") || !strings.Contains(progress, "dolphin 1.2.3: 14 objects") {
		t.Errorf("%q %v", progress, err)
	}
	_, digest, _ := strings.Cut(progress, "has digest ")
	digest, _, _ = strings.Cut(digest, "\n")
	pinned, _, err := call(t, "bundle", "extract", host+"/team/dolphin@"+digest, "-n", "sea", "--auth-file", config)
	if err != nil || pinned != out {
		t.Errorf("another text by digest, %v", err)
	}
	_, _, err = call(t, "bundle", "extract", host+"/team/dolphin@sha256:"+strings.Repeat("0", 64), "-n", "sea")
	if err == nil || !strings.Contains(err.Error(), "no such image") {
		t.Error(err)
	}
}

// TestBundleKey: with a key, an image that isn't signed gives nothing.
func TestBundleKey(t *testing.T) {
	host, dir := lockedRegistry(t), t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	config := write("auth.json", `{"auths":{"`+host+`":{"username":"me","password":"hunter2"}}}`)
	key := write("cosign.pub", "-----BEGIN PUBLIC KEY-----\n"+
		"MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n") // of RFC 8410
	for want, args := range map[string][]string{
		"it isn't signed in the way":  {"extract", host + "/team/dolphin:v1", "-n", "sea", "--key", key},
		"isn't signed":                {"chart", host + "/team/dolphin:v1", "-o", filepath.Join(dir, "chart"), "--key", key},
		"can be checked in a registr": {"extract", dolphin, "-n", "sea", "--key", key},
		"auth.json: it isn't PEM":     {"extract", dolphin, "-n", "sea", "--key", config},
		"no such file":                {"extract", dolphin, "-n", "sea", "--key", key + "x"},
	} {
		out, _, err := call(t, append(append([]string{"bundle"}, args...), "--auth-file", config)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || out != "" {
			t.Errorf("%v: got %q, %v", args, out, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "chart")); err == nil {
		t.Error("a chart was written of what isn't signed")
	}
}

// TestBundleExtractSentences: nothing is written beside an error.
func TestBundleExtractSentences(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "out")
	for want, args := range map[string][]string{
		"with -n":                         {dolphin},
		"-o dir needs a directory":        {dolphin, "-n", "sea", "-o", "dir"},
		"--output-dir is for -o dir":      {dolphin, "-n", "sea", "-o", "json", "--output-dir", dir},
		`--output "xml"`:                  {dolphin, "-n", "sea", "-o", "xml"},
		"there is no ClusterService":      {"bundle", "-n", "sea", "--output-dir", dir},
		"there is no auth file":           {"127.0.0.1:1/a/b:c", "-n", "sea", "--auth-file", filepath.Join(parent, "none")},
		"fails for":                       {dolphin, "-n", "sea", "--exclude", "error", "--output-dir", dir},
		"it must give true":               {dolphin, "-n", "sea", "--exclude", ".kind", "--output-dir", dir},
		`"Sea" isn't a name`:              {dolphin, "-n", "Sea", "--output-dir", dir},
		"doesn't support MultiNamespace;": {dolphin, "-n", "sea", "--watch-namespace", "a,b", "--output-dir", dir},
	} {
		out, _, err := call(t, append([]string{"bundle", "extract"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || out != "" {
			t.Errorf("%v: got %q, %v", args, out, err)
		}
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

func TestBundleChartAndUpdate(t *testing.T) {
	host := lockedRegistry(t)
	config := filepath.Join(t.TempDir(), "auth.json")
	text := `{"auths":{"` + host + `":{"username":"me","password":"hunter2"}}}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "chart")
	if _, said, err := call(t, "bundle", "chart", host+"/team/dolphin:v1", "-o", dir, "--auth-file", config); err != nil || !strings.Contains(said, "helm install NAME "+dir) {
		t.Fatalf("%q, %v", said, err)
	}
	out, said, err := call(t, "bundle", "update", dir, "v1.1", "--auth-file", config)
	if err != nil || out != "version: 1.2.3 -> 1.2.3\n" || !strings.Contains(said, "is updated") {
		t.Errorf("%q, %q, %v", out, said, err)
	}
	metadata, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil || !strings.Contains(string(metadata), host+"/team/dolphin:v1.1") {
		t.Errorf("%s, %v", metadata, err)
	}
	for want, args := range map[string][]string{
		"no such image":           {dir, "v2"},
		"the digest is none":      {dir, "sha256:1"},
		"what to update to":       {dir},
		"there is no chart":       {dir + "x", "v1"},
		"neither there as a file": {dir, "v1/../../x"},
	} {
		out, _, err := call(t, append([]string{"bundle", "update", "--auth-file", config}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || out != "" {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
	if _, _, err := call(t, "bundle", "chart", host+"/team/dolphin:v1"); err == nil || !strings.Contains(err.Error(), "with -o") {
		t.Error(err)
	}
}
