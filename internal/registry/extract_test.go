package registry

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostile are archives that no chart is, and what is said of them.
func hostile(t testing.TB) map[string][]byte {
	t.Helper()
	chart := func(more ...entry) []byte { return chartOf(t, "infra", "1.0.0", more...) }
	many := make([]entry, 10_001)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("infra/%d", i)}
	}
	return map[string][]byte{
		`its entry "../evil" leads out of the archive`:          chart(entry{name: "../evil", data: "x"}),
		`its entry "infra/../../evil" leads out of the archive`: chart(entry{name: "infra/../../evil", data: "x"}),
		`its entry "/etc/passwd" is an absolute path`:           chart(entry{name: "/etc/passwd", data: "x"}),
		`its entry "C:/evil" is an absolute path`:               chart(entry{name: "C:/evil", data: "x"}),
		`its entry "infra\\..\\evil" has a backslash`:           chart(entry{name: `infra\..\evil`, data: "x"}),
		`its entry "infra/link" is a link`:                      chart(entry{name: "infra/link", kind: tar.TypeSymlink, link: "/etc/passwd"}),
		`its entry "infra/hard" is a link`:                      chart(entry{name: "infra/hard", kind: tar.TypeLink, link: "infra/Chart.yaml"}),
		`its entry "infra/null" is neither a file nor`:          chart(entry{name: "infra/null", kind: tar.TypeChar}),
		`its entry "infra/disk" is neither a file nor`:          chart(entry{name: "infra/disk", kind: tar.TypeBlock}),
		`its entry "infra/pipe" is neither a file nor`:          chart(entry{name: "infra/pipe", kind: tar.TypeFifo}),
		`it has two files "infra/Chart.yaml"`:                   chart(entry{name: "./infra//Chart.yaml", data: "name: other\n"}),
		`it has more than 10000 entries`:                        chart(many...),
		`it unpacks to more than 200 times its size`:            chart(entry{name: "infra/zeros", data: strings.Repeat("\x00", 4<<20)}),
		`has too long a name`:                                   chart(entry{name: "infra/" + strings.Repeat("x/", 3000) + "x", data: "x"}),
		`infra/charts/inner.tgz in`:                             chart(entry{name: "infra/charts/inner.tgz", data: string(chartOf(t, "inner", "1.0.0", entry{name: "../evil"}))}),
	}
}

func TestHostileArchivesAreRefused(t *testing.T) {
	for words, archive := range hostile(t) {
		site := newSite(t, false)
		site.publish(t, "infra", "1.0.0")
		site.files["/charts/index.yaml"] = []byte("entries:\n  infra:\n  - {version: 1.0.0, urls: [a.tgz]}\n")
		site.files["/charts/a.tgz"] = archive
		cache := t.TempDir()
		_, err := newClient(Options{Cache: cache}).Chart(t.Context(), Chart{Repository: site.repository(), Name: "infra", Version: "1.0.0"}, Credentials{})
		wantError[*HostileError](t, err, words, "is refused", "use an archive made by helm package")
		if left, _ := os.ReadDir(cache); len(left) > 0 {
			t.Errorf("%s: it was kept", words)
		}
		_, err = newClient(Options{}).Chart(t.Context(), Chart{Repository: site.repository(), Name: "infra", Version: "1.0.0"}, Credentials{})
		wantError[*HostileError](t, err, words)
	}
}

func TestContentsAreBounded(t *testing.T) {
	noise := func(size int) string { // that doesn't compress
		data := make([]byte, size)
		for i, state := 0, uint32(1); i < size; i++ {
			state = state*1664525 + 1013904223
			data[i] = byte(state >> 24)
		}
		return string(data)
	}
	large := chartOf(t, "infra", "1.0.0", entry{name: "infra/large", data: noise(20_000)})
	_, err := inspect("it", large, Limits{File: 10_000})
	wantError[*TooLargeError](t, err, `"infra/large" in it is larger than the 10000 bytes allowed`)
	_, err = inspect("it", large, Limits{Unpacked: 10 << 10})
	wantError[*TooLargeError](t, err, "the contents of it is larger than the 10 KiB allowed")
	_, err = inspect("it", large, Limits{Archive: 1000})
	wantError[*TooLargeError](t, err, "it is larger than the 1000 bytes")
	// Archives within count together with the one that they are in.
	inner := string(chartOf(t, "inner", "1.0.0", entry{name: "inner/large", data: noise(20_000)}))
	nested := chartOf(t, "infra", "1.0.0", entry{name: "infra/charts/a.tgz", data: inner}, entry{name: "infra/charts/b.tgz", data: inner})
	if _, err := inspect("it", nested, Limits{}); err != nil {
		t.Error(err)
	}
	_, err = inspect("it", nested, Limits{Unpacked: 80_000})
	wantError[*TooLargeError](t, err, "infra/charts/b.tgz in it")
	_, err = inspect("it", nested, Limits{Files: 5})
	wantError[*HostileError](t, err, "more than 5 entries")
	// A header may claim what it likes; a sparse file of a terabyte is a few bytes.
	lie := tarOf(t, entry{name: "infra/a", data: "x"})
	copy(lie[124:], "77777777777\x00")
	err = Unpack("it", lie, Limits{}, func(File) error { return nil })
	if err == nil {
		t.Error("a lie is believed")
	}
}

