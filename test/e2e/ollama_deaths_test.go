package e2e

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-dev/slipway/test/ollama/model"
)

// testOllamaOperatorDies kills the operator while a model is fetched and while a
// prompt is answered. Its successor goes on: nothing is fetched twice, and no
// prompt that was answered is asked again.
func testOllamaOperatorDies(c *localCluster) {
	c.faults(`{"bytesPerSecond": 60000}`)
	c.forgetRequests()
	c.installs("dying", `llmName: dying, gpuCount: 0, model: phi, promptTimeoutSeconds: 6, prompts: ["Hello", "`+model.Loop+`"]`)
	c.becomes("dying", "condition=Pulling")
	c.killOperator()
	c.faults(`{}`)
	c.becomes("dying", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}=Prompting`)
	if out := c.requests(); !strings.Contains(out, `"range":"bytes=`) {
		c.t.Errorf("what was fetched before the operator died was fetched again: %s", out)
	}
	c.kubectl("wait", "configmap/dying-answers", "--for=jsonpath={.data.01-prompt}=Hello", "--timeout=60s")
	c.killOperator()
	c.becomes("dying", "condition=Ready")
	if out := c.field("dying", ".status.answers[*].prompt"); out != "Hello "+model.Loop {
		c.t.Errorf("the answered prompts are %q", out)
	}
	c.kubectl("delete", "nvidiagpullm", "dying", "--timeout=60s")
}

// testOllamaOperatorDiesWaiting kills the operator while GPUs are waited for, and
// when a model doesn't exist. Its successor says the same, goes on when the spec
// changes, and asks the registry nothing before that.
func testOllamaOperatorDiesWaiting(c *localCluster) {
	c.installs("waiting", `llmName: waiting, gpuCount: 3, model: no-such-model`)
	c.becomes("waiting", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}=InsufficientGPU`)
	if out := c.field("waiting", ".status.message"); !strings.Contains(out, "3 GPUs are asked for and no node has that many free: 4 of 4 are free in the cluster, at most 2 on one node") {
		c.t.Errorf("the message is %q", out)
	}
	c.killOperator()
	c.kubectl("patch", "nvidiagpullm", "waiting", "--type=merge", "-p", `{"spec":{"gpuCount":1}}`)
	c.becomes("waiting", "jsonpath={.status.phase}=Failed")
	c.forgetRequests()
	c.killOperator()
	// Another resource shows that the successor is at work.
	c.apply("apiVersion: infra.example.com/v1\nkind: NvidiaGpuLlm\nmetadata: {name: looks}\nspec: {action: status, llmName: waiting}\n")
	c.becomes("looks", "condition=Ready")
	if out := c.field("waiting", ".status.phase"); out != "Failed" {
		c.t.Errorf("after a restart the phase is %s", out)
	}
	if out := c.requests(); strings.Contains(out, "no-such-model") {
		c.t.Errorf("a model that doesn't exist was asked for again after a restart: %s", out)
	}
	c.kubectl("patch", "nvidiagpullm", "waiting", "--type=merge", "-p", `{"spec":{"model":"tinyllama"}}`)
	c.becomes("waiting", "condition=Ready")
	c.kubectl("delete", "nvidiagpullm", "waiting", "looks", "--timeout=60s")
}

// testOllamaOperatorDiesLoading stops the process that a model is loaded into, and
// kills the operator that waits for it.
func testOllamaOperatorDiesLoading(c *localCluster) {
	before := c.runners()
	c.installs("loading", `llmName: loading, gpuCount: 0, model: codellama, prompts: ["Hello"]`)
	runner := c.stopRunner(before)
	c.becomes("loading", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}=Loading`)
	if out := c.field("loading", ".status.modelLoaded"); out != "" {
		c.t.Errorf("while it loads, %q is told to be loaded", out)
	}
	c.killOperator()
	// The server may have given it up when nobody waited for it any more.
	_ = syscall.Kill(runner, syscall.SIGCONT)
	c.becomes("loading", "condition=Ready")
	if out := c.field("loading", ".status.answers[*].answer"); strings.Count(out, model.Changed) != 1 {
		c.t.Errorf("the answers are %q", out)
	}
	c.kubectl("delete", "nvidiagpullm", "loading", "--timeout=60s")
}

