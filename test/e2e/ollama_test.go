package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slipway-dev/slipway/internal/cluster"
	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/image"
	"github.com/slipway-dev/slipway/test/ollama/model"
	"github.com/slipway-dev/slipway/test/ollama/server"
)

// registryImage is the tests' own registry of models, which only the cluster has.
const registryImage = "registry.example/slipway/ollama-registry:latest"

// terminal is what moves a terminal's cursor and hides it.
var terminal = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// registryManifest runs the registry in the cluster.
const registryManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: models}
spec:
  selector: {matchLabels: {app: models}}
  template:
    metadata: {labels: {app: models}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: registry, image: "` + registryImage + `", args: [-listen, ":8080"], readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: models}
spec:
  selector: {app: models}
  ports: [{name: http, port: 80, targetPort: 8080}]
`

// TestOllama runs NvidiaGpuLlms with a real Ollama server, a generated model and
// a registry in the cluster that fails when it is told to.
func TestOllama(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a local cluster with real nodes needs root")
	}
	if testing.Short() {
		t.Skip("a local cluster takes a minute")
	}
	ollama, err := server.Image(t.Context())
	if errors.Is(err, component.ErrNoCompiler) {
		t.Skip("Ollama needs a C compiler: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLIPWAY_STATE", t.TempDir())
	c := &localCluster{t: t, binary: buildProgram(t, "./cmd/slipway", "slipway"), name: fmt.Sprintf("ollama-%d", os.Getpid())}
	small := mountSmall(t)
	t.Cleanup(func() { _ = cluster.Down(context.Background(), c.name) })
	c.slipway("up", "--name", c.name, "--llm-d=false", "--gpus", "2", "--nodes", "2")
	t.Setenv("KUBECONFIG", c.slipway("kubeconfig", "--name", c.name))
	// The second node is to die, with nothing on it that others need.
	c.kubectl("cordon", "node-2")
	for _, deployment := range []string{"coredns -n kube-system", "llm-operator -n llm-system"} {
		c.kubectl(strings.Fields("rollout restart deployment " + deployment)...)
		c.kubectl(strings.Fields("rollout status --timeout=60s deployment " + deployment)...)
	}
	registry, err := image.Build(buildProgram(t, "./test/ollama/registry/program", "registry"), image.Config{Uncompressed: true})
	if err != nil {
		t.Fatal(err)
	}
	c.loadImages(map[string]v1.Image{server.Ref: ollama, registryImage: registry})
	c.apply(registryManifest)
	c.kubectl("wait", "--for=condition=Available", "deployment/models", "--timeout=60s")

	c.kubectl("uncordon", "node-2")

	t.Run("demo", c.with(testOllamaDemo))
	t.Run("service", c.with(testOllamaService))
	t.Run("completes", c.with(testOllamaCompletes))
	t.Run("faults", c.with(testOllamaFaults))
	t.Run("another model", c.with(testOllamaSwap))
	t.Run("a full volume", c.with(testOllamaFull(small)))
	t.Run("the operator dies", c.with(testOllamaOperatorDies))
	t.Run("the operator dies while it waits", c.with(testOllamaOperatorDiesWaiting))
	t.Run("the operator dies while a model loads", c.with(testOllamaOperatorDiesLoading))
	t.Run("another namespace", c.with(testOllamaOtherNamespace))
	t.Run("a runner dies", c.with(testOllamaRunnerDies))
	t.Run("a node dies", c.with(testOllamaNodeDies))
}

func (c *localCluster) loadImages(images map[string]v1.Image) {
	c.t.Helper()
	archive := filepath.Join(c.t.TempDir(), "images.tar")
	if err := image.WriteArchive(archive, images); err != nil {
		c.t.Fatal(err)
	}
	file, err := os.Open(archive)
	if err != nil {
		c.t.Fatal(err)
	}
	defer file.Close()
	if err := cluster.LoadImage(c.t.Context(), c.name, nil, file); err != nil {
		c.t.Fatal(err)
	}
}

// mirrored are fields that make Ollama's own registry be the test's, with little
// memory and CPU, so that several fit on a node.
func (c *localCluster) mirrored() string {
	address := c.kubectl("get", "service", "models", "-o", "jsonpath={.spec.clusterIP}")
	return `insecureRegistry: true, memory: 512Mi, cpuCores: 100m, hostAliases: [{ip: "` + address + `", hostnames: [registry.ollama.ai]}]`
}

func (c *localCluster) installs(name, fields string) {
	c.t.Helper()
	c.apply("apiVersion: infra.example.com/v1\nkind: NvidiaGpuLlm\nmetadata: {name: " + name + "}\nspec: {action: install, " + fields + ", " + c.mirrored() + "}\n")
}

// answers asks a pod's server through OpenAI's API.
func (c *localCluster) answers(pod, named string) string {
	c.t.Helper()
	return c.run(`{"model": "`+named+`", "messages": [{"role": "user", "content": "Hello"}]}`, "kubectl", "--name", c.name, "--",
		"create", "--raw", "/api/v1/namespaces/default/pods/"+pod+":11434/proxy/v1/chat/completions", "-f", "-")
}

// becomes waits for a condition of a NvidiaGpuLlm.
func (c *localCluster) becomes(name, what string) {
	c.t.Helper()
	c.kubectl("wait", "nvidiagpullm/"+name, "--for="+what, "--timeout=90s")
}

// field is what a JSONPath finds in a NvidiaGpuLlm.
func (c *localCluster) field(name, path string) string {
	c.t.Helper()
	return c.kubectl("get", "nvidiagpullm", name, "-o", "jsonpath={"+path+"}")
}

// testOllamaDemo runs the specification's commands on the pod gpu-llm-pod: it
// serves, is executed into, is killed and comes back, is told of by a status, and
// goes.
func testOllamaDemo(c *localCluster) {
	c.installs("tinyllama-demo", `llmName: gpu-llm-pod, model: tinyllama, prompts: ["Hello", "And again"]`)
	c.becomes("tinyllama-demo", "condition=Ready")
	if out := c.kubectl("get", "nvidiagpullms"); !strings.Contains(join(out), "NAME PHASE MODEL GPU ACTION AGE tinyllama-demo Ready tinyllama:latest true install") {
		c.t.Errorf("kubectl get nvidiagpullms prints\n%s", out)
	}
	c.kubectl("get", "gpullm", "tinyllama-demo", "-o", "yaml")
	// Ollama moves the cursor between words, also where nobody looks.
	out := terminal.ReplaceAllString(c.kubectl("exec", "gpu-llm-pod", "--", "ollama", "run", "tinyllama", "Hi"), "")
	if !strings.Contains(out, model.Steady) {
		c.t.Errorf("ollama run in the pod prints %q", out)
	}
	if out := c.field("tinyllama-demo", ".status.answers[*].answer"); strings.Count(out, model.Steady) != 2 {
		c.t.Errorf("the answers in the status are %q", out)
	}
	if out := c.kubectl("get", "configmap", "gpu-llm-pod-answers", "-o", `jsonpath={.data.02-answer}`); !strings.Contains(out, model.Steady) {
		c.t.Errorf("the second answer in the ConfigMap is %q", out)
	}
	if out := c.slipway("chat", "tinyllama-demo", "--message", "Hello"); !strings.Contains(out, model.Steady) {
		c.t.Errorf("slipway chat prints %q", out)
	}
	written := c.kubectl("get", "configmap", "gpu-llm-pod-answers", "-o", "jsonpath={.metadata.resourceVersion}")
	killed := c.kubectl("get", "pod", "gpu-llm-pod", "-o", "jsonpath={.metadata.uid}")
	c.kubectl("delete", "pod", "gpu-llm-pod", "--grace-period=1")
	c.becomes("tinyllama-demo", "condition=Ready=false")
	c.becomes("tinyllama-demo", "condition=Ready")
	if again := c.kubectl("get", "pod", "gpu-llm-pod", "-o", "jsonpath={.metadata.uid}"); again == killed {
		c.t.Error("the pod that was killed is still there")
	}
	c.kubectl("rollout", "restart", "deployment/llm-operator", "-n", "llm-system")
	c.kubectl("rollout", "status", "deployment/llm-operator", "-n", "llm-system", "--timeout=60s")
	c.becomes("tinyllama-demo", "condition=Ready")
	if now := c.kubectl("get", "configmap", "gpu-llm-pod-answers", "-o", "jsonpath={.metadata.resourceVersion}"); now != written {
		c.t.Error("the prompts were run again after a restart")
	}
	c.kubectl("apply", "-f", samplePathOf("infra_v1_nvidiagpullm_status.yaml"))
	c.becomes("check-status", "condition=Ready")
	if out := c.field("check-status", ".status.message"); !strings.Contains(out, "pod gpu-llm-pod serves tinyllama:latest") {
		c.t.Errorf("the status says %q", out)
	}
	c.kubectl("apply", "-f", samplePathOf("infra_v1_nvidiagpullm_uninstall.yaml"))
	c.becomes("cleanup", "condition=Contested")
	c.becomes("tinyllama-demo", "condition=Contested")
	c.kubectl("delete", "nvidiagpullm", "tinyllama-demo", "--timeout=60s")
	c.becomes("cleanup", "condition=Ready")
	c.kubectl("delete", "nvidiagpullm", "cleanup", "check-status", "--timeout=60s")
	c.kubectl("wait", "--for=delete", "pod/gpu-llm-pod", "--timeout=60s")
}

// testOllamaService applies the specification's manifest with a Service and a
// claim as it is printed. Its models are there from an earlier installation of
// the name, so that nothing is fetched.
func testOllamaService(c *localCluster) {
	c.installs("earlier", `llmName: llama2-pod, model: "llama2:7b", persistentStorage: true, storageSize: 20Gi`)
	c.becomes("earlier", "condition=Ready")
	c.kubectl("delete", "nvidiagpullm", "earlier", "--timeout=60s")
	c.kubectl("wait", "--for=delete", "pod/llama2-pod", "--timeout=60s")
	c.kubectl("get", "pvc", "llama2-pod-storage")
	c.forgetRequests()
	c.kubectl("apply", "-f", samplePathOf("infra_v1_nvidiagpullm_service.yaml"))
	c.becomes("llama2-service", "condition=Ready")
	if out := c.requests(); strings.Contains(out, "llama2") {
		c.t.Errorf("a second start fetched from the registry: %s", out)
	}
	c.kubectl("wait", "endpoints/llama2-pod-service", "--for=jsonpath={.subsets[0].addresses[0].ip}", "--timeout=30s")
	answer := c.run(`{"model": "llama2:7b", "messages": [{"role": "user", "content": "Hello"}]}`, "kubectl", "--name", c.name, "--",
		"create", "--raw", "/api/v1/namespaces/default/services/llama2-pod-service:http/proxy/v1/chat/completions", "-f", "-")
	if !strings.Contains(answer, model.Changed) {
		c.t.Errorf("the Service answers %s", answer)
	}
	c.kubectl("delete", "nvidiagpullm", "llama2-service", "--timeout=60s")
	c.kubectl("wait", "--for=delete", "pod/llama2-pod", "--timeout=60s")
}

// testOllamaCompletes runs prompts, one of which never ends, and lets the pod
// complete: it has succeeded, and nothing starts it again.
func testOllamaCompletes(c *localCluster) {
	c.installs("batch", `llmName: batch, gpuCount: 0, model: tinyllama, keepAlive: false, promptTimeoutSeconds: 3, prompts: ["Hello", "`+model.Loop+`", "Bye"]`)
	c.becomes("batch", "jsonpath={.status.phase}=Ready")
	c.kubectl("wait", "pod/batch", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
	if out := c.field("batch", ".status.message"); !strings.Contains(out, "all 3 prompts have run; the answers are in ConfigMap batch-answers") {
		c.t.Errorf("the message is %q", out)
	}
	if out := c.field("batch", ".status.answers[1].incomplete"); !strings.Contains(out, "cut after ") {
		c.t.Errorf("the endless answer is marked %q", out)
	}
	if out := c.field("batch", ".status.answers[2].answer"); !strings.Contains(out, model.Steady) {
		c.t.Errorf("the prompt after the endless one got %q", out)
	}
	c.kubectl("delete", "pod", "batch")
	c.kubectl("patch", "nvidiagpullm", "batch", "--type=merge", "-p", `{"spec":{"memory":"600Mi"}}`)
	c.becomes("batch", "jsonpath={.status.observedGeneration}=2")
	c.becomes("batch", "condition=Ready")
	if out := c.kubectl("get", "pods", "--field-selector=metadata.name=batch", "-o", "name"); out != "" {
		c.t.Error("a completed pod that was deleted was started again")
	}
	c.kubectl("delete", "nvidiagpullm", "batch", "--timeout=60s")
}

// testOllamaFaults: a registry that fails and recovers, one that breaks off in the
// middle, and a model that doesn't exist.
func testOllamaFaults(c *localCluster) {
	c.faults(`{"fail": 4}`)
	c.installs("failing", `llmName: failing, gpuCount: 0, model: phi`)
	c.becomes("failing", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}=PullFailed`)
	c.becomes("failing", "condition=Ready")
	c.kubectl("delete", "nvidiagpullm", "failing", "--timeout=60s")

	c.faults(`{"break": 2, "breakAfter": 100000}`)
	c.forgetRequests()
	c.installs("broken", `llmName: broken, gpuCount: 0, model: mistral`)
	c.becomes("broken", "condition=Ready")
	if out := c.requests(); !strings.Contains(out, `"range":"bytes=`) {
		c.t.Errorf("no part of the model was asked for after the break: %s", out)
	}
	c.kubectl("delete", "nvidiagpullm", "broken", "--timeout=60s")

	c.faults(`{}`)
	c.installs("absent", `llmName: absent, gpuCount: 0, model: no-such-model`)
	c.becomes("absent", "jsonpath={.status.phase}=Failed")
	if out := c.field("absent", ".status.message"); !strings.Contains(out, "model no-such-model:latest doesn't exist in its registry; correct spec.model") {
		c.t.Errorf("the message is %q", out)
	}
	c.kubectl("patch", "nvidiagpullm", "absent", "--type=merge", "-p", `{"spec":{"model":"codellama"}}`)
	c.becomes("absent", "condition=Ready")
	c.kubectl("delete", "nvidiagpullm", "absent", "--timeout=60s")
}

