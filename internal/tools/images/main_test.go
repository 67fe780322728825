package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestBuildAndPush does what make docker-build docker-push does, on a program
// that compiles at once, and pulls each architecture back.
func TestBuildAndPush(t *testing.T) {
	dir := t.TempDir()
	for file, content := range map[string]string{
		"go.mod":              "module example.com/small\n\ngo 1.26\n",
		"cmd/slipway/main.go": "package main\n\nfunc main() {}\n",
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/llm-operator:v0.1.0"

	digests := []string{}
	for range 2 { // The same source is the same image.
		var out bytes.Buffer
		if err := run(t.Context(), []string{"build", ref}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		_, digest, found := strings.Cut(out.String(), "@")
		if !found || !strings.Contains(out.String(), "for linux/amd64 and linux/arm64 is in dist/image") {
			t.Fatalf("said %q", out.String())
		}
		digests = append(digests, strings.Fields(digest)[0])
	}
	if digests[0] != digests[1] {
		t.Errorf("built %s and then %s", digests[0], digests[1])
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"push", ref}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(strings.TrimSpace(out.String()), "/llm-operator@"+digests[0]) {
		t.Errorf("said %q", out.String())
	}

	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, architecture := range architectures {
		pulled, err := remote.Image(tag, remote.WithContext(t.Context()), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(pulled); err != nil {
			t.Errorf("%s: %v", architecture, err)
		}
		file, err := pulled.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if file.Architecture != architecture || file.Created.Unix() != 1700000000 || file.Config.Labels["org.opencontainers.image.version"] != "v0.1.0" {
			t.Errorf("%s: %+v", architecture, file)
		}
	}
}

func TestRunSaysWhatIsWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, test := range []struct {
		args    []string
		message string
	}{
		{nil, "usage:"},
		{[]string{"build"}, "one image name"},
		{[]string{"build", "-nothing", "a"}, "one image name"},
		{[]string{"bake", "a/b:c"}, `unknown command "bake"`},
		{[]string{"build", "Not A Name"}, "is no image name"},
		{[]string{"push", "a/b:c"}, "build the image first"},
	} {
		err := run(t.Context(), test.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%v: got %v, want %q", test.args, err, test.message)
		}
	}
}
