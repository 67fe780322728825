package cluster

import (
	"archive/tar"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/image"
)

func TestSpecValidate(t *testing.T) {
	good := Spec{Name: "a", Nodes: 1}
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"good":               {func(*Spec) {}, ""},
		"simulated alone":    {func(s *Spec) { s.Nodes, s.SimulatedNodes = 0, 1 }, ""},
		"no node":            {func(s *Spec) { s.Nodes = 0 }, "--nodes or --simulated-nodes"},
		"upper case":         {func(s *Spec) { s.Name = "A" }, "lower-case"},
		"path":               {func(s *Spec) { s.Name = "../x" }, "lower-case"},
		"too long":           {func(s *Spec) { s.Name = strings.Repeat("a", 33) }, "lower-case"},
		"negative nodes":     {func(s *Spec) { s.Nodes = -1 }, "--nodes"},
		"too many nodes":     {func(s *Spec) { s.Nodes = 33 }, "--nodes"},
		"negative GPUs":      {func(s *Spec) { s.GPUs = -1 }, "--gpus"},
		"too many simulated": {func(s *Spec) { s.SimulatedNodes = 5001 }, "--simulated-nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := good
			c.change(&spec)
			err := spec.Validate()
			if c.want == "" && err != nil {
				t.Errorf("it is refused: %v", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want one about %s", err, c.want)
			}
		})
	}
}

