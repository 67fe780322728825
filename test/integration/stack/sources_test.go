package stack

import (
	"archive/tar"
	"bytes"
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
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/test/definitions"
)

// hub is a registry that lets in me with the password hunter2 only.
func hub(t *testing.T) (host string) {
	t.Helper()
	inner := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" {
			w.Header().Set("WWW-Authenticate", `Basic realm="it"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(served.Close)
	return strings.TrimPrefix(served.URL, "http://")
}

// push pushes a directory as an image.
func push(t *testing.T, reference, dir string) {
	t.Helper()
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	if err := errors.Join(writer.AddFS(os.DirFS(dir)), writer.Close()); err != nil {
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
	at, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(at, made, remote.WithAuth(&authn.Basic{Username: "me", Password: "hunter2"})); err != nil {
		t.Fatal(err)
	}
}

// sources puts all that the preset is made of into the test's own registry and
// directories, and gives the preset as it names those.
func (l *laptop) sources(host string) string {
	l.t.Helper()
	for image, dir := range map[string]string{
		"cert-manager/cert-manager-operator-bundle:v1.15.2":       "cert-manager-operator",
		"openshift-service-mesh/istio-sail-operator-bundle:3.2.1": "sail-operator",
		"leader-worker-set/lws-operator-bundle:1.0":               "lws-operator",
	} {
		push(l.t, host+"/"+image, filepath.Join(bundles, dir))
	}
	preset, _, ok := l.slipway("preset", "xks")
	if !ok {
		l.t.Fatal("the preset can't be written")
	}
	var content map[string]any
	if err := yaml.Unmarshal([]byte(preset), &content); err != nil {
		l.t.Fatal(err)
	}
	for _, each := range content["spec"].(map[string]any)["components"].([]any) {
		component := each.(map[string]any)
		if from, is := component["source"].(map[string]any)["manifests"].(map[string]any); is {
			delete(from, "url")
			delete(from, "digest")
			from["path"] = l.definitions(component["name"].(string))
		}
	}
	text, err := yaml.Marshal(content)
	if err != nil {
		l.t.Fatal(err)
	}
	l.charts()
	return strings.NewReplacer("registry.redhat.io", host, "oci://ghcr.io/kserve/charts", filepath.Join(l.dir, "charts")).Replace(string(text))
}

// definitions writes published definitions into a directory.
func (l *laptop) definitions(component string) string {
	l.t.Helper()
	all, err := definitions.All(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	groups := map[string]string{"gateway-api": ".gateway.networking.k8s.io", "inference-extension": ".inference.networking."}
	for name, definition := range all {
		if !strings.Contains(name, groups[component]) {
			continue
		}
		text, err := yaml.Marshal(definition)
		if err != nil {
			l.t.Fatal(err)
		}
		l.write(filepath.Join(component, name+".yaml"), string(text))
	}
	return filepath.Join(l.dir, component)
}

// charts writes stand-ins of KServe's charts, with one of its definitions.
func (l *laptop) charts() {
	l.t.Helper()
	for _, name := range []string{"kserve-llmisvc-crd", "kserve-llmisvc-resources", "kserve-runtime-configs"} {
		l.write("charts/"+name+"/Chart.yaml", "apiVersion: v2\nname: "+name+"\nversion: v0.17.1\n")
	}
	text, err := os.ReadFile(filepath.Join(crds, "serving.kserve.io_llminferenceserviceconfigs.yaml"))
	if err != nil {
		l.t.Fatal(err)
	}
	// The definition quotes braces, which the real chart escapes in the same way.
	escaped := strings.NewReplacer("{{", "{{`{{`}}", "}}", "{{`}}`}}").Replace(string(text))
	l.write("charts/kserve-llmisvc-crd/templates/llminferenceserviceconfigs.yaml", escaped)
	l.write("charts/kserve-llmisvc-resources/templates/controller.yaml", `apiVersion: v1
kind: ServiceAccount
metadata: {name: llmisvc-controller-manager}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llmisvc-controller-manager}
spec:
  selector: {matchLabels: {app: llmisvc}}
  template:
    metadata: {labels: {app: llmisvc}, annotations: {mode: {{ .Values.kserve.controller.deploymentMode }}}}
    spec:
      serviceAccountName: llmisvc-controller-manager
      containers: [{name: manager, image: stand-in}]
`)
	l.write("charts/kserve-runtime-configs/templates/config.yaml", `{{ if .Values.kserve.llmisvcConfigs.enabled }}
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceServiceConfig
metadata: {name: config-llm-template}
spec: {}
{{ end }}
`)
}
