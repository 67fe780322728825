package bundle_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/internal/cli/bundle"
	"github.com/slipway-dev/slipway/internal/helm"
)

// newer is the bundle with some of its text replaced.
func newer(t *testing.T, replaced ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "newer")
	if err := os.CopyFS(dir, os.DirFS(dolphin)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dolphin.clusterserviceversion.yaml", "fins.yaml", "dolphins.yaml"} {
		name = filepath.Join(dir, "manifests", name)
		if err := os.WriteFile(name, []byte(strings.NewReplacer(replaced...).Replace(content(t, name))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, update bundle.Update) (string, error) {
	t.Helper()
	updated, err := maker(&bytes.Buffer{}).Update(t.Context(), update)
	var out bytes.Buffer
	if updated.To != "" {
		updated.Print(&out)
	}
	return out.String(), err
}

var toNext = []string{
	"dolphin.v1.2.3", "dolphin.v1.3.0", "version: 1.2.3", "version: 1.3.0", "dolphin:1.2.3", "dolphin:1.3.0", "example.com/fin:2", "example.com/fin:3",
	"verbs: [get, list]", "verbs: [get, delete]", ", colour: {type: string}", "", "- name: proxy\n                image: example.com/proxy:7", "",
}

func TestUpdateKeepsWhatIsTheUsers(t *testing.T) {
	dir := makeChart(t, bundle.Request{Reference: dolphin, Exclude: []string{`.kind == "ConsoleCLIDownload"`}})
	values := strings.NewReplacer(
		"imagePullSecrets: []", "imagePullSecrets:\n  - name: pull", "example.com/helper:1.2.3", "mirror.example/helper:1",
		"cpu: 10m", "cpu: 20m", "example.com/proxy:7", "mirror.example/proxy:7", "kubernetes.io/os: linux", "zone: a",
	).Replace(content(t, dir+"/values.yaml"))
	write(t, dir+"/values.yaml", values)
	write(t, dir+"/templates/mine.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\n")
	said, err := update(t, bundle.Update{Dir: dir, Reference: newer(t, toNext...), DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if content(t, dir+"/values.yaml") != values || !strings.Contains(content(t, dir+"/Chart.yaml"), "version: 1.2.3") {
		t.Fatal("a dry run wrote")
	}
	written, err := update(t, bundle.Update{Dir: dir, Reference: newer(t, toNext...)})
	if err != nil || written != said {
		t.Fatalf("%v, %s", err, written)
	}
	want := `version: 1.2.3 -> 1.3.0
image: dolphin images.fin: example.com/fin:2 -> example.com/fin:3
image: dolphin/manager RELATED_IMAGE_FIN: example.com/fin:2 -> example.com/fin:3
image: dolphin/manager: example.com/dolphin:1.2.3 -> example.com/dolphin:1.3.0
image: dolphin/proxy: gone: example.com/proxy:7
permission gained: ClusterRole dolphin-NAMESPACE-dolphin: delete configmaps
permission lost: ClusterRole dolphin-NAMESPACE-dolphin: list configmaps
your value kept: deployments.dolphin.containers.manager.resources.requests.cpu
your value kept: deployments.dolphin.nodeSelector.zone
your value kept: deployments.dolphin.nodeSelector.kubernetes.io/os (removed)
your value kept: deployments.helper.containers.manager.image
your value kept: imagePullSecrets
your value has no place any more: deployments.dolphin.containers.proxy
warning: fins.sea.example.com v1: spec.colour was removed
`
	if diff := cmp.Diff(want, written); diff != "" {
		t.Error(diff)
	}
	merged := content(t, dir+"/values.yaml")
	for _, part := range []string{"- name: pull", "mirror.example/helper:1", "cpu: 20m", "dolphin:1.3.0", "zone: a", "fin: example.com/fin:3", "# What runs"} {
		if !strings.Contains(merged, part) {
			t.Errorf("no %s in\n%s", part, merged)
		}
	}
	if strings.Contains(merged, "proxy") || strings.Contains(merged, "kubernetes.io/os") || !strings.Contains(content(t, dir+"/templates/mine.yaml"), "name: mine") {
		t.Error(merged)
	}
	if err := helm.Lint(os.DirFS(filepath.Dir(dir)), filepath.Base(dir), nil); err != nil {
		t.Error(err)
	}
	for ref := range render(t, dir, "sea", nil) {
		if ref.Kind == "ConsoleCLIDownload" {
			t.Error("what was excluded is back")
		}
	}
	// The same again, by another path, changes nothing, and keeps all.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	again, err := update(t, bundle.Update{Dir: link + "/", Reference: newer(t, toNext...)})
	if err != nil || strings.Contains(again, "image:") || strings.Contains(again, "permission") || content(t, dir+"/values.yaml") != merged {
		t.Errorf("%v, %s", err, again)
	}
}

func TestUpdateRefuses(t *testing.T) {
	dir := makeChart(t, bundle.Request{Reference: dolphin})
	stored := newer(t, "- name: v1\n    served: true\n    storage: true", "- name: v2\n    served: true\n    storage: true")
	said, err := update(t, bundle.Update{Dir: dir, Reference: stored})
	if err == nil || !strings.Contains(err.Error(), "no longer has version v1, in which its objects are stored") || !strings.Contains(said, "error: ") {
		t.Errorf("%v, %s", err, said)
	}
	if _, err := update(t, bundle.Update{Dir: dir, Version: "2.0.0"}); err == nil || !strings.Contains(err.Error(), "--from") {
		t.Error(err)
	}
	if _, err := update(t, bundle.Update{Dir: t.TempDir(), Version: "2.0.0"}); err == nil || !strings.Contains(err.Error(), "hasn't made this chart") {
		t.Error(err)
	}
	t.Run("from within", func(t *testing.T) {
		t.Chdir(filepath.Join(dir, "templates"))
		if _, err := update(t, bundle.Update{Dir: "..", Version: "2.0.0"}); err == nil || !strings.Contains(err.Error(), "holds the working directory") {
			t.Error(err)
		}
	})
	changed := dir + "/templates/deployment-dolphin.yaml"
	text := content(t, changed)
	write(t, changed, text+"\n# mine\n")
	if _, err := update(t, bundle.Update{Dir: dir, Reference: newer(t, toNext...)}); err == nil || !strings.Contains(err.Error(), "templates/deployment-dolphin.yaml was changed by hand") {
		t.Error(err)
	}
	if !strings.Contains(content(t, dir+"/Chart.yaml"), "version: 1.2.3") || !strings.HasSuffix(content(t, changed), "# mine\n") {
		t.Error("it was written all the same")
	}
}
