package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/cluster"
	"github.com/slipway-dev/slipway/test/definitions"
)

// stackNamespace is where the specification's samples live.
const stackNamespace = "llm-d-sim"

// TestStack runs the specification's SimulatorDeployments in a local cluster,
// with llm-d's own picker and routing sidecar: its samples and commands as
// printed, requests through the whole stack, events under load, and faults.
func TestStack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a local cluster with real nodes needs root")
	}
	if testing.Short() {
		t.Skip("a local cluster takes a minute")
	}
	t.Setenv("SLIPWAY_STATE", t.TempDir())
	c := &localCluster{t: t, binary: buildProgram(t, "./cmd/slipway", "slipway"), name: fmt.Sprintf("stack-%d", os.Getpid())}
	t.Cleanup(func() { _ = cluster.Down(context.Background(), c.name) })
	c.slipway("up", "--name", c.name, "--nodes", "1")
	t.Setenv("KUBECONFIG", c.slipway("kubeconfig", "--name", c.name))
	t.Setenv("PATH", c.kubectlProgram()+":"+os.Getenv("PATH"))
	c.load(probeImage)
	for _, fault := range stackFaults {
		c.apply(fault.manifests())
	}
	c.apply(plainManifests)
	t.Run("printed", testPrinted)
	c.shell(createNamespace)
	t.Run("minimal", c.with(testMinimal))
	t.Run("istio", c.with(testIstio))
	t.Run("prefill and decode", c.with(testPrefillDecode))
	t.Run("full", c.with(testFull))
	for _, fault := range stackFaults {
		t.Run(fault.name, c.with(func(c *localCluster) { testStackFault(c, fault) }))
	}
}

// The specification's commands, as it prints them.
const (
	createNamespace = `kubectl create namespace llm-d-sim`
	applyDefinition = `kubectl apply -f config/crd/sim.llm-d.io_simulatordeployments.yaml`
	applyMinimal    = `kubectl apply -f config/samples/sim_v1alpha1_simulatordeployment_minimal.yaml`
	getAll          = `kubectl get simulatordeployment -n llm-d-sim`
	getDetailed     = `kubectl get simulatordeployment llm-sim-minimal -n llm-d-sim -o yaml`
	patchReplicas   = `kubectl patch simulatordeployment llm-sim-minimal -n llm-d-sim \
  -p '{"spec":{"replicas":4}}' --type=merge`
	patchBalancing = `kubectl patch simulatordeployment llm-sim-minimal -n llm-d-sim \
  --type=merge -p '
{
  "spec": {
    "loadBalancing": {
      "enabled": true,
      "algorithm": "LEAST_REQUEST"
    }
  }
}'`
	getDecodePods     = `kubectl get pods -n llm-d-sim -l llm-d.ai/role=decode`
	getEndpoints      = `kubectl get endpoints gaie-inference-scheduling-proxy -n llm-d-sim`
	getRules          = `kubectl get destinationrule -n llm-d-sim`
	scaleDecode       = `kubectl scale deployment ms-sim-llm-d-modelservice-decode -n llm-d-sim --replicas=2`
	logsOfPicker      = `kubectl logs -n llm-d-sim -l component=epp`
	logsOfGateways    = `kubectl logs -n llm-d-sim -l component=gateway`
	getGatewayService = `kubectl get svc infra-sim-inference-gateway -n llm-d-sim -o yaml`
)

// samples are the specification's manifests by the names of their files, each
// with the line where the specification's text breaks off.
var samples = map[string]string{
	"": "", "_minimal": "", "_full": "", "_prefill_decode": "", "_istio": "  loadBalancing:",
}

// testPrinted holds commands and samples against the specification's text.
func testPrinted(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository, "..", "shared", "spec", "scheduler-sim-operator.md"))
	if err != nil {
		t.Skipf("not compared with the specification, which is not here: %v", err)
	}
	text := unpadded(string(page))
	for _, command := range []string{
		createNamespace, applyDefinition, applyMinimal, getAll, getDetailed, patchReplicas, patchBalancing, getDecodePods,
		getEndpoints, getRules, scaleDecode, logsOfPicker, logsOfGateways, getGatewayService,
	} {
		if !strings.Contains(text, command+"\n") && !strings.Contains(text, "`"+command+"`") {
			t.Errorf("the specification doesn't print %s", command)
		}
	}
	for name, breaks := range samples {
		sample, err := os.ReadFile(samplePath(name))
		if err != nil {
			t.Fatal(err)
		}
		printed := unpadded(string(sample))
		if breaks != "" {
			before, _, found := strings.Cut(printed, breaks)
			if !found {
				t.Fatalf("sample %s has no %q", name, breaks)
			}
			printed = before + breaks + "\n"
		}
		if !strings.Contains(text, printed) {
			t.Errorf("the specification doesn't print sample %s:\n%s", name, printed)
		}
	}
}

func samplePath(name string) string {
	return filepath.Join(repository, "config", "samples", "sim_v1alpha1_simulatordeployment"+name+".yaml")
}

