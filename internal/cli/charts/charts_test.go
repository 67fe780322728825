package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/cli/plan"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// packChart makes an archive of the chart name with files.
func packChart(t *testing.T, name, version string, files map[string]string) []byte {
	t.Helper()
	all := map[string]string{"Chart.yaml": fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version)}
	maps.Copy(all, files)
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	writer := tar.NewWriter(zipped)
	for _, file := range slices.Sorted(maps.Keys(all)) {
		if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name + "/" + file, Mode: 0o644, Size: int64(len(all[file]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(all[file])); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const infraTemplates = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-gateway
  namespace: {{ .Release.Namespace }}
spec:
  template:
    spec:
      initContainers: [{name: init, image: "busybox:1.36"}]
      containers: [{name: envoy, image: "{{ .Values.image }}"}]
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-before
  annotations:
    "helm.sh/hook": pre-install
    "helm.sh/hook-weight": "1"
spec:
  template:
    spec:
      containers: [{name: c, image: "registry.example.com/tools/hook:v1"}]
`

const modelTemplates = `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: {{ .Release.Name }}-decode
spec:
  leaderWorkerTemplate:
    leaderTemplate: {spec: {containers: [{name: vllm, image: "ghcr.io/llm-d/llm-d:v0.3.0"}]}}
    workerTemplate: {spec: {containers: [{name: vllm, image: "ghcr.io/llm-d/llm-d:v0.3.0"}]}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ required "modelArtifacts.uri is needed" .Values.modelArtifacts.uri | quote }}
data:
  password: {{ .Values.password | quote }}
`

// serve runs a repository of the three charts.
func serve(t *testing.T) (url string) {
	t.Helper()
	inner := packChart(t, "inner", "0.1.0", map[string]string{
		"templates/test.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: test\n  annotations: {\"helm.sh/hook\": test}\nspec: {containers: [{name: t, image: \"curlimages/curl:8.9.1\"}]}\n",
	})
	files := map[string][]byte{
		"/llm-d-infra-v1.3.3.tgz": packChart(t, "llm-d-infra", "v1.3.3", map[string]string{
			"values.yaml": "image: envoyproxy/envoy:v1.33.2\n", "templates/all.yaml": infraTemplates,
			"crds/a.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\nspec: {default: {image: no.example.com/none}}\n",
		}),
		"/inferencepool-1.0.1.tgz": packChart(t, "inferencepool", "1.0.1", map[string]string{
			"templates/pool.yaml": "apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: pool}\nspec: {selector: {{ required \"labels\" .Values.inferencePool.modelServers.matchLabels | toJson }}, image: {registry: registry.k8s.io, repository: epp, tag: v1.0.1}}\n",
		}),
		"/llm-d-modelservice-v0.2.11.tgz": packChart(t, "llm-d-modelservice", "v0.2.11", map[string]string{
			"values.yaml": "modelArtifacts: {}\n", "templates/all.yaml": modelTemplates, "charts/inner-0.1.0.tgz": string(inner),
		}),
	}
	index := "apiVersion: v1\nentries:\n"
	for _, path := range slices.Sorted(maps.Keys(files)) {
		file := strings.TrimPrefix(path, "/")
		at := strings.LastIndex(file, "-")
		name, version := file[:at], strings.TrimSuffix(file[at+1:], ".tgz")
		index += fmt.Sprintf("  %s:\n  - version: %s\n    urls: ['%s']\n", name, version, path)
	}
	files["/index.yaml"] = []byte(index)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Write(files[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const secret = `
---
apiVersion: v1
kind: Secret
metadata: {name: login, namespace: llm-d}
stringData: {username: me, password: hunter2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: values}
data: {values.yaml: "password: sesame\n"}
`

func charts(url, more string) string {
	repository := fmt.Sprintf("repository: {url: %q, secretRef: {name: login}}", url)
	return fmt.Sprintf("  infra: {%s}\n  gatewayAPI: {%s}\n  modelService: {%s, valuesFrom: [{kind: ConfigMap, name: values}]%s}\n", repository, repository, repository, more)
}

func inputOf(t *testing.T, text string) (llmd.Input, error) {
	t.Helper()
	manifests, err := plan.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return Input(manifests)
}

func mustInput(t *testing.T, text string) llmd.Input {
	t.Helper()
	input, err := inputOf(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return input
}

func newVendorer(dir string) (*Vendorer, *bytes.Buffer) {
	progress := &bytes.Buffer{}
	return &Vendorer{Registry: registry.New(registry.Options{Now: time.Now}), Dir: dir, KubeVersion: "v1.36.0", Progress: progress}, progress
}

const head = "apiVersion: components.platform.opendatahub.io/v1alpha1\nkind: Llmd\nmetadata: {name: default-llm-d}\nspec:\n"

var wantImages = []string{
	"busybox:1.36", "curlimages/curl:8.9.1", "envoyproxy/envoy:v1.33.2", "ghcr.io/llm-d/llm-d:v0.3.0", "registry.example.com/tools/hook:v1", "registry.k8s.io/epp:v1.0.1",
}

// What was vendored is all that an operator without a network needs.
func TestVendoredChartsNeedNoNetwork(t *testing.T) {
	input := mustInput(t, head+charts(serve(t), ", values: {modelArtifacts: {uri: \"hf://x\"}}")+secret)
	dir := filepath.Join(t.TempDir(), "charts")
	for range 2 { // Again gives the same.
		vendorer, progress := newVendorer(dir)
		images, err := vendorer.Vendor(t.Context(), input)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantImages, images); diff != "" {
			t.Errorf("images (-want +got):\n%s", diff)
		}
		if !strings.Contains(progress.String(), "infra: chart llm-d-infra v1.3.3, sha256:") || strings.Contains(progress.String(), "hunter2") {
			t.Errorf("progress: %s", progress)
		}
	}
	listed, err := os.ReadFile(filepath.Join(dir, ImagesFile))
	if err != nil || string(listed) != strings.Join(wantImages, "\n")+"\n" {
		t.Errorf("%q, %v", listed, err)
	}
	offline := registry.New(registry.Options{Now: time.Now, Vendored: dir, Transport: &http.Transport{Proxy: nil, DialContext: nil}, Timeout: time.Nanosecond})
	for _, release := range llmd.Releases(input) {
		archive, err := offline.Chart(t.Context(), registry.Chart(release.Chart), registry.Credentials{})
		if err != nil || !strings.HasPrefix(archive.Source, dir) {
			t.Errorf("%s: %s, %v", release.Name, archive.Source, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, ManifestsDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"1-llmd-infra.yaml", "2-llmd-gateway-api.yaml", "3-llmd-modelservice.yaml"} {
		if len(files) != 3 || filepath.Base(files[i]) != want {
			t.Fatalf("manifests: %v", files)
		}
	}
	review, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"kind: CustomResourceDefinition", "name: llmd-infra-gateway", "namespace: llm-d", `"helm.sh/hook": pre-install`, `"helm.sh/hook-weight": "1"`} {
		if !strings.Contains(string(review), words) {
			t.Errorf("the review lacks %s:\n%s", words, review)
		}
	}
	model, err := os.ReadFile(files[2])
	if err != nil || !strings.Contains(string(model), "sesame") {
		t.Errorf("values of a ConfigMap have no part in it: %v\n%s", err, model)
	}
}

func TestDataScienceClusterIsVendored(t *testing.T) {
	text := "apiVersion: datasciencecluster.opendatahub.io/v2\nkind: DataScienceCluster\nmetadata: {name: default-dsc}\nspec:\n components:\n  kserve: {managementState: Managed}\n  llmd:\n   managementState: %s\n" +
		strings.ReplaceAll(charts(serve(t), ", enabled: false"), "  ", "   ") + secret
	vendorer, _ := newVendorer(t.TempDir())
	images, err := vendorer.Vendor(t.Context(), mustInput(t, fmt.Sprintf(text, "Managed")))
	if err != nil || slices.Contains(images, "ghcr.io/llm-d/llm-d:v0.3.0") || len(images) != 4 {
		t.Errorf("%v, %v", images, err)
	}
	_, err = inputOf(t, fmt.Sprintf(text, "Removed"))
	if err == nil || !strings.Contains(err.Error(), "set spec.components.llmd.managementState to Managed") {
		t.Error(err)
	}
}

// A chart that can't be rendered is there all the same, and so are the others.
func TestValuesThatAreMissing(t *testing.T) {
	dir := t.TempDir()
	vendorer, _ := newVendorer(dir)
	images, err := vendorer.Vendor(t.Context(), mustInput(t, head+charts(serve(t), "")+secret))
	if err == nil || !strings.Contains(err.Error(), "modelService: the chart was fetched, but can't be rendered") || !strings.Contains(err.Error(), "modelArtifacts.uri is needed") {
		t.Error(err)
	}
	if len(images) != 4 {
		t.Errorf("images: %v", images)
	}
	archives, _ := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if len(archives) != 3 {
		t.Errorf("archives: %v", archives)
	}
}

func TestInputsThatAreRefused(t *testing.T) {
	url := serve(t)
	for words, text := range map[string]string{
		"hold 0 of Llmd and DataScienceCluster":                   secret,
		"hold 2 of Llmd and DataScienceCluster":                   head + "  namespace: a\n---\n" + head + "  namespace: b\n",
		`unknown field "infa"`:                                    head + "  infa: {}\n",
		"Secret login in namespace llm-d: data must be":           head + charts(url, "") + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: login}\ndata: {username: hunter2!}\n",
		"Secret login in namespace llm-d doesn't exist; create":   head + charts(url, ""),
		"no chart is enabled":                                     head + "  infra: {enabled: false}\n  gatewayAPI: {enabled: false}\n  modelService: {enabled: false}\n",
		"refuses the credentials":                                 head + charts(url, "") + strings.Replace(secret, "hunter2", "hunter3", 1),
		"infra: " + url + " has no version 9.9.9":                 head + strings.Replace(charts(url, ""), "infra: {", "infra: {version: 9.9.9, ", 1) + secret,
		"ConfigMap values in namespace llm-d doesn't exist; crea": head + charts(url, "") + strings.Replace(secret, "name: values", "name: others", 1),
	} {
		input, err := inputOf(t, text)
		if err == nil {
			vendorer, _ := newVendorer(t.TempDir())
			_, err = vendorer.Vendor(t.Context(), input)
		}
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want %q", err, words)
		}
	}
	if input, err := Input([]*unstructured.Unstructured{}); err != nil || len(llmd.Releases(input)) != 3 {
		t.Errorf("without a manifest: %v", err)
	}
}

func TestImagesAreFound(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for text, want := range map[string][]string{
		"spec: {containers: [{image: a}, {image: 'r.example.com:5000/b/c:v1" + digest + "'}]}": {"a", "r.example.com:5000/b/c:v1" + digest},
		"spec: {volumes: [{name: model, image: {reference: 'quay.io/m:v1'}}]}":                 {"quay.io/m:v1"},
		"spec: {image: {registry: ghcr.io/, repository: a/b, tag: 1.5}}":                       {"ghcr.io/a/b:1.5"},
		"spec: {image: {repository: a/b, digest: 'sha256:" + strings.Repeat("b", 64) + "'}}":   {"a/b@sha256:" + strings.Repeat("b", 64)},
		"env: [{name: RELATED_IMAGE_EPP, value: 'x/y:z'}, {name: OTHER, value: 'p/q:r'}]":      {"x/y:z"},
		"image: 'two words'\nspec: {image: '', other: [{image: '{{ .Values.x }}'}]}":           nil,
		"kind: CustomResourceDefinition\nspec: {image: a}":                                     nil,
		"a: {image: b}\n---\n---\n# nothing\n---\nimage: b\n---\n[{image: c}]\n":               {"b", "c"},
		"image: [a]": nil,
	} {
		found, err := Images(text)
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("%s: %v, %v, want %v", text, found, err, want)
		}
	}
	if _, err := Images("a: [b"); err == nil {
		t.Error("no YAML is taken")
	}
}

func FuzzImages(f *testing.F) {
	f.Add("spec: {containers: [{image: a}]}\n---\nimage: {repository: b}\n")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := Images(text)
		if err == nil && (!slices.IsSorted(found) || slices.ContainsFunc(found, func(name string) bool { return strings.ContainsAny(name, " \n{}") || name == "" })) {
			t.Errorf("%q", found)
		}
	})
}
