package olm_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/olm"
)

// csv is a small operator's, with everything that OLM looks at.
const csv = `apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: dolphin.v1.2.3
  annotations: {alm-examples: "[]", capabilities: Basic Install}
spec:
  version: 1.2.3
  installModes:
  - {type: OwnNamespace, supported: OWN}
  - {type: SingleNamespace, supported: SINGLE}
  - {type: MultiNamespace, supported: MULTI}
  - {type: AllNamespaces, supported: ALL}
  relatedImages:
  - {name: operand, image: example.com/operand:1}
  webhookdefinitions:
  - type: ValidatingAdmissionWebhook
    generateName: vdolphin.example.com
    deploymentName: dolphin
    containerPort: 443
    targetPort: 9443
    admissionReviewVersions: [v1]
    sideEffects: None
    webhookPath: /validate
    rules:
    - {apiGroups: [sea.example.com], apiVersions: [v1], operations: [CREATE], resources: [dolphins]}
  - type: ConversionWebhook
    generateName: cdolphin.example.com
    deploymentName: dolphin
    admissionReviewVersions: [v1]
    sideEffects: None
    webhookPath: /convert
    conversionCRDs: [dolphins.sea.example.com]
  install:
    strategy: deployment
    spec:
      permissions:
      - serviceAccountName: dolphin
        rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
      clusterPermissions:
      - serviceAccountName: dolphin
        rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
      deployments:
      - name: dolphin
        label: {app: dolphin}
        spec:
          selector: {matchLabels: {app: dolphin}}
          template:
            metadata: {labels: {app: dolphin}, annotations: {capabilities: the pod's, own: kept, images.v1.fluke: "example.com/fluke:3"}}
            spec:
              serviceAccountName: dolphin
              containers:
              - name: manager
                image: example.com/dolphin:1.2.3
                env: [{name: RELATED_IMAGE_FIN, value: "example.com/fin:2"}]
`

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: dolphins.sea.example.com}
spec:
  group: sea.example.com
  scope: Cluster
  names: {kind: Dolphin, plural: dolphins}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
