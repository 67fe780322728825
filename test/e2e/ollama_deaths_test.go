package e2e

import (
	"os"
	"strconv"
	"strings"
	"syscall"

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
	killed := 0
	for pid := range descendants(c.t, c.supervisor()) {
		command, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && strings.Contains(string(command), "ollama\x00runner") {
			killed++
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	if killed != 1 {
		c.t.Fatalf("%d runners were killed, want the one of the pod", killed)
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
