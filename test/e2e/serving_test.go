package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/cluster"
)

// TestServing serves models in a local cluster with two simulated GPUs, and
// breaks them in every way that a status must name.
func TestServing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a local cluster with real nodes needs root")
	}
	if testing.Short() {
		t.Skip("a local cluster takes a minute")
	}
	t.Setenv("SLIPWAY_STATE", t.TempDir())
	c := &localCluster{t: t, binary: buildProgram(t, "./cmd/slipway", "slipway"), name: fmt.Sprintf("serving-%d", os.Getpid())}
	t.Cleanup(func() { _ = cluster.Down(context.Background(), c.name) })
	c.slipway("up", "--name", c.name, "--gpus", "2")
	t.Setenv("KUBECONFIG", c.slipway("kubeconfig", "--name", c.name))
	c.load(probeImage)
	for _, fault := range faults {
		c.apply(fault.manifests())
	}
	t.Run("specification", c.with(testSpecification))
	for _, fault := range faults {
		t.Run(fault.name, c.with(func(c *localCluster) { testFault(c, fault) }))
	}
}

// specified are the manifests of the specification, as printed there.
const specified = `apiVersion: llm.example.com/v1alpha1
kind: LLMModel
metadata:
  name: gpt-small
spec:
  modelName: "GPT-Small"
  image: "your-registry/gpt-small:v1"
  resources:
    cpu: "2"
    memory: "4Gi"
---
apiVersion: llm.example.com/v1alpha1
kind: LLMDeployment
metadata:
  name: chat-service
spec:
  modelRef: "gpt-small"
  replicas: 2
  port: 8080
`

// testSpecification applies the two manifests of the specification from files of
// the names that it gives them, runs its commands, and talks to the model.
func testSpecification(c *localCluster) {
	model, deployment, _ := strings.Cut(specified, "---\n")
	c.sameAsPrinted(model, deployment)
	dir := c.t.TempDir()
	for name, text := range map[string]string{"model.yaml": model, "deployment.yaml": deployment} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	c.kubectl("apply", "-f", filepath.Join(dir, "model.yaml"))
	c.kubectl("apply", "-f", filepath.Join(dir, "deployment.yaml"))
	c.kubectl("wait", "--for=condition=Ready", "llmdeployment/chat-service", "--timeout=120s")
	for _, want := range []struct{ kind, text string }{
		{"llmmodels", `gpt-small +GPT-Small +your-registry/gpt-small:v1 +Ready +1 `},
		{"llmdeployments", `chat-service +gpt-small +2 +2 +Ready +Serving +http://chat-service.default.svc:8080 `},
		{"deployments", `chat-service +2/2 `},
		{"services", `chat-service +ClusterIP .* 8080/TCP`},
	} {
		if out := c.kubectl("get", want.kind); !regexp.MustCompile(want.text).MatchString(out) {
			c.t.Errorf("kubectl get %s prints\n%s\nwant a line like %q", want.kind, out, want.text)
		}
	}
	answer := c.run(`{"model": "GPT-Small", "prompt": "Hello", "max_tokens": 5}`, "kubectl", "--name", c.name, "--",
		"create", "--raw", "/api/v1/namespaces/default/services/chat-service:http/proxy/v1/completions", "-f", "-")
	if !strings.Contains(answer, `"completion_tokens":5`) {
		c.t.Errorf("the Service answers %s", answer)
	}
	if out := c.slipway("chat", "chat-service", "--message", "Hello"); !strings.Contains(out, "Slipway's simulator") {
		c.t.Errorf("chat prints %q", out)
	}
	c.kubectl("delete", "llmdeployment/chat-service", "llmmodel/gpt-small", "--timeout=60s")
}

// sameAsPrinted holds our manifests against the specification's text, where it
// is there.
func (c *localCluster) sameAsPrinted(manifests ...string) {
	c.t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "..", "shared", "spec", "llm-operator.md"))
	if err != nil {
		c.t.Logf("not compared with the specification, which is not here: %v", err)
		return
	}
	for _, manifest := range manifests {
		if !strings.Contains(strings.ReplaceAll(string(page), "\r", ""), manifest) {
			c.t.Errorf("the specification doesn't print\n%s", manifest)
		}
	}
}

