package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// start is when a test's clock begins.
var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// clock is a test's clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: start} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClient(options Options) *Client {
	if options.Now == nil {
		options.Now = newClock().Now
	}
	if options.Transport == nil {
		options.Transport = &http.Transport{} // The environment's proxy has no part in this.
	}
	return New(options)
}

// entry is an entry of a test's archive.
type entry struct {
	name string
	kind byte
	data string
	link string
}

// tarOf packs entries.
func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, each := range entries {
		if each.kind == 0 {
			each.kind = tar.TypeReg
		}
		header := &tar.Header{Name: each.name, Typeflag: each.kind, Linkname: each.link, Mode: 0o644, Size: int64(len(each.data))}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(each.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zip(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// chartOf is the archive of a small chart, with more entries if given.
func chartOf(t testing.TB, name, version string, more ...entry) []byte {
	t.Helper()
	entries := append([]entry{
		{name: name + "/Chart.yaml", data: fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version)},
		{name: name + "/templates/a.yaml", data: "kind: ConfigMap\n"},
	}, more...)
	return zip(t, tarOf(t, entries...))
}

// site is a chart repository over HTTP that a test changes as it goes.
type site struct {
	*httptest.Server
	mu sync.Mutex
	// files by path.
	files map[string][]byte
	// user and password that it asks for, if set.
	user, password string
	down           bool
	redirects      map[string]string
	// requests counts by path; authorized are paths that came with credentials.
	requests   map[string]int
	authorized []string
	// hold, if set, is awaited before each answer.
	hold chan struct{}
}

func newSite(t testing.TB, secure bool) *site {
	t.Helper()
	s := &site{files: map[string][]byte{}, redirects: map[string]string{}, requests: map[string]int{}}
	if secure {
		s.Server = httptest.NewTLSServer(s)
	} else {
		s.Server = httptest.NewServer(s)
	}
	s.Server.Config.ErrorLog = quiet
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[r.URL.Path]++
	if r.Header.Get("Authorization") != "" {
		s.authorized = append(s.authorized, r.URL.Path)
	}
	if s.hold != nil {
		hold := s.hold
		s.mu.Unlock()
		<-hold
		s.mu.Lock()
	}
	user, password, _ := r.BasicAuth()
	data, found := s.files[r.URL.Path]
	switch {
	case s.down:
		http.Error(w, "broken", http.StatusBadGateway)
	case s.user != "" && (user != s.user || password != s.password):
		w.Header().Set("WWW-Authenticate", "Basic")
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case s.redirects[r.URL.Path] != "":
		http.Redirect(w, r, s.redirects[r.URL.Path], http.StatusFound)
	case !found:
		http.NotFound(w, r)
	default:
		w.Write(data)
	}
}

// total is how many requests there were.
func (s *site) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, count := range s.requests {
		total += count
	}
	return total
}

func (s *site) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// publish puts versions of a chart on the site, with an index as Helm writes it.
func (s *site) publish(t testing.TB, name string, versions ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	index := "apiVersion: v1\nentries:\n  another:\n  - name: another\n    version: 9.9.9\n    urls:\n    - another.tgz\n  " + name + ":\n"
	for _, version := range versions {
		archive := chartOf(t, name, version)
		file := name + "-" + version + ".tgz"
		s.files["/charts/"+file] = archive
		index += fmt.Sprintf("  - apiVersion: v2\n    created: \"2026-01-01T00:00:00Z\"\n    description: |\n      Some: text\n\n      entries:\n    digest: %s\n    name: %s\n    urls:\n    - %s\n    version: %s\n",
			strings.TrimPrefix(Digest(archive), "sha256:"), name, file, version)
	}
	s.files["/charts/index.yaml"] = []byte(index + "generated: \"2026-01-01T00:00:00Z\"\n")
}

// repository is the site's URL as a repository.
func (s *site) repository() string { return s.URL + "/charts/" }

func (s *site) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// wantError checks that an error is of type E and says so.
func wantError[E error](t *testing.T, err error, words ...string) {
	t.Helper()
	var wanted E
	if !errors.As(err, &wanted) {
		t.Errorf("error %T %v, want %T", err, err, wanted)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q doesn't say %q", err, word)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("%q has more than one line", err)
	}
}

// wantChart checks what was fetched.
func wantChart(t *testing.T, archive Archive, err error, name, version string) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return
	}
	if archive.Name != name || archive.Version != version || archive.Digest != Digest(archive.Data) || archive.Source == "" {
		t.Errorf("%s %s (%s, from %s), want %s %s", archive.Name, archive.Version, archive.Digest, archive.Source, name, version)
	}
}