status: {conditions: []}
`

func files(modes ...string) map[string][]byte {
	text := csv
	for _, mode := range []string{"OWN", "SINGLE", "MULTI", "ALL"} {
		text = strings.ReplaceAll(text, mode+"}", fmt.Sprint(slices.Contains(modes, mode))+"}")
	}
	return map[string][]byte{
		"manifests/csv.yaml":     []byte(text),
		"manifests/crd.yaml":     []byte(definition),
		"manifests/service.yaml": []byte("apiVersion: v1\nkind: Service\nmetadata: {name: metrics, namespace: elsewhere}\nspec: {ports: [{port: 1}]}\n"),
		"manifests/link.yaml":    []byte("apiVersion: console.openshift.io/v1\nkind: ConsoleCLIDownload\nmetadata: {name: cli}\n"),
		"manifests/dolphin.yaml": []byte("apiVersion: sea.example.com/v1\nkind: Dolphin\nmetadata: {name: flipper, namespace: x}\n"),
	}
}

func mustParse(t *testing.T, files map[string][]byte) *olm.Bundle {
	t.Helper()
	bundle, err := olm.Parse(files)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func mustRender(t *testing.T, bundle *olm.Bundle, options olm.Options) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := bundle.Objects(options)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*unstructured.Unstructured{}
	for _, each := range objects {
		found[object.Of(each).String()] = each
	}
	return found
}

func names(objects map[string]*unstructured.Unstructured) []string {
	return slices.Sorted(maps.Keys(objects))
}

func kinds(objects map[string]*unstructured.Unstructured) []string {
	var found []string
	for _, each := range objects {
		found = append(found, strings.Trim(each.GetKind()+" "+each.GetNamespace()+"/"+each.GetName(), " /"))
	}
	slices.Sort(found)
	return found
}

func TestObjectsOfAnOperatorOfAllNamespaces(t *testing.T) {
	bundle := mustParse(t, files("ALL", "OWN"))
	objects := mustRender(t, bundle, olm.Options{Namespace: "sea"})
	want := []string{
		"Certificate sea/dolphin-service-cert",
		"ClusterRole /dolphin-sea-dolphin", "ClusterRoleBinding /dolphin-sea-dolphin",
		"ConsoleCLIDownload /cli", "CustomResourceDefinition /dolphins.sea.example.com", "Deployment sea/dolphin", "Dolphin /flipper",
		"Issuer sea/dolphin-service",
		"Service sea/dolphin-service", "Service sea/metrics", "ServiceAccount sea/dolphin",
		"ValidatingWebhookConfiguration /dolphin-sea-vdolphin.example.com",
	}
	if diff := cmp.Diff(want, kinds(objects)); diff != "" {
		t.Fatal(diff)
	}
	for _, each := range objects {
		if ports, found, _ := unstructured.NestedSlice(each.Object, "spec", "ports"); found && each.GetName() == "metrics" {
			if port := ports[0].(map[string]any)["port"]; port != int64(1) {
				t.Errorf("a port is %T", port)
			}
		}
	}
	text := dump(t, objects)
	for _, part := range []string{
		`"olm.targetNamespaces":""`, `{"name":"OPERATOR_CONDITION_NAME","value":"dolphin.v1.2.3"}`,
		`"mountPath":"/tmp/k8s-webhook-server/serving-certs"`, `"secretName":"dolphin-service-cert"`,
		`"cert-manager.io/inject-ca-from":"sea/dolphin-service-cert"`, `"targetPort":9443`,
		`"conversionReviewVersions":["v1"]`, `"capabilities":"Basic Install"`, `"own":"kept"`, `"resources":["configmaps"]`, `"resources":["namespaces"]`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("missing %s in\n%s", part, text)
		}
	}
	if strings.Contains(text, "alm-examples") || strings.Contains(text, `"status"`) {
		t.Error("what only OLM reads is there")
	}
	if diff := cmp.Diff([]string{"example.com/dolphin:1.2.3", "example.com/fin:2", "example.com/fluke:3", "example.com/operand:1"}, bundle.Images()); diff != "" {
		t.Error(diff)
	}
}

// TestLongNamesOfRoles: those of the cluster carry the namespace however long they
// are, since a chart puts the release's there.
func TestLongNamesOfRoles(t *testing.T) {
	made := files("ALL")
	long := strings.Repeat("long.", 12) + "dolphin"
	made["manifests/csv.yaml"] = []byte(strings.ReplaceAll(string(made["manifests/csv.yaml"]), "serviceAccountName: dolphin", "serviceAccountName: "+long))
	if found := kinds(mustRender(t, mustParse(t, made), olm.Options{Namespace: "sea"})); !slices.Contains(found, "ClusterRole /dolphin-sea-"+long) {
		t.Error(found)
	}
}

func TestRolesWhereTheOperatorWatches(t *testing.T) {
	objects := mustRender(t, mustParse(t, files("MULTI")), olm.Options{Namespace: "sea", Watch: []string{"b", "a"}})
	for _, each := range []string{"Role sea/dolphin-dolphin", "Role a/dolphin-dolphin", "RoleBinding b/dolphin-dolphin"} {
		if !slices.Contains(kinds(objects), each) {
			t.Errorf("no %s in %v", each, kinds(objects))
		}
	}
	text := dump(t, objects)
	if !strings.Contains(text, `"olm.targetNamespaces":"a,b"`) || !strings.Contains(text, `"values":["a","b"]`) {
		t.Error(text)
	}
}

func TestGivenCertificates(t *testing.T) {
	bundle := mustParse(t, files("ALL"))
	if diff := cmp.Diff([]string{"dolphin-service"}, bundle.WebhookServices()); diff != "" {
		t.Fatal(diff)
	}
	given := olm.Certificates{Given: map[string]olm.Certificate{"dolphin-service": {CA: []byte("ca"), Cert: []byte("cert"), Key: []byte("key")}}}
	text := dump(t, mustRender(t, bundle, olm.Options{Namespace: "sea", Certificates: given}))
	if strings.Contains(text, "cert-manager.io") || strings.Count(text, `"caBundle":"Y2E="`) != 2 || !strings.Contains(text, `"tls.key":"a2V5"`) {
		t.Error(text)
	}
}

func TestSentences(t *testing.T) {
	change := func(how func(map[string][]byte)) map[string][]byte {
		made := files("ALL")
		how(made)
		return made
	}
	for name, test := range map[string]struct {
		files   map[string][]byte
		options olm.Options
		want    string
	}{
		"no CSV":   {files: change(func(f map[string][]byte) { delete(f, "manifests/csv.yaml") }), want: "there is no ClusterServiceVersion in manifests/"},
		"two CSVs": {files: change(func(f map[string][]byte) { f["manifests/z.yaml"] = f["manifests/csv.yaml"] }), want: "manifests/z.yaml has a second ClusterServiceVersion"},
		"broken":   {files: change(func(f map[string][]byte) { f["manifests/b.yaml"] = []byte("a: [") }), want: "manifests/b.yaml can't be read"},
		"no kind":  {files: change(func(f map[string][]byte) { f["manifests/b.yaml"] = []byte("a: b") }), want: "manifests/b.yaml has an object without apiVersion or kind"},
		"climbs": {files: change(func(f map[string][]byte) {
			f["metadata/annotations.yaml"] = []byte("annotations: {operators.operatorframework.io.bundle.manifests.v1: ../}")
		}), want: "which isn't in the bundle"},
		"format": {files: change(func(f map[string][]byte) {
			f["metadata/annotations.yaml"] = []byte("annotations: {operators.operatorframework.io.bundle.mediatype.v1: plain+v0}")
		}), want: "only registry+v1 can be read"},
		"own":       {files: files("ALL"), options: olm.Options{Namespace: "sea", Watch: []string{"sea"}}, want: "dolphin.v1.2.3 doesn't support OwnNamespace; it supports AllNamespaces (--watch-namespace '*')"},
		"single":    {files: files("OWN"), options: olm.Options{Namespace: "sea", Watch: []string{"a"}}, want: "doesn't support SingleNamespace; it supports OwnNamespace"},
		"all+one":   {files: files("ALL"), options: olm.Options{Namespace: "sea", Watch: []string{"", "a"}}, want: "name one or the other"},
		"none":      {files: files("MULTI"), options: olm.Options{Namespace: "sea"}, want: "it supports MultiNamespace"},
		"namespace": {files: files("ALL"), options: olm.Options{Namespace: "Sea"}, want: `"Sea" isn't a name for a namespace`},
	} {
		t.Run(name, func(t *testing.T) {
			bundle, err := olm.Parse(test.files)
			if err == nil {
				_, err = bundle.Objects(test.options)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
		})
	}
}