// testOllamaSwap changes the model: the old one answers until the new one does,
// in the same pod.
func testOllamaSwap(c *localCluster) {
	c.installs("swap", `llmName: swap, gpuCount: 0, model: tinyllama`)
	c.becomes("swap", "condition=Ready")
	uid := c.kubectl("get", "pod", "swap", "-o", "jsonpath={.metadata.uid}")
	c.faults(`{"bytesPerSecond": 100000}`)
	c.kubectl("patch", "nvidiagpullm", "swap", "--type=merge", "-p", `{"spec":{"model":"mistral"}}`)
	c.becomes("swap", "condition=Pulling")
	if out := c.answers("swap", "tinyllama"); !strings.Contains(out, model.Steady) {
		c.t.Errorf("while the new model is fetched, the old one answers %s", out)
	}
	c.becomes("swap", "jsonpath={.status.modelLoaded}=mistral:latest")
	c.becomes("swap", "condition=Ready")
	if out := c.answers("swap", "mistral"); !strings.Contains(out, model.Changed) {
		c.t.Errorf("the new model answers %s", out)
	}
	if out := c.kubectl("get", "--raw", "/api/v1/namespaces/default/pods/swap:11434/proxy/api/ps"); strings.Contains(out, "tinyllama") {
		c.t.Errorf("the former model is still in memory: %s", out)
	}
	if again := c.kubectl("get", "pod", "swap", "-o", "jsonpath={.metadata.uid}"); again != uid {
		c.t.Error("the pod was made again for another model")
	}
	c.faults(`{}`)
	c.kubectl("delete", "nvidiagpullm", "swap", "--timeout=60s")
}

// faults tells the registry what goes wrong next.
func (c *localCluster) faults(text string) {
	c.t.Helper()
	c.run(text, "kubectl", "--name", c.name, "--", "replace", "--raw",
		"/api/v1/namespaces/default/services/models:http/proxy/control/faults", "-f", "-")
}

func (c *localCluster) requests() string {
	c.t.Helper()
	return c.kubectl("get", "--raw", "/api/v1/namespaces/default/services/models:http/proxy/control/requests")
}

func (c *localCluster) forgetRequests() {
	c.t.Helper()
	c.kubectl("delete", "--raw", "/api/v1/namespaces/default/services/models:http/proxy/control/requests")
}

// samplePathOf is the path of one of the repository's samples.
func samplePathOf(name string) string { return filepath.Join(repository, "config", "samples", name) }