// fault is a deployment that can't serve, in a namespace of its own.
type fault struct {
	name string
	// model and deployment are the fields beside the required ones; extra are
	// further objects.
	model, deployment, extra string
	reason                   string
	says                     []string
}

var faults = []fault{
	{
		name: "wrong-image", model: "image: registry.example.com/team/nothing:v1",
		says: []string{"registry.example.com/team/nothing:v1", "spec.image of LLMModel broken"},
	},
	{
		name: "too-few-gpus", model: "image: your-registry/gpt-small:v1\n  resources: {gpu: 4}",
		reason: "InsufficientGPU",
		says:   []string{"0/1 nodes have 4 nvidia.com/gpu (largest node: 2); lower spec.resources.gpu of LLMModel broken or add larger nodes"},
	},
	{
		name: "crash-loop", model: "image: your-registry/gpt-small:v1\n  args: [--no-such-flag]",
		reason: "CrashLoop",
		says:   []string{"exit code 1", "no-such-flag"},
	},
	{
		name: "out-of-memory", model: "image: " + probeImage + "\n  engine: Custom\n  args: [eat]\n  resources: {memory: 64Mi}",
		reason: "OutOfMemory",
		says:   []string{"64Mi", "raise spec.resources.memory of LLMModel broken"},
	},
	{
		name: "failing-probe", model: "image: your-registry/gpt-small:v1\n  args: [--port, \"9999\"]",
		reason: "NotAnswering",
		says:   []string{":8080/v1/models", "connection refused", "spec.port"},
	},
	{
		name: "missing-storage-class", model: "image: your-registry/gpt-small:v1\n  storage: {size: 1Gi, storageClassName: nowhere}",
		reason: "MissingStorageClass",
		says:   []string{"nowhere", "spec.storage of LLMModel broken"},
	},
	{
		name: "missing-model", deployment: "modelRef: nobody",
		reason: "ModelNotFound",
		says:   []string{"LLMModel nobody doesn't exist in namespace missing-model; create it, or change spec.modelRef"},
	},
	{
		name: "full-quota", model: "image: your-registry/gpt-small:v1",
		extra:  "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none, namespace: full-quota}\nspec: {hard: {pods: \"0\"}}\n---\n",
		reason: "QuotaExceeded",
		says:   []string{"quota none", "pods"},
	},
}

func (f fault) manifests() string {
	model, ref := f.model, "modelRef: broken"
	if model == "" {
		model = "image: your-registry/gpt-small:v1"
	}
	if f.deployment != "" {
		ref = f.deployment
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
%[2]sapiVersion: llm.example.com/v1alpha1
kind: LLMModel
metadata: {name: broken, namespace: %[1]s}
spec:
  modelName: broken
  %[3]s
---
apiVersion: llm.example.com/v1alpha1
kind: LLMDeployment
metadata: {name: broken, namespace: %[1]s}
spec:
  replicas: 1
  %[4]s
`, f.name, f.extra, model, ref)
}

// testFault waits until the Ready condition names the fault, and looks for the
// same sentence where a user would.
func testFault(c *localCluster, fault fault) {
	if fault.reason != "" {
		c.kubectl("wait", "-n", fault.name, "llmdeployment/broken", "--timeout=120s",
			`--for=jsonpath={.status.conditions[?(@.type=="Ready")].reason}=`+fault.reason)
	} else {
		c.kubectl("wait", "-n", fault.name, "llmdeployment/broken", "--timeout=120s", "--for=condition=Stalled")
	}
	message := c.kubectl("get", "-n", fault.name, "llmdeployment/broken",
		"-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`)
	c.t.Log(message)
	for _, want := range fault.says {
		if !strings.Contains(message, want) {
			c.t.Errorf("the message is %q, without %q", message, want)
		}
	}
	for what, out := range map[string]string{
		"kubectl get -o wide": c.kubectl("get", "-n", fault.name, "llmdeployment/broken", "-o", "wide"),
		"kubectl describe":    c.kubectl("describe", "-n", fault.name, "llmdeployment/broken"),
		"slipway status":      c.slipway("status", "-n", fault.name, "LLMDeployment/broken"),
	} {
		if !strings.Contains(join(out), join(message)) {
			c.t.Errorf("%s doesn't say %q:\n%s", what, message, out)
		}
	}
}

// join undoes the folding of lines.
func join(text string) string { return strings.Join(strings.Fields(text), " ") }