func TestArchivesThatArentWhole(t *testing.T) {
	whole := chartOf(t, "infra", "1.0.0", entry{name: "infra/values.yaml", data: strings.Repeat("a: b\n", 500)})
	for _, size := range []int{0, 1, 2, 10, len(whole) / 2, len(whole) - 9} {
		_, err := inspect("it", whole[:size], Limits{})
		wantError[*InvalidError](t, err, "it ")
	}
}

func TestExtract(t *testing.T) {
	dir := t.TempDir()
	good := zip(t, tarOf(t, entry{name: "manifests/", kind: tar.TypeDir}, entry2("./manifests/csv.yaml"), entry2("a/b/c")))
	if err := Extract("it", good, dir, Limits{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manifests/csv.yaml", "a/b/c"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(data) != "a: b\n" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if err := Extract("it", good, dir, Limits{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a file is overwritten: %v", err)
	}
	for words, archive := range hostile(t) {
		if strings.Contains(words, "charts/inner.tgz") || strings.Contains(words, "10000 entries") {
			continue // A file like any other to who doesn't know charts; and one that takes long.
		}
		outer := t.TempDir()
		inner := filepath.Join(outer, "inner")
		if err := os.Mkdir(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		err := Extract("it", archive, inner, Limits{})
		wantError[*HostileError](t, err, words)
		if left, _ := os.ReadDir(outer); len(left) != 1 {
			t.Errorf("%s: it got out: %v", words, left)
		}
	}
	// A link that is there already leads nowhere.
	trap, target := t.TempDir(), t.TempDir()
	if err := os.Symlink(target, filepath.Join(trap, "manifests")); err != nil {
		t.Fatal(err)
	}
	if err := Extract("it", good, trap, Limits{}); err == nil {
		t.Error("it followed a link out of the directory")
	}
	if left, _ := os.ReadDir(target); len(left) > 0 {
		t.Error("it wrote beyond the directory")
	}
}

func FuzzUnpack(f *testing.F) {
	for _, archive := range hostile(f) {
		if len(archive) < 1<<16 {
			f.Add(archive)
		}
	}
	good := chartOf(f, "infra", "1.0.0")
	f.Add(good)
	f.Add(tarOf(f, entry2("infra/Chart.yaml")))
	limits := Limits{Unpacked: 1 << 20, File: 1 << 18, Files: 100}
	f.Fuzz(func(t *testing.T, archive []byte) {
		total, names := 0, map[string]bool{}
		err := Unpack("it", archive, limits, func(file File) error {
			total += len(file.Data)
			if names[file.Name] || !filepath.IsLocal(file.Name) || filepath.Clean(file.Name) != file.Name || strings.Contains(file.Name, `\`) {
				t.Errorf("file %q", file.Name)
			}
			names[file.Name] = true
			return nil
		})
		if total > 1<<20 || len(names) > 100 {
			t.Errorf("%d files of %d bytes", len(names), total)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
		if chart, err := inspect("it", archive, limits); err == nil && (chart.Name == "" || chart.Version == "") {
			t.Error("a chart without a name")
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nentries:\n  infra:\n  - version: 1.0.0\n    urls: [a]\n  b:\n  - version: 2.0.0\n    urls: [a]\ngenerated: x\n"), "infra")
	f.Add([]byte(`{"entries":{"infra":[{"version":"1","urls":["a"]}]}}`), "infra")
	f.Add([]byte("entries:\n  a: &a [*a]\n"), "a")
	f.Add([]byte("entries:\n  infra:\n   - a\n  - b\n"), "infra")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		if !chartName.MatchString(name) {
			return
		}
		entries, err := parseIndex("it", data, name)
		if err != nil && entries != nil {
			t.Error("entries and an error")
		}
		for _, entry := range entries {
			if entry.Version == "" || len(entry.URLs) == 0 {
				t.Errorf("entry %+v", entry)
			}
		}
		if part, is := cutIndex(data, name); is && len(part) > len(data)+bytes.Count(data, []byte("\n"))+16 {
			t.Errorf("a part of %d bytes of %d", len(part), len(data))
		}
	})
}