func TestWhatIsAskedForIsUnderstood(t *testing.T) {
	client := newClient(Options{})
	good := Chart{Repository: "https://charts.example.com", Name: "infra", Version: "1.0.0"}
	for words, change := range map[string]func(*Chart){
		"write https://":                  func(c *Chart) { c.Repository = "charts.example.com/x" },
		"scheme \"ftp\" isn't known":      func(c *Chart) { c.Repository = "ftp://charts.example.com" },
		"names no host":                   func(c *Chart) { c.Repository = "https:///charts" },
		"needs an absolute path":          func(c *Chart) { c.Repository = "file://charts" },
		"repository.secretRef":            func(c *Chart) { c.Repository = "https://me:hunter2@charts.example.com" },
		"may have no user, query":         func(c *Chart) { c.Repository = "https://charts.example.com?key=hunter2" },
		"is no URL":                       func(c *Chart) { c.Repository = "https://hunter2\x7f" },
		"is no name of a chart":           func(c *Chart) { c.Name = "../infra" },
		"neither a version nor":           func(c *Chart) { c.Version = "latest" },
		"write sha256: and 64":            func(c *Chart) { c.Digest = "md5:1" },
		"is no repository of an OCI":      func(c *Chart) { c.Repository, c.Name = "oci://registry.example.com/Charts", "infra" },
		"there is no directory /nowhere;": func(c *Chart) { c.Repository = "/nowhere" },
	} {
		chart := good
		change(&chart)
		_, err := client.Chart(t.Context(), chart, Credentials{})
		wantError[*InvalidError](t, err, words)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q tells a secret", err)
		}
	}
}

func TestCredentialsNeverPrint(t *testing.T) {
	credentials := Credentials{Username: "me", Password: "hunter2", Token: "hunter2", CA: []byte("hunter2")}
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(form, struct{ C Credentials }{credentials}); strings.Contains(text, "hunter2") || strings.Contains(text, "104 117") {
			t.Errorf("%s prints %s", form, text)
		}
	}
	if text := credentials.LogValue().String(); strings.Contains(text, "hunter2") {
		t.Errorf("logs %s", text)
	}
}

func TestVersionsAreChosen(t *testing.T) {
	there := []string{"1.2.0", "v1.3.3", "1.3.4-rc.1", "not-a-version", "2.0.0", "0.9.0", "1.3.10+build.5"}
	for asked, want := range map[string]string{
		"1.3.3": "v1.3.3", "v1.3.3": "v1.3.3", "v1.2.0": "1.2.0", "~1.3": "1.3.10+build.5", "^1": "1.3.10+build.5", "1.2": "1.2.0",
		"": "2.0.0", "<2": "1.3.10+build.5", ">=1.2 <1.3.5": "v1.3.3", "1.3.4-rc.1": "1.3.4-rc.1", ">=1.3.4-0 <1.3.5-0": "1.3.4-rc.1",
		"1.3.10+build.5": "1.3.10+build.5", "*": "2.0.0",
	} {
		version, err := parseVersion(asked)
		if err != nil {
			t.Fatal(err)
		}
		chosen, err := version.choose("r", "c", there)
		if err != nil || there[chosen] != want {
			t.Errorf("%q: %v, %v, want %s", asked, there[chosen], err, want)
		}
	}
	for asked, words := range map[string]string{
		"3.0.0":   "has no version 3.0.0 of chart c; it has 2.0.0, 1.3.10+build.5, 1.3.4-rc.1, v1.3.3",
		"1.3.10":  "has no version 1.3.10",
		"~5":      "has no version ~5",
		"1.3.3-0": "has no version 1.3.3-0",
	} {
		version, err := parseVersion(asked)
		if err != nil {
			t.Fatal(err)
		}
		_, err = version.choose("r", "c", there)
		wantError[*NotFoundError](t, err, words)
	}
	newest, _ := parseVersion("")
	_, err := newest.choose("r", "c", []string{"1.0.0-rc.1"})
	wantError[*NotFoundError](t, err, "only prereleases: name one of 1.0.0-rc.1")
	_, err = newest.choose("r", "c", nil)
	wantError[*NotFoundError](t, err, "r has no chart c; check")
	many := []string{}
	for i := range 20 {
		many = append(many, fmt.Sprintf("1.%d.0", i))
	}
	two, _ := parseVersion("2.0.0")
	_, err = two.choose("r", "c", many)
	wantError[*NotFoundError](t, err, "it has 1.19.0, 1.18.0", "1.12.0 and 12 older ones")
}

// writeFiles fills a directory.
func writeFiles(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
