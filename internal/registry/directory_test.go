package registry

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestChartsInADirectory(t *testing.T) {
	indexed, heap, unpacked := t.TempDir(), t.TempDir(), t.TempDir()
	writeFiles(t, indexed, map[string][]byte{
		"index.yaml":            []byte("entries:\n  infra:\n  - {version: v1.0.0, urls: [sub/infra-v1.0.0.tgz]}\n  - {version: 2.0.0, urls: ['../infra-2.0.0.tgz']}\n  - {version: 3.0.0, urls: ['https://elsewhere/x.tgz']}\n"),
		"sub/infra-v1.0.0.tgz":  chartOf(t, "infra", "v1.0.0"),
		"infra-not-indexed.tgz": []byte("x"),
	})
	writeFiles(t, heap, map[string][]byte{
		"infra-1.0.0.tgz":     chartOf(t, "infra", "1.0.0"),
		"infra-1.2.0.tgz":     chartOf(t, "infra", "1.2.0"),
		"infra-api-9.0.0.tgz": chartOf(t, "infra-api", "9.0.0"),
		"infra-5.0.0.tgz":     []byte("no archive"),
		"infra-6.0.0.tgz":     chartOf(t, "infra", "6.0.0", entry{name: "../evil"}),
		"infra-7.0.0.tgz":     chartOf(t, "infra", "7.0.1"),
	})
	writeFiles(t, unpacked, map[string][]byte{
		"infra/Chart.yaml":         []byte("apiVersion: v2\nname: infra\nversion: 1.5.0\n"),
		"infra/values.yaml":        []byte("a: b\n"),
		"infra/templates/all.yaml": []byte("kind: ConfigMap\n"),
	})
	client := newClient(Options{})
	get := func(repository, version string) (Archive, error) {
		return client.Chart(t.Context(), Chart{Repository: repository, Name: "infra", Version: version}, Credentials{})
	}
	for _, test := range []struct{ repository, asked, want string }{
		{indexed, "1.0.0", "v1.0.0"}, {"file://" + indexed, "<2", "v1.0.0"},
		{heap, "1.0.0", "1.0.0"}, {heap + "/", "^1", "1.2.0"},
		{unpacked, "", "1.5.0"}, {filepath.Join(unpacked, "infra"), "1.5.0", "1.5.0"},
	} {
		archive, err := get(test.repository, test.asked)
		wantChart(t, archive, err, "infra", test.want)
	}
	_, err := get(indexed, "2.0.0")
	wantError[*InvalidError](t, err, "at no path within it")
	_, err = get(indexed, "3.0.0")
	wantError[*InvalidError](t, err, "at no path within it")
	_, err = get(heap, "5.0.0")
	wantError[*InvalidError](t, err, "no whole tar archive")
	_, err = get(heap, "6.0.0")
	wantError[*HostileError](t, err, "leads out of")
	_, err = get(heap, "7.0.0")
	wantError[*InvalidError](t, err, "says of itself that it is infra 7.0.1")
	_, err = get(heap, "8.0.0")
	wantError[*NotFoundError](t, err, "it has 7.0.0")
	_, err = get(t.TempDir(), "1.0.0")
	wantError[*NotFoundError](t, err, "has no chart infra")

	// A directory may change, and is read each time; the same files are the same bytes.
	before, err := get(unpacked, "")
	wantChart(t, before, err, "infra", "1.5.0")
	again, err := get(unpacked, "")
	if err != nil || again.Digest != before.Digest {
		t.Errorf("packed twice: %s and %s, %v", before.Digest, again.Digest, err)
	}
	writeFiles(t, unpacked, map[string][]byte{"infra/values.yaml": []byte("a: c\n")})
	after, err := get(unpacked, "")
	wantChart(t, after, err, "infra", "1.5.0")
	if after.Digest == before.Digest {
		t.Error("a change isn't seen")
	}
}