func TestExclude(t *testing.T) {
	objects, err := mustParse(t, files("ALL")).Objects(olm.Options{Namespace: "sea"})
	if err != nil {
		t.Fatal(err)
	}
	exclusion, err := olm.ParseExclusion(`.kind == "ConsoleCLIDownload"`)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := olm.Exclude(t.Context(), objects, []olm.Exclusion{exclusion})
	if err != nil || len(kept) != len(objects)-1 {
		t.Errorf("%d of %d kept, %v", len(kept), len(objects), err)
	}
	for text, want := range map[string]string{".kind": "must give true or false", "error": "fails for", "def f: f; f": "fails for"} {
		exclusion, err := olm.ParseExclusion(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := olm.Exclude(t.Context(), objects[:1], []olm.Exclusion{exclusion}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if _, err := olm.ParseExclusion(".kind =="); err == nil || !strings.Contains(err.Error(), "isn't a jq expression") {
		t.Errorf("got %v", err)
	}
}

// TestPublishedBundles: those of three real operators, where they are there.
func TestPublishedBundles(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "bundles")
	if _, err := os.Stat(root); err != nil {
		t.Skip("the published bundles aren't beside this checkout")
	}
	for name, want := range map[string]struct{ version, namespace, targets string }{
		"cert-manager-operator": {"1.20.0", "cert-manager-operator", ""},
		"sail-operator":         {"1.31.0", "istio-system", ""},
		"lws-operator":          {"1.0.0", "openshift-lws-operator", "openshift-lws-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := mustParse(t, directory(t, filepath.Join(root, name)))
			if bundle.Version() != want.version {
				t.Errorf("version %s", bundle.Version())
			}
			objects := mustRender(t, bundle, olm.Options{Namespace: want.namespace})
			if len(objects) < len(bundle.Definitions)+5 {
				t.Errorf("only %v", names(objects))
			}
			if !strings.Contains(dump(t, objects), `"olm.targetNamespaces":"`+want.targets+`"`) {
				t.Error("the operator isn't told what it watches")
			}
			again := mustRender(t, mustParse(t, directory(t, filepath.Join(root, name))), olm.Options{Namespace: want.namespace})
			if dump(t, objects) != dump(t, again) {
				t.Error("another text the second time")
			}
		})
	}
}

func directory(t *testing.T, root string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, pattern := range []string{"manifests/*", "metadata/*"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(root, path)
			found[filepath.ToSlash(name)] = text
		}
	}
	return found
}

func dump(t *testing.T, objects map[string]*unstructured.Unstructured) string {
	t.Helper()
	var text strings.Builder
	for _, name := range names(objects) {
		line, err := objects[name].MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		text.Write(line)
	}
	return text.String()
}

func FuzzParse(f *testing.F) {
	for _, text := range files("ALL", "OWN", "MULTI") {
		f.Add(text, []byte("annotations: {}"))
	}
	f.Add([]byte(csv), []byte("annotations: {operators.operatorframework.io.bundle.manifests.v1: ./x/..}"))
	f.Fuzz(func(t *testing.T, manifest, annotations []byte) {
		bundle, err := olm.Parse(map[string][]byte{
			"manifests/a.yaml": []byte(strings.ReplaceAll(csv, "ALL}", "true}")), "manifests/b.yaml": manifest, "metadata/annotations.yaml": annotations,
		})
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		objects, err := bundle.Objects(olm.Options{Namespace: "sea"})
		if err != nil {
			return
		}
		for _, each := range objects {
			if _, err := yaml.Marshal(each.Object); err != nil {
				t.Error(err)
			}
		}
	})
}
