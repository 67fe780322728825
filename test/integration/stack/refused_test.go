package stack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/test/bed"
)

// csv is an operator without anything but a name.
const csv = `apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: NAME.v1.0.0}
spec:
  version: 1.0.0
  installModes: [{type: AllNamespaces, supported: true}]
  install: {strategy: deployment, spec: {deployments: []}}
`

// entry is a file of an image. What it has beyond its text is zeros.
type entry struct {
	name, text string
	size       int64
}

// nothing is an endless file of zeros.
type nothing struct{}

func (nothing) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// pushEntries pushes an image whose only layer holds files as they are given, whatever
// their names are.
func pushEntries(t *testing.T, reference string, entries ...entry) {
	t.Helper()
	var data bytes.Buffer
	packed, err := gzip.NewWriterLevel(&data, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(packed)
	for _, each := range entries {
		each.size = max(each.size, int64(len(each.text)))
		err := archive.WriteHeader(&tar.Header{Name: each.name, Mode: 0o644, Size: each.size, Typeflag: tar.TypeReg})
		if err == nil {
			_, err = io.CopyN(archive, io.MultiReader(strings.NewReader(each.text), nothing{}), each.size)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(data.Bytes(), types.DockerLayer))
	if err != nil {
		t.Fatal(err)
	}
	at, err := name.ParseReference(reference)
	if err == nil {
		err = remote.Write(at, image, remote.WithAuth(&authn.Basic{Username: "me", Password: "hunter2"}))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// locked is a registry that lets nobody in.
func locked(t *testing.T) (host string) {
	t.Helper()
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(served.Close)
	return strings.TrimPrefix(served.URL, "http://")
}

// TestBadBundles: what is no bundle, or means harm, is told in a line, by both commands
// that take one, and leaves nothing behind: no file, no namespace, no release.
func TestBadBundles(t *testing.T) {
	kube, host, closed, l := bed.Client(t, server), hub(t), locked(t), newLaptop(t)
	logins := l.write("auth.json", `{"auths":{"`+host+`":{"username":"me","password":"hunter2"},"`+closed+`":{"username":"me","password":"hunter2"}}}`)
	good := entry{name: "manifests/a.yaml", text: strings.ReplaceAll(csv, "NAME", "one")}
	pushEntries(t, host+"/good:1", good)
	pushEntries(t, host+"/none:1", entry{name: "manifests/a.yaml", text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"})
	pushEntries(t, host+"/two:1", good, entry{name: "manifests/b.yaml", text: strings.ReplaceAll(csv, "NAME", "two")})
	pushEntries(t, host+"/broken:1", good, entry{name: "manifests/b.yaml", text: "a: [\n  b: }{\n"})
	pushEntries(t, host+"/climbs:1", good, entry{name: "../../" + filepath.Base(l.dir) + "/climbed.yaml", text: "a: b"})
	pushEntries(t, host+"/bomb:1", good, entry{name: "usr/bin/bomb", size: 2 << 30})
	wrong := "sha256:" + strings.Repeat("0", 64)
	for about, test := range map[string]struct{ image, digest, want string }{
		"no-csv":       {host + "/none:1", "", "there is no ClusterServiceVersion in manifests/"},
		"two-csvs":     {host + "/two:1", "", "manifests/b.yaml has a second ClusterServiceVersion"},
		"broken-yaml":  {host + "/broken:1", "", "manifests/b.yaml can't be read"},
		"climbs":       {host + "/climbs:1", "", "leads out of the image; it is refused"},
		"bomb":         {host + "/bomb:1", "", "unpacks to more than 200 times its size"},
		"forbidden":    {closed + "/good:1", "", "the registry refuses the credentials"},
		"wrong-digest": {host + "/good:1", wrong, "check its path and its digest"},
		"not-there":    {host + "/good:2", "", "the registry has no such image"},
	} {
		t.Run(about, func(t *testing.T) {
			l := &laptop{t: t, dir: t.TempDir(), kubeconfig: l.kubeconfig}
			reference, pinned := test.image, ""
			if test.digest != "" {
				reference, pinned = test.image+"@"+test.digest, ", digest: "+test.digest
			}
			out := filepath.Join(l.dir, "out")
			_, progress, ok := l.main("bundle", "extract", reference, "-n", "sea", "--auth-file", logins, "-o", "dir", "--output-dir", out)
			last := progress[strings.LastIndex(strings.TrimSuffix(progress, "\n"), "\n")+1:]
			if ok || !strings.HasPrefix(last, "error: ") || !strings.Contains(last, test.want) {
				t.Errorf("extract says %s", progress)
			}
			if left, err := filepath.Glob(filepath.Join(l.dir, "*out*")); err != nil || len(left) > 0 {
				t.Errorf("extract leaves %v, %v", left, err)
			}
			file := l.write("stack.yaml", "apiVersion: platform.slipway.dev/v1alpha1\nkind: PlatformStack\nmetadata: {name: bad-"+about+"}\n"+
				"spec: {components: [{name: it, namespace: bad-"+about+`, source: {bundle: {image: "`+test.image+`"`+pinned+"}}}]}\n")
			_, progress, ok = l.stack("apply", "-f", file, "--auth-file", logins, "--timeout", "10m")
			if ok || !strings.Contains(progress, "\nerror: PlatformStack bad-"+about+" isn't ready: it: "+reference) || !strings.Contains(progress, test.want) {
				t.Errorf("apply says %s", progress)
			}
			nothingOf(t, kube, "bad-"+about)
			l.must("delete", "bad-"+about)
		})
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(l.dir), "*", "climbed*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// nothingOf demands that a stack has made nothing: no namespace, so nothing in it.
func nothingOf(t *testing.T, kube client.Client, name string) {
	t.Helper()
	if err := kube.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is there: %v", err)
	}
	made := &platformv1alpha1.PlatformStack{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: name}, made); err != nil || len(made.Status.Releases) > 0 {
		t.Errorf("%v, %v", made.Status.Releases, err)
	}
}

// TestNothingToDo: what can't be begun writes nothing, and what is gone can be deleted
// again where that is asked for.
func TestNothingToDo(t *testing.T) {
	kube, l := bed.Client(t, server), newLaptop(t)
	none := l.write("auth.json", "{}")
	file := l.small("unbegun", "")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	file = l.write("unbegun.yaml", strings.Replace(string(text), "spec:\n", "spec:\n  pullSecrets: [{name: pull, namespace: unbegun-pull}]\n", 1))
	_, progress, ok := l.stack("apply", "-f", file, "--auth-file", none, "--login", "registry.example.com")
	if ok || !strings.Contains(progress, "error: there are no credentials for registry.example.com on this machine") || strings.Count(progress, "\n") != 1 {
		t.Errorf("without credentials: %s", progress)
	}
	err = kube.Get(t.Context(), client.ObjectKey{Name: "unbegun"}, &platformv1alpha1.PlatformStack{})
	if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		t.Errorf("the stack: %v", err)
	}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "unbegun-pull"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace of the pull secret: %v", err)
	}
	if _, progress, ok := l.stack("delete", "unbegun"); ok || !strings.Contains(progress, "there is no PlatformStack unbegun; slipway stack status lists all") {
		t.Errorf("deleted: %s", progress)
	}
	if _, progress := l.must("delete", "-f", file, "--ignore-not-found"); progress != "there is no PlatformStack unbegun\n" {
		t.Errorf("deleted: %s", progress)
	}
}
