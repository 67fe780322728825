package component

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// source makes the sources of a module without requirements.
func source(t *testing.T, main string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"pause/go.mod":      "module example.com/pause\n\ngo 1.26.0\n",
		"pause/main.go":     main,
		"kubernetes/go.mod": "module example.com/kubernetes\n\ngo 1.26.0\n",
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// small is a module with one tiny program, under the name of another.
var small = module{programs: map[string]string{"quiet": "example.com/pause"}}

func newTestBuilder(t *testing.T, main string, progress *bytes.Buffer) *builder {
	t.Helper()
	b, err := newBuilder(t.Context(), Options{Source: source(t, main), Cache: t.TempDir(), Progress: progress})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBuildOnceAndNameTheProgram(t *testing.T) {
	var progress bytes.Buffer
	b := newTestBuilder(t, "package main\n\nfunc main() {}\n", &progress)
	key, err := small.key(filepath.Join(b.source, "pause"), b.goVersion, runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(b.cache, "localcluster", ".build-pause-"+key+"-1")
	if err := os.MkdirAll(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := b.ensureModule(t.Context(), Pause, small)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed); err == nil {
		t.Error("what a killed builder left is still there")
	}
	if info, err := os.Stat(filepath.Join(dir, "quiet")); err != nil || info.Mode()&0o111 == 0 {
		t.Fatalf("no program was built: %v", err)
	}
	if !strings.Contains(progress.String(), "compiling pause from source") {
		t.Errorf("the progress is %q", progress.String())
	}
	progress.Reset()
	again, err := b.ensureModule(t.Context(), Pause, small)
	if err != nil || again != dir {
		t.Errorf("the second time gives %s, %v; want %s", again, err, dir)
	}
	if progress.Len() > 0 {
		t.Errorf("the second time says %q", progress.String())
	}
}

func TestFailedBuildLeavesNothingAndSaysWhy(t *testing.T) {
	var progress bytes.Buffer
	b := newTestBuilder(t, "package main\n\nfunc main() { undefined() }\n", &progress)
	_, err := b.ensureModule(t.Context(), Pause, small)
	if err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("the error is %v, want the compiler's words", err)
	}
	entries, err := os.ReadDir(filepath.Join(b.cache, "localcluster"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".lock") {
			t.Errorf("%s is left over", entry.Name())
		}
	}
	if strings.Contains(progress.String(), "compiled pause") {
		t.Errorf("the progress claims success: %q", progress.String())
	}
}

func TestCachedSaysWhatEnsureWouldFind(t *testing.T) {
	opts := Options{Cache: t.TempDir()}
	cached := func() bool {
		t.Helper()
		is, err := Cached(t.Context(), opts, Pause)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if cached() {
		t.Error("an empty cache holds the program")
	}
	programs, err := Ensure(t.Context(), opts, Pause)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(programs.Path("pause")); err != nil || !cached() {
		t.Errorf("the cache lacks what was compiled into it: %v", err)
	}
}

func TestEveryGroupHasItsFolder(t *testing.T) {
	dir, err := FindSource()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range slices.Concat(ControlPlane, Node, LLMD, []Group{Ollama}) {
		if len(modules[g].programs) == 0 {
			t.Errorf("the group %s has no programs", g)
		}
		for _, file := range []string{"go.mod", "go.sum"} {
			if _, err := os.Stat(filepath.Join(dir, string(g), file)); err != nil && g != Pause {
				t.Errorf("the group %s: %v", g, err)
			}
		}
	}
}

func TestKeyFollowsEverythingThatMatters(t *testing.T) {
	dir := filepath.Join(source(t, "package main\n"), "pause")
	key := func(m module, goVersion, platform string) string {
		t.Helper()
		k, err := m.key(dir, goVersion, platform)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	base := key(small, "go1", "linux/amd64")
	if again := key(small, "go1", "linux/amd64"); again != base {
		t.Errorf("the same input gives %s and %s", base, again)
	}
	flagged := small
	flagged.ldflags = []string{"-X", "a=b"}
	different := map[string]string{
		"Go version": key(small, "go2", "linux/amd64"),
		"platform":   key(small, "go1", "linux/arm64"),
		"flags":      key(flagged, "go1", "linux/amd64"),
	}
	if err := os.MkdirAll(filepath.Join(dir, "a", "testdata"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"main_test.go", "a/testdata/main.go"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if again := key(small, "go1", "linux/amd64"); again != base {
			t.Errorf("%s, which no program is built from, changes the key", file)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	different["file"] = key(small, "go1", "linux/amd64")
	for what, k := range different {
		if k == base {
			t.Errorf("another %s gives the same key", what)
		}
	}
}

func TestCIsCompiledOnlyWhereThereIsACompiler(t *testing.T) {
	const main = "package main\n\n// int answer() { return 42; }\nimport \"C\"\n\nfunc main() { println(C.answer()) }\n"
	var progress bytes.Buffer
	b := newTestBuilder(t, main, &progress)
	inC := small
	inC.cgo = true
	t.Setenv("CC", "no-compiler-has-this-name -O2")
	if _, err := b.ensureModule(t.Context(), Pause, inC); !errors.Is(err, ErrNoCompiler) || !strings.Contains(err.Error(), "no-compiler-has-this-name") {
		t.Errorf("the error is %v, want ErrNoCompiler", err)
	}
	t.Setenv("CC", "")
	dir, err := b.ensureModule(t.Context(), Pause, inC)
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(filepath.Join(dir, "quiet"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			t.Error("the program is dynamically linked; an empty image couldn't run it")
		}
	}
}

func TestGoName(t *testing.T) {
	for pkg, want := range map[string]string{
		"go.etcd.io/etcd/server/v3":               "server",
		"k8s.io/kubernetes/cmd/kube-apiserver":    "kube-apiserver",
		"./kubelet":                               "kubelet",
		"example.com/v":                           "v",
		"example.com/cmd/containerd-shim-runc-v2": "containerd-shim-runc-v2",
	} {
		if got := goName(pkg); got != want {
			t.Errorf("goName(%q) = %q, want %q", pkg, got, want)
		}
	}
}

func TestWatchBuildTellsPackagesFromErrors(t *testing.T) {
	var out bytes.Buffer
	m := newMeter(&out, "x")
	m.start(4)
	stream := "go: downloading k8s.io/api v0.36.3\nk8s.io/api/core/v1\n# k8s.io/api/apps/v1\napps/v1/a.go:3:1: syntax error\nk8s.io/api/batch/v1\n"
	messages := watchBuild(strings.NewReader(stream), m)
	if m.done != 2 {
		t.Errorf("%d packages were counted, want 2", m.done)
	}
	if got := strings.Join(messages, "|"); got != "# k8s.io/api/apps/v1|apps/v1/a.go:3:1: syntax error" {
		t.Errorf("the messages are %q", got)
	}
}

func TestMeterWritesLinesAtABoundedRate(t *testing.T) {
	var out bytes.Buffer
	m := newMeter(&out, "x")
	now := time.Unix(0, 0)
	m.now = func() time.Time { return now }
	m.start(1000)
	for range 999 {
		now = now.Add(100 * time.Millisecond)
		m.compiled("p")
	}
	// 99.9 seconds at one line in ten, and the first.
	if lines := strings.Count(out.String(), "\n"); lines < 9 || lines > 12 {
		t.Errorf("%d lines were written:\n%s", lines, out.String())
	}
}

func TestFindSourceNamesTheWayOut(t *testing.T) {
	t.Setenv("SLIPWAY_LOCALCLUSTER", t.TempDir())
	if _, err := FindSource(); err == nil || !strings.Contains(err.Error(), "SLIPWAY_LOCALCLUSTER") {
		t.Errorf("the error is %v", err)
	}
	t.Setenv("SLIPWAY_LOCALCLUSTER", "")
	t.Chdir(t.TempDir())
	if _, err := FindSource(); err == nil || !strings.Contains(err.Error(), "checkout") {
		t.Errorf("the error is %v", err)
	}
}
