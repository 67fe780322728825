package llmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestRefusesBadInput shows that the API server itself refuses what can't work,
// in words that say what to write instead.
func TestRefusesBadInput(t *testing.T) {
	const (
		llmd    = "apiVersion: components.platform.opendatahub.io/v1alpha1\nkind: Llmd\nmetadata: {name: default-llm-d}\n"
		cluster = "apiVersion: datasciencecluster.opendatahub.io/v2\nkind: DataScienceCluster\nmetadata: {name: default-dsc}\n"
	)
	for name, test := range map[string]struct{ manifest, want string }{
		"another name":        {strings.Replace(llmd, "default-llm-d", "mine", 1), "a cluster has one Llmd: write metadata.name default-llm-d"},
		"bad namespace":       {llmd + "spec: {namespace: LLM}", "namespace must be a namespace's name"},
		"bad version":         {llmd + "spec: {infra: {version: latest}}", "version must be a chart's version such as 0.2.11, or a constraint"},
		"version a number":    {llmd + "spec: {infra: {version: 1.3}}", "must be of type string"},
		"scheme":              {llmd + "spec: {infra: {repository: {url: 'ftp://x/y'}}}", "url must be https://"},
		"password in URL":     {llmd + "spec: {infra: {repository: {url: 'https://me:secret@x/y'}}}", "write them to a Secret and name it in repository.secretRef"},
		"login for nothing":   {llmd + "spec: {infra: {repository: {secretRef: {name: x}}}}", "secretRef needs repository.url beside it"},
		"address as chart":    {llmd + "spec: {infra: {chart: 'oci://x/y'}}", "its address goes to repository.url"},
		"bad digest":          {llmd + "spec: {infra: {digest: abc}}", "digest must be sha256: and 64 hexadecimal digits"},
		"bad release":         {llmd + "spec: {infra: {releaseName: A_b}}", "releaseName must be lower-case letters"},
		"one name for two":    {llmd + "spec: {infra: {releaseName: x}, modelService: {releaseName: x}}", "infra and modelService need different release names"},
		"another's default":   {llmd + "spec: {modelService: {releaseName: llmd-gateway-api}}", "gatewayAPI and modelService need different release names"},
		"values no map":       {llmd + "spec: {infra: {values: [1]}}", "must be of type object"},
		"timeout in words":    {llmd + "spec: {infra: {timeout: soon}}", "timeout must be a time from 1s to 30m"},
		"timeout too long":    {llmd + "spec: {infra: {timeout: 2h}}", "timeout must be a time from 1s to 30m"},
		"unknown strategy":    {llmd + "spec: {infra: {remediation: {strategy: Pray}}}", `supported values: "Rollback", "Retry", "Stop"`},
		"too many retries":    {llmd + "spec: {infra: {remediation: {retries: 99}}}", "retries must be a whole number from 0 to 5"},
		"unknown drift mode":  {llmd + "spec: {infra: {drift: {mode: Loud}}}", `supported values: "Correct", "Report", "Ignore"`},
		"no pointer":          {llmd + "spec: {infra: {drift: {ignore: [{paths: [spec.replicas]}]}}}", "paths must be JSON pointers, such as /spec/replicas"},
		"values from a Pod":   {llmd + "spec: {infra: {valuesFrom: [{kind: Pod, name: x}]}}", `supported values: "ConfigMap", "Secret"`},
		"values from nothing": {llmd + "spec: {infra: {valuesFrom: [{kind: Secret, name: ''}]}}", "name must be a ConfigMap's or a Secret's name"},
		"bad target path":     {llmd + "spec: {infra: {valuesFrom: [{kind: Secret, name: x, targetPath: .a}]}}", "targetPath must be a path such as auth.token"},
		"misspelt part":       {llmd + "spec: {modelservice: {}}", `unknown field "spec.modelservice"`},
		"misspelt in cluster": {cluster + "spec: {components: {llmd: {modelservice: {}}}}", `unknown field "spec.components.llmd.modelservice"`},
		"unknown state":       {cluster + "spec: {components: {llmd: {managementState: Unmanaged}}}", `supported values: "Managed", "Removed"`},
		"bad field in it":     {cluster + "spec: {components: {llmd: {infra: {version: latest}}}}", "version must be a chart's version"},
	} {
		t.Run(name, func(t *testing.T) {
			object := parse(t, test.manifest)
			// As kubectl sends it.
			err := kube.Create(t.Context(), object, client.FieldValidation("Strict"), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant an error that contains %q", err, test.want)
			}
		})
	}
}

func TestFillsInDefaults(t *testing.T) {
	object := parse(t, "apiVersion: components.platform.opendatahub.io/v1alpha1\nkind: Llmd\nmetadata: {name: default-llm-d}\nspec: {infra: {}}\n")
	if err := kube.Create(t.Context(), object, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"namespace": "llm-d", "infra.enabled": true, "infra.timeout": "5m", "infra.crds": "CreateReplace",
	} {
		got, _, _ := unstructured.NestedFieldNoCopy(object.Object, append([]string{"spec"}, strings.Split(path, ".")...)...)
		if got != want {
			t.Errorf("spec.%s is %v, want %v", path, got, want)
		}
	}
}

// TestKeepsWhatItDoesNotKnow: values of any form, and components of any name.
func TestKeepsWhatItDoesNotKnow(t *testing.T) {
	for manifest, path := range map[string]string{
		"apiVersion: components.platform.opendatahub.io/v1alpha1\nkind: Llmd\nmetadata: {name: default-llm-d}\n" +
			"spec: {infra: {values: {a: {b: [1, {c: null}]}}}}": "spec.infra.values.a",
		"apiVersion: components.platform.opendatahub.io/v1alpha1\nkind: Llmd\nmetadata: {name: default-llm-d}\n" +
			"spec: {infra: {values: {replicas: '2', name: text}}}": "spec.infra.values.replicas",
		"apiVersion: datasciencecluster.opendatahub.io/v2\nkind: DataScienceCluster\nmetadata: {name: default-dsc}\n" +
			"spec: {components: {dashboard: {managementState: Managed}}}": "spec.components.dashboard.managementState",
	} {
		object := parse(t, manifest)
		if err := kube.Create(t.Context(), object, client.FieldValidation("Strict"), client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		if _, is, _ := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...); !is {
			t.Errorf("%s is gone from %v", path, object.Object)
		}
	}
}

// TestSamplesAreAccepted: every sample of the two kinds, as it is.
func TestSamplesAreAccepted(t *testing.T) {
	for _, pattern := range []string{"components_*.yaml", "datasciencecluster_*.yaml"} {
		files, err := filepath.Glob("../../../config/samples/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no sample %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := kube.Create(t.Context(), parse(t, string(text)), client.FieldValidation("Strict"), client.DryRunAll); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), object); err != nil {
		t.Fatal(err)
	}
	return object
}