// Nothing beyond the directory is read, whatever is in it.
func TestDirectoriesThatLeadAway(t *testing.T) {
	outside := t.TempDir()
	writeFiles(t, outside, map[string][]byte{"infra-1.0.0.tgz": chartOf(t, "infra", "1.0.0"), "Chart.yaml": []byte("name: infra\nversion: 1.0.0\n"), "secret": []byte("hunter2")})
	dir := t.TempDir()
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	get := func(version string) error {
		_, err := newClient(Options{}).Chart(t.Context(), Chart{Repository: dir, Name: "infra", Version: version}, Credentials{})
		return err
	}
	link(filepath.Join(outside, "infra-1.0.0.tgz"), "infra-1.0.0.tgz")
	wantError[*UnavailableError](t, get("1.0.0"), "escapes")
	if err := syscall.Mkfifo(filepath.Join(dir, "infra-1.1.0.tgz"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantError[*UnavailableError](t, get("1.1.0"), "is no regular file")
	writeFiles(t, dir, map[string][]byte{"infra/Chart.yaml": []byte("name: infra\nversion: 1.2.0\n")})
	link(filepath.Join(outside, "secret"), "infra/secret")
	wantError[*HostileError](t, get("1.2.0"), "secret is no regular file")
	link(outside, "index.yaml")
	if err := get("1.0.0"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

func TestVendoredChartsComeFirst(t *testing.T) {
	site := newSite(t, false)
	site.publish(t, "infra", "1.0.0", "1.1.0", "2.0.0")
	other := newSite(t, false)
	other.files["/charts/index.yaml"] = []byte("entries:\n  infra:\n  - {version: 1.0.0, urls: [infra-1.0.0.tgz]}\n")
	other.files["/charts/infra-1.0.0.tgz"] = chartOf(t, "infra", "1.0.0", entry2("infra/other"))
	client := newClient(Options{})
	vendored := []Vendored{}
	for _, from := range []struct{ repository, version string }{{site.repository(), "1.0.0"}, {site.repository(), "1.1.0"}, {other.repository(), "1.0.0"}} {
		archive, err := client.Chart(t.Context(), Chart{Repository: from.repository, Name: "infra", Version: from.version}, Credentials{})
		wantChart(t, archive, err, "infra", from.version)
		vendored = append(vendored, Vendored{Repository: from.repository, Archive: archive})
	}
	dir := filepath.Join(t.TempDir(), "charts")
	for range 2 {
		if err := WriteVendored(dir, vendored); err != nil {
			t.Fatal(err)
		}
	}
	before := site.total() + other.total()
	client = newClient(Options{Vendored: dir})
	get := func(repository, version, digest string) (Archive, error) {
		return client.Chart(t.Context(), Chart{Repository: repository, Name: "infra", Version: version, Digest: digest}, Credentials{})
	}
	archive, err := get(strings.TrimSuffix(site.repository(), "/"), "1.0.0", "")
	wantChart(t, archive, err, "infra", "1.0.0")
	if archive.Digest != vendored[0].Archive.Digest || !strings.HasPrefix(archive.Source, dir) {
		t.Errorf("%s from %s", archive.Digest, archive.Source)
	}
	archive, err = get(other.repository(), "1.0.0", "")
	wantChart(t, archive, err, "infra", "1.0.0")
	if archive.Digest != vendored[2].Archive.Digest {
		t.Error("of the two repositories' charts it is the wrong one")
	}
	archive, err = get(site.repository(), ">=1", "")
	wantChart(t, archive, err, "infra", "1.1.0")
	_, err = get(site.repository(), "1.0.0", vendored[2].Archive.Digest)
	wantError[*DigestError](t, err)
	if after := site.total() + other.total(); after != before {
		t.Errorf("%d requests", after-before)
	}
	// What isn't there is fetched, if it can be.
	archive, err = get(site.repository(), "2.0.0", "")
	wantChart(t, archive, err, "infra", "2.0.0")
	site.Close()
	_, err = get(site.repository(), "2.1.0", "")
	wantError[*UnavailableError](t, err, "the chart must be in "+dir, "slipway charts vendor")
	// The directory is a repository of its own, too; and an index by someone else
	// stands for any repository.
	archive, err = get(dir, "1.1.0", "")
	wantChart(t, archive, err, "infra", "1.1.0")
	plain := t.TempDir()
	writeFiles(t, plain, map[string][]byte{"infra-1.0.0.tgz": vendored[0].Archive.Data})
	archive, err = newClient(Options{Vendored: plain}).Chart(t.Context(), Chart{Repository: "oci://nowhere.invalid/x", Name: "infra"}, Credentials{})
	wantChart(t, archive, err, "infra", "1.0.0")
	// A ConfigMap is mounted through links that stay within.
	mounted := t.TempDir()
	if err := os.Rename(dir, filepath.Join(mounted, "..2026")); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"..data": "..2026"}
	files, err := os.ReadDir(filepath.Join(mounted, "..2026"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		links[file.Name()] = filepath.Join("..data", file.Name())
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(mounted, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir = mounted
	client = newClient(Options{Vendored: dir})
	archive, err = get(site.repository(), "1.1.0", "")
	wantChart(t, archive, err, "infra", "1.1.0")
	// A file that was changed on the way is seen.
	writeFiles(t, dir, map[string][]byte{filepath.Base(archive2(t, dir, vendored[1]).Source): chartOf(t, "infra", "1.1.0", entry2("infra/evil"))})
	_, err = get(site.repository(), "1.1.0", "")
	wantError[*DigestError](t, err, "but its index promises")
	_, err = newClient(Options{Vendored: filepath.Join(dir, "nothing")}).Chart(t.Context(), Chart{Repository: site.repository(), Name: "infra"}, Credentials{})
	wantError[*InvalidError](t, err, "there is no directory")
}

// archive2 is a vendored chart as it is read back.
func archive2(t *testing.T, dir string, chart Vendored) Archive {
	t.Helper()
	archive, err := newClient(Options{Vendored: dir}).Chart(t.Context(),
		Chart{Repository: chart.Repository, Name: chart.Archive.Name, Version: chart.Archive.Version}, Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	return archive
}