// unpadded is a text without blanks at the ends of lines.
func unpadded(text string) string {
	return regexp.MustCompile(`[ \t\r]+\n`).ReplaceAllString(text, "\n")
}

func testMinimal(c *localCluster) {
	c.shell(applyDefinition)
	c.shell(applyMinimal)
	c.ready("llm-sim-minimal")
	c.prints(getAll, `^NAME +REPLICAS +READY +AGE\nllm-sim-minimal +2 +2 +\d+s$`)
	c.prints(getDetailed, `(?s)name: llm-sim-minimal.*- http://gaie-inference-scheduling-proxy.llm-d-sim.svc:8200\n.*readyReplicas: 2\n`)
	c.prints(getDecodePods, `(?s)ms-sim-llm-sim-minimal-decode-\S+ +1/1 +Running.*ms-sim-llm-sim-minimal-decode-\S+ +1/1 +Running`)
	c.prints(getEndpoints, `gaie-inference-scheduling-proxy +[\d.]+:8200,[\d.]+:8200 `)

	c.shell(patchReplicas)
	c.waits("simulatordeployment/llm-sim-minimal", "jsonpath={.status.readyReplicas}=4")
	c.prints(getAll, `llm-sim-minimal +4 +4 `)
	c.kubectl("scale", "-n", stackNamespace, "simulatordeployment/llm-sim-minimal", "--replicas=3")
	c.waits("simulatordeployment/llm-sim-minimal", "jsonpath={.status.replicas}=3")

	c.shell(patchBalancing)
	c.waits("simulatordeployment/llm-sim-minimal", "condition=LoadBalancingReady=False")
	message := c.kubectl("get", "-n", stackNamespace, "simulatordeployment/llm-sim-minimal",
		"-o", `jsonpath={.status.conditions[?(@.type=="LoadBalancingReady")].message}`)
	if want := "install Istio, or set spec.loadBalancing.enabled: false"; !strings.Contains(message, want) {
		c.t.Errorf("without Istio the condition says %q, want %q in it", message, want)
	}
	c.ready("llm-sim-minimal") // all the same
	c.gone("llm-sim-minimal")
}

func testIstio(c *localCluster) {
	c.define(definitions.DestinationRules)
	c.kubectl("apply", "-f", samplePath("_istio"))
	c.ready("llm-sim-istio")
	c.waits("simulatordeployment/llm-sim-istio", "condition=LoadBalancingReady")
	c.prints(getRules, `gaie-inference-scheduling-proxy-lb +gaie-inference-scheduling-proxy.llm-d-sim.svc.cluster.local `)
	c.prints(getRules+" -o yaml", `trafficPolicy:\n +loadBalancer:\n +simple: ROUND_ROBIN\n`)
	c.gone("llm-sim-istio", "destinationrules")
}

func testPrefillDecode(c *localCluster) {
	c.kubectl("apply", "-f", samplePath("_prefill_decode"))
	c.ready("llm-sim-prefill-decode")
	c.prints(getAll, `llm-sim-prefill-decode +6 +6 `)
	if out := c.shell(getDecodePods + " --no-headers"); strings.Count(out, " 2/2 ") != 4 {
		c.t.Errorf("want 4 decode pods, each with its sidecar, got\n%s", out)
	}
	c.shell(scaleDecode) // the resource says 4
	c.waits("deployment/ms-sim-llm-d-modelservice-decode", "jsonpath={.spec.replicas}=4")
	c.serves("decode")
	c.gone("llm-sim-prefill-decode", "destinationrules")
}

// fullDeployments are what the specification says that the full sample creates.
var fullDeployments = []string{
	"gaie-sim-epp", "infra-sim-inference-gateway", "infra-sim-inference-gateway-istio",
	"ms-sim-llm-d-modelservice-prefill", "ms-sim-llm-d-modelservice-decode",
}

const fullStack = "simulatordeployment/llm-sim-full"

func testFull(c *localCluster) {
	c.kubectl("apply", "-f", samplePath("_full"))
	c.ready("llm-sim-full")
	c.prints(getAll, `llm-sim-full +7 +7 `)
	for _, name := range fullDeployments {
		c.waits("deployment/"+name, "condition=Available")
	}
	c.prints(logsOfPicker, `"level":"`)
	c.prints(logsOfGateways, `listening on .*:80\]?; administration on .*:19000`)
	c.prints(getGatewayService, `(?s)port: 8080\n.*targetPort: 80\n`)

	c.t.Run("drift", c.with(testDrift))
	c.pace()
	c.apply(clientManifest)
	c.waits("pod/client", "condition=Ready")
	c.t.Run("no picker", c.with(testPlain))
	c.t.Run("no pools", c.with(testAnswers))
	c.t.Run("pools of v1alpha2", c.with(func(c *localCluster) {
		c.rolls("epp", func() { c.define(definitions.InferencePoolsX, definitions.InferenceObjectives) })
		c.follows("inference.networking.x-k8s.io")
		testAnswers(c)
	}))
	c.t.Run("events", c.with(testEvents))
	c.t.Run("pools of v1", c.with(testAnswers))
	c.kubectl("delete", "-n", stackNamespace, "pod/client", "--wait")
	c.gone("llm-sim-full", "destinationrules", "inferencepools.inference.networking.k8s.io", "inferencepools.inference.networking.x-k8s.io")
}