func TestAgree(t *testing.T) {
	existing := Spec{Name: "a", Nodes: 2, GPUs: 4, SimulatedNodes: 3}
	for name, c := range map[string]struct {
		wanted   Spec
		explicit bool
		ok       bool
	}{
		"defaults":        {Spec{Nodes: 1}, false, true},
		"the same":        {Spec{Nodes: 2, GPUs: 4, SimulatedNodes: 3}, true, true},
		"other nodes":     {Spec{Nodes: 1, GPUs: 4, SimulatedNodes: 3}, true, false},
		"other GPUs":      {Spec{Nodes: 2, SimulatedNodes: 3}, true, false},
		"other simulated": {Spec{Nodes: 2, GPUs: 4}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := upper{UpOptions: UpOptions{Spec: c.wanted, Explicit: c.explicit}}
			err := u.agree(existing)
			if (err == nil) != c.ok {
				t.Errorf("the error is %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "slipway down") {
				t.Errorf("the error names no way out: %v", err)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	tail := " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 "
	for name, c := range map[string]struct {
		line string
		want stat
	}{
		"running":             {"7 (a) S" + tail + "1 0 4711 0", stat{true, "4711"}},
		"name with brackets":  {"7 (a) Z (b) R" + tail + "1 0 4711 0", stat{true, "4711"}},
		"zombie":              {"7 (a) Z" + tail + "1 0 4711 0", stat{false, "4711"}},
		"zombie with threads": {"7 (a) Z" + tail + "3 0 4711 0", stat{true, "4711"}},
		"dead":                {"7 (a) X" + tail + "1 0 4711 0", stat{false, "4711"}},
		"nothing":             {"", stat{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseStat(c.line); got != c.want {
				t.Errorf("parseStat = %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestSupervisorIsKnownByItsStart(t *testing.T) {
	self := identify(os.Getpid())
	if !self.alive() {
		t.Error("this process is not alive")
	}
	if (supervisor{PID: self.PID, Start: "1"}).alive() {
		t.Error("another process with this number is taken for it")
	}
	if (supervisor{}).alive() {
		t.Error("no process is alive")
	}
}

func TestMissingPrograms(t *testing.T) {
	programs, packages := missing(func(name string) string {
		if name == "runc" || name == "nft" {
			return ""
		}
		return "/bin/" + name
	})
	if diff := cmp.Diff([]string{"runc", "nft"}, programs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"runc", "nftables"}, packages); diff != "" {
		t.Error(diff)
	}
}

func TestSettled(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 10, 500, time.UTC)
	pod := func(label string, ready bool, started time.Time, node string) corev1.Pod {
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"k8s-app": label}},
			Spec:       corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
				ContainerStatuses: []corev1.ContainerStatus{{
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}},
				}},
			},
		}
	}
	before, after := begun.Add(-time.Minute), begun.Truncate(time.Second)
	for name, c := range map[string]struct {
		pods []corev1.Pod
		want bool
	}{
		"nothing":              {nil, false},
		"DNS":                  {[]corev1.Pod{pod("kube-dns", true, after, "node-1")}, true},
		"DNS of before":        {[]corev1.Pod{pod("kube-dns", true, before, "node-1")}, false},
		"DNS isn't ready":      {[]corev1.Pod{pod("kube-dns", false, after, "node-1")}, false},
		"another of before":    {[]corev1.Pod{pod("kube-dns", true, after, "node-1"), pod("x", true, before, "node-1")}, false},
		"one known to be gone": {[]corev1.Pod{pod("kube-dns", true, after, "node-1"), pod("x", false, before, "node-1")}, true},
		"simulated":            {[]corev1.Pod{pod("kube-dns", true, after, "node-1"), pod("x", true, before, "simulated-1")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := settled(c.pods, begun); got != c.want {
				t.Errorf("settled = %t, want %t", got, c.want)
			}
		})
	}
}

func TestCgroupsInheritProcessors(t *testing.T) {
	mount := t.TempDir()
	for _, dir := range []string{"cpuset", "memory"} {
		if err := os.Mkdir(filepath.Join(mount, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for file, value := range map[string]string{"cpuset.cpus": "0-1", "cpuset.mems": "0"} {
		if err := os.WriteFile(filepath.Join(mount, "cpuset", file), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := cgroups{mount: mount, cluster: "a"}.make("node-1")
	if err != nil || got != "/slipway-a/node-1" {
		t.Fatalf("make = %q, %v", got, err)
	}
	for _, dir := range []string{"slipway-a", "slipway-a/node-1"} {
		cpus, err := os.ReadFile(filepath.Join(mount, "cpuset", dir, "cpuset.cpus"))
		if err != nil || string(cpus) != "0-1" {
			t.Errorf("%s may use the processors %q, %v", dir, cpus, err)
		}
		if _, err := os.Stat(filepath.Join(mount, "memory", dir)); err != nil {
			t.Error(err)
		}
	}
}

// images makes small images under names.
func images(t *testing.T, refs ...string) map[string]v1.Image {
	t.Helper()
	made := map[string]v1.Image{}
	for _, ref := range refs {
		img, err := random.Image(512, 2)
		if err != nil {
			t.Fatal(err)
		}
		made[ref] = img
	}
	return made
}

func TestStoreAndMirror(t *testing.T) {
	store := newImageStore(filepath.Join(t.TempDir(), "images"))
	wanted := images(t, "your-registry/gpt:v1", "plain")
	if err := store.put(images(t, "plain")); err != nil { // is replaced below
		t.Fatal(err)
	}
	if err := store.put(wanted); err != nil {
		t.Fatal(err)
	}
	all, err := store.all()
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(all))
	if diff := cmp.Diff([]string{"docker.io/library/plain:latest", "docker.io/your-registry/gpt:v1"}, names); diff != "" {
		t.Error(diff)
	}
	server := httptest.NewServer(mirror{store})
	defer server.Close()
	digest, err := wanted["plain"].Digest()
	if err != nil {
		t.Fatal(err)
	}
	for path, status := range map[string]int{
		"/v2/": http.StatusOK,
		"/v2/library/plain/manifests/latest?ns=docker.io":        http.StatusOK,
		"/v2/library/plain/manifests/latest?ns=quay.io":          http.StatusNotFound,
		"/v2/any/manifests/" + digest.String() + "?ns=docker.io": http.StatusOK,
		"/v2/any/blobs/" + digest.String():                       http.StatusOK,
		"/v2/any/blobs/sha256:../../../etc/passwd":               http.StatusBadRequest,
		"/v2/any/blobs/sha256:" + strings.Repeat("0", 64):        http.StatusNotFound,
		"/etc/passwd": http.StatusNotFound,
	} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("%s answers %d, want %d", path, response.StatusCode, status)
		}
		if status == http.StatusOK && path != "/v2/" && response.Header.Get("Docker-Content-Digest") != digest.String() {
			t.Errorf("%s has the digest %q", path, response.Header.Get("Docker-Content-Digest"))
		}
	}
}

func TestReadArchive(t *testing.T) {
	wanted := images(t, "a.example/x:1", "a.example/y:2")
	file := filepath.Join(t.TempDir(), "images.tar")
	if err := image.WriteArchive(file, wanted); err != nil {
		t.Fatal(err)
	}
	got, err := readArchive(file, filepath.Join(t.TempDir(), "layout"))
	if err != nil {
		t.Fatal(err)
	}
	for ref, img := range wanted {
		if got[ref] == nil || !sameImage(got[ref], img) {
			t.Errorf("%s did not come through", ref)
		}
	}
	if _, err := rename(got, []string{"one:1"}); err == nil {
		t.Error("two images take one name")
	}
	delete(got, "a.example/y:2")
	renamed, err := rename(got, []string{"one:1", "two:2"})
	if err != nil || len(renamed) != 2 || !sameImage(renamed["two:2"], wanted["a.example/x:1"]) {
		t.Errorf("rename = %v, %v", renamed, err)
	}
}

func TestUnpackTakesNothingButALayout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "evil.tar")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(out)
	for _, name := range []string{"../escaped", "/absolute", "blobs/sha256/../../x", "blobs/sha256/zz", "index.json"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: 2, Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	dir := filepath.Join(t.TempDir(), "deep", "layout")
	found, err := unpackLayout(file, dir)
	if err != nil || !found {
		t.Fatalf("unpackLayout = %t, %v", found, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "index.json" {
		t.Errorf("unpacked %v, %v", entries, err)
	}
}

func TestHeldDigests(t *testing.T) {
	table := "REF TYPE DIGEST SIZE PLATFORMS LABELS\na:1 application/x sha256:ab 1 B linux/amd64 -\nbroken\n"
	if diff := cmp.Diff(map[string]string{"a:1": "sha256:ab"}, heldDigests(table)); diff != "" {
		t.Error(diff)
	}
}

func TestAdvertisedCPUsAreEnoughForTheManifests(t *testing.T) {
	for real, want := range map[int]int{1: 8, 2: 8, 8: 8, 32: 32} {
		if got := advertisedCPUs(real); got != want {
			t.Errorf("advertisedCPUs(%d) = %d, want %d", real, got, want)
		}
	}
}

func TestFoldersStayInsideTheirRoot(t *testing.T) {
	t.Setenv("SLIPWAY_STATE", "/state")
	if _, err := folderOf("../etc"); err == nil {
		t.Error("a name leads out of the folder")
	}
	f, err := folderOf("a")
	if err != nil || f.path() != "/state/a" {
		t.Errorf("the folder is %q, %v", f, err)
	}
	if spec, err := folder(t.TempDir()).readSpec(); spec != nil || err != nil {
		t.Errorf("an empty folder holds %v, %v", spec, err)
	}
}