// runners are the processes that hold models, in all pods.
func (c *localCluster) runners() map[int]bool {
	c.t.Helper()
	found := map[int]bool{}
	for pid := range descendants(c.t, c.supervisor()) {
		command, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && strings.Contains(string(command), "ollama\x00runner") {
			found[pid] = true
		}
	}
	return found
}

// stopRunner halts the next runner as soon as it is there. No event tells of a
// process in another namespace, so it looks as often as it can.
func (c *localCluster) stopRunner(before map[int]bool) int {
	c.t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); {
		for pid := range c.runners() {
			if before[pid] {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				c.t.Fatal(err)
			}
			return pid
		}
	}
	c.t.Fatal("no model was loaded in a minute")
	return 0
}

// testOllamaOtherNamespace: a resource acts in another namespace when that allows
// it, and says what is to be written when it doesn't.
func testOllamaOtherNamespace(c *localCluster) {
	c.kubectl("create", "namespace", "elsewhere")
	c.installs("guest", `llmName: guest, gpuCount: 0, model: tinyllama, namespace: elsewhere`)
	c.becomes("guest", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}=NamespaceNotAllowed`)
	c.kubectl("annotate", "namespace", "elsewhere", "slipway.dev/allow-from=default")
	c.becomes("guest", "condition=Ready")
	c.kubectl("get", "pod", "guest", "-n", "elsewhere")
	c.kubectl("delete", "nvidiagpullm", "guest", "--timeout=60s")
	c.kubectl("wait", "--for=delete", "pod/guest", "-n", "elsewhere", "--timeout=60s")
}

// ask is a request to a model.
const ask = `{"model": "tinyllama", "messages": [{"role": "user", "content": "Hello"}]}`

// killOperator ends the operator without a farewell, and waits for its successor.
func (c *localCluster) killOperator() {
	c.t.Helper()
	c.kubectl("delete", "pods", "--all", "-n", "llm-system", "--grace-period=0", "--force")
	c.kubectl("rollout", "status", "deployment/llm-operator", "-n", "llm-system", "--timeout=60s")
}

// testOllamaRunnerDies kills the process that holds the model. The server lives
// on, and the model is loaded again.
func testOllamaRunnerDies(c *localCluster) {
	c.installs("runner", `llmName: runner, gpuCount: 0, model: tinyllama`)
	c.becomes("runner", "condition=Ready")
	running := c.runners()
	if len(running) != 1 {
		c.t.Fatalf("there are %d runners, want the one of the pod", len(running))
	}
	for pid := range running {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			c.t.Fatal(err)
		}
	}
	// The server notices at the next request, which may be lost.
	_, _ = c.try(ask, "kubectl", "--name", c.name, "--", "create", "--raw", "/api/v1/namespaces/default/pods/runner:11434/proxy/v1/chat/completions", "-f", "-")
	if out := c.answers("runner", "tinyllama"); !strings.Contains(out, model.Steady) {
		c.t.Errorf("after its runner was killed, the model answers %s", out)
	}
	c.becomes("runner", "condition=ModelLoaded")
	c.becomes("runner", "condition=Ready")
	c.kubectl("delete", "nvidiagpullm", "runner", "--timeout=60s")
}

// testOllamaNodeDies stops the node of a pod. The pod is made again on another
// node under the same name, though the kubelet of the dead one never says that
// its pod has ended.
func testOllamaNodeDies(c *localCluster) {
	c.kubectl("cordon", "node-1")
	c.installs("moving", `llmName: moving, gpuCount: 0, model: tinyllama`)
	c.kubectl("wait", "pod/moving", "--for=jsonpath={.spec.nodeName}=node-2", "--timeout=60s")
	c.kubectl("uncordon", "node-1")
	c.becomes("moving", "condition=Ready")
	c.slipway("down", "--name", c.name, "--node", "node-2")
	c.kubectl("wait", "nvidiagpullm/moving", "--for=condition=Ready=false", "--timeout=120s")
	c.kubectl("wait", "nvidiagpullm/moving", "--for=condition=Ready", "--timeout=240s")
	if node := c.kubectl("get", "pod", "moving", "-o", "jsonpath={.spec.nodeName}"); node != "node-1" {
		c.t.Errorf("the pod is on %s", node)
	}
	if out := c.answers("moving", "tinyllama"); !strings.Contains(out, model.Steady) {
		c.t.Errorf("on another node, the model answers %s", out)
	}
	c.kubectl("delete", "nvidiagpullm", "moving", "--timeout=60s")
}