// testDrift does by hand what the specification's troubleshooting section looks
// for, and waits until it is put back.
func testDrift(c *localCluster) {
	const service = "service/infra-sim-inference-gateway"
	c.kubectl("patch", "-n", stackNamespace, service, "--type=json",
		"-p", `[{"op": "replace", "path": "/spec/ports/0/targetPort", "value": 8080}, {"op": "replace", "path": "/spec/ports/0/port", "value": 9090}]`)
	c.waits(service, "jsonpath={.spec.ports[0].targetPort}=80")
	c.waits(service, "jsonpath={.spec.ports[0].port}=8080")
	c.kubectl("delete", "-n", stackNamespace, "configmap/infra-sim-inference-gateway")
	c.waits("configmap/infra-sim-inference-gateway", "create")
}

// pace gives the simulators times like an engine's: a token each 20 ms.
func (c *localCluster) pace() {
	c.t.Helper()
	c.rolls("prefill", func() {
		c.rolls("decode", func() {
			c.patch(`{"spec": {"prefill": {"args": ["--time-to-first-token=20", "--max-num-seqs=64"]},
				"decode": {"args": ["--inter-token-latency=20", "--max-num-seqs=64"]}}}`)
		})
	})
	c.ready("llm-sim-full")
}

// patch changes the full stack.
func (c *localCluster) patch(text string) {
	c.t.Helper()
	c.kubectl("patch", "-n", stackNamespace, fullStack, "--type=merge", "-p", text)
}

// follows looks whether the picker serves for a pool of a group.
func (c *localCluster) follows(group string) {
	c.t.Helper()
	c.kubectl("get", "-n", stackNamespace, "inferencepools."+group, "gaie-sim")
	args := c.kubectl("get", "-n", stackNamespace, "deployment/gaie-sim-epp", "-o", "jsonpath={.spec.template.spec.containers[0].args}")
	if !strings.Contains(args, `"--pool-group=`+group+`"`) {
		c.t.Errorf("the picker has the arguments %s, want the pool of %s", args, group)
	}
	c.ready("llm-sim-full")
}

// define installs published definitions and waits until they are served.
func (c *localCluster) define(names ...string) {
	c.t.Helper()
	all, err := definitions.All(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range names {
		text, err := json.Marshal(all[name])
		if err != nil {
			c.t.Fatal(err)
		}
		c.run(string(text), "kubectl", "--name", c.name, "--", "create", "-f", "-")
		// At first its conditions are null, of which kubectl wait makes an error.
		c.kubectl("wait", "--for=jsonpath={.status.acceptedNames.kind}="+all[name].Spec.Names.Kind, "crd/"+name, "--timeout=60s")
		c.kubectl("wait", "--for=condition=Established", "crd/"+name, "--timeout=60s")
	}
}

func (c *localCluster) ready(name string) {
	c.t.Helper()
	c.waits("simulatordeployment/"+name, "condition=Ready")
}

// waits waits for something of an object of the samples' namespace.
func (c *localCluster) waits(object, what string) {
	c.t.Helper()
	c.kubectl("wait", "-n", stackNamespace, object, "--for="+what, "--timeout=60s")
}

// gone deletes a resource and waits until nothing that Slipway made is left in
// the namespace; kinds are looked for beside those that every cluster serves.
func (c *localCluster) gone(name string, kinds ...string) {
	c.t.Helper()
	c.kubectl("delete", "-n", stackNamespace, "simulatordeployment/"+name, "--timeout=60s")
	all := strings.Join(append([]string{
		"deployments", "replicasets", "pods", "services", "endpointslices", "serviceaccounts", "configmaps", "roles",
		"rolebindings", "poddisruptionbudgets", "simulatordeployments",
	}, kinds...), ",")
	ours := []string{all, "-n", stackNamespace, "-l", "app.kubernetes.io/managed-by=slipway"}
	c.kubectl(append([]string{"wait", "--for=delete", "--timeout=60s"}, ours...)...)
	if out := c.kubectl(append([]string{"get"}, ours...)...); !strings.HasPrefix(out, "No resources found") {
		c.t.Errorf("%s left behind\n%s", name, out)
	}
}

// kubectlProgram is a folder with a program kubectl for this cluster, so that
// printed commands run as they are.
func (c *localCluster) kubectlProgram() string {
	c.t.Helper()
	dir := c.t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %s kubectl --name %s -- \"$@\"\n", c.binary, c.name)
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o700); err != nil { //nolint:gosec // a program
		c.t.Fatal(err)
	}
	return dir
}

// shell runs a command line in the checkout's root and returns its output.
func (c *localCluster) shell(line string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", line)
	cmd.Dir = repository
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

// prints runs a command line and holds its output against a pattern.
func (c *localCluster) prints(line, pattern string) {
	c.t.Helper()
	if out := c.shell(line); !regexp.MustCompile(pattern).MatchString(out) {
		c.t.Errorf("%s prints\n%s\nwant a match of %q", line, out, pattern)
	}
}
