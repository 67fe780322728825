package llm

import (
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
		modelHead  = "apiVersion: llm.example.com/v1alpha1\nkind: LLMModel\nmetadata: {name: m}\n"
		deployHead = "apiVersion: llm.example.com/v1alpha1\nkind: LLMDeployment\nmetadata: {name: d}\n"
	)
	for name, test := range map[string]struct{ manifest, want string }{
		"port too high":      {deployHead + "spec: {modelRef: m, replicas: 1, port: 70000}", "port must be a whole number from 1 to 65535"},
		"port zero":          {deployHead + "spec: {modelRef: m, replicas: 1, port: 0}", "port must be a whole number from 1 to 65535"},
		"negative replicas":  {deployHead + "spec: {modelRef: m, replicas: -1}", "replicas must be a whole number from 0 to 10000; write 0 to stop serving"},
		"no replicas":        {deployHead + "spec: {modelRef: m}", "spec.replicas: Required value"},
		"no modelRef":        {deployHead + "spec: {replicas: 1}", "spec.modelRef: Required value"},
		"empty modelRef":     {deployHead + "spec: {modelRef: '', replicas: 1}", "write the name of an LLMModel in this namespace"},
		"no spec":            {deployHead, "spec: Required value"},
		"unknown field":      {deployHead + "spec: {modelRef: m, replicas: 1, ports: 80}", `unknown field "spec.ports"`},
		"bad name":           {strings.Replace(deployHead, "name: d", "name: 7b.chat", 1) + "spec: {modelRef: m, replicas: 1}", "the name becomes a Service's name"},
		"long grace":         {deployHead + "spec: {modelRef: m, replicas: 1, terminationGracePeriodSeconds: 9999}", "between 1 and 3600"},
		"empty image":        {modelHead + "spec: {modelName: x, image: ''}", "image must not be empty; write a container image such as"},
		"image with scheme":  {modelHead + "spec: {modelName: x, image: 'https://r/x:v1'}", "without a scheme like https://"},
		"image with space":   {modelHead + "spec: {modelName: x, image: 'r/x: v1'}", "without spaces"},
		"no image":           {modelHead + "spec: {modelName: x}", "spec.image: Required value"},
		"empty model name":   {modelHead + "spec: {modelName: '', image: x}", "modelName must not be empty"},
		"bad cpu":            {modelHead + "spec: {modelName: x, image: x, resources: {cpu: two}}", "cpu must be a positive quantity of cores; write 2, or 500m for half a core"},
		"negative memory":    {modelHead + "spec: {modelName: x, image: x, resources: {memory: -1Gi}}", "memory must be a positive quantity of bytes; write 4Gi"},
		"negative gpu":       {modelHead + "spec: {modelName: x, image: x, resources: {gpu: -1}}", "gpu must be a whole number of GPUs"},
		"reserved variable":  {modelHead + "spec: {modelName: x, image: x, environmentVariables: {PORT: '1'}}", "write spec.port in the LLMDeployment"},
		"bad variable":       {modelHead + "spec: {modelName: x, image: x, environmentVariables: {'1X': '1'}}", "must start with a letter or _"},
		"unknown engine":     {modelHead + "spec: {modelName: x, image: x, engine: TGI}", `supported values: "OpenAI", "vLLM", "Ollama", "Custom"`},
		"two sorts of claim": {modelHead + "spec: {modelName: x, image: x, storage: {claimName: a, size: 1Gi}}", "storage needs either claimName"},
		"no sort of claim":   {modelHead + "spec: {modelName: x, image: x, storage: {}}", "storage needs either claimName"},
		"mounted at root":    {modelHead + "spec: {modelName: x, image: x, storage: {claimName: a, mountPath: /}}", "mountPath must be an absolute directory other than /"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(test.manifest), object); err != nil {
				t.Fatal(err)
			}
			object.SetNamespace("default")
			// As kubectl sends it.
			err := kube.Create(t.Context(), object, client.FieldValidation("Strict"), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant an error that contains %q", err, test.want)
			}
		})
	}
}

// TestFillsInDefaults shows the defaults of the specification.
func TestFillsInDefaults(t *testing.T) {
	object := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`
apiVersion: llm.example.com/v1alpha1
kind: LLMDeployment
metadata: {name: d, namespace: default}
spec: {modelRef: m, replicas: 0}
`), object)
	if err != nil {
		t.Fatal(err)
	}
	if err := kube.Create(t.Context(), object, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if port, _, _ := unstructured.NestedInt64(object.Object, "spec", "port"); port != 8080 {
		t.Errorf("port %d, want 8080", port)
	}
}
