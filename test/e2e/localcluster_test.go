// Package e2e runs Slipway as a user does: its binary, a local Kubernetes with
// real pods, and kubectl.
package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slipway-dev/slipway/internal/cluster"
	"github.com/slipway-dev/slipway/internal/image"
)

// localCluster is a cluster that a test drives through the binary.
type localCluster struct {
	t      *testing.T
	binary string
	name   string
}

// probeImage needs no registry: only the cluster has it.
const probeImage = "registry.example/slipway/probe:latest"

// repository is the checkout's root, as seen from this package.
const repository = "../.."

func TestLocalCluster(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a local cluster with real nodes needs root")
	}
	if testing.Short() {
		t.Skip("a local cluster takes a minute")
	}
	t.Setenv("SLIPWAY_STATE", t.TempDir())
	before := hostState(t)
	c := &localCluster{t: t, binary: buildProgram(t, "./cmd/slipway", "slipway"), name: fmt.Sprintf("e2e-%d", os.Getpid())}
	t.Cleanup(func() { _ = cluster.Down(context.Background(), c.name) })

	c.slipway("up", "--operator=false", "--name", c.name, "--nodes", "2", "--gpus", "2", "--simulated-nodes", "1")
	if out := c.slipway("up", "--operator=false", "--name", c.name); !strings.Contains(out, "already running") {
		t.Errorf("a second up says %q, want that the cluster is already running", out)
	}
	c.load(probeImage)
	c.apply(serversManifest)
	c.kubectl("wait", "--for=condition=Available", "deployment/server", "--timeout=60s")

	t.Run("traffic", c.with(testTraffic))
	t.Run("kubectl", c.with(testKubectl))
	t.Run("volumes", c.with(testVolumes))
	t.Run("gpus", c.with(testGPUs))
	t.Run("webhooks of a bundle", c.with(testWebhooks))
	t.Run("a node dies", c.with(testNodeDies))
	t.Run("the supervisor dies", c.with(testSupervisorDies))
	t.Run("down", func(t *testing.T) { c.with(func(c *localCluster) { testDown(c, before) })(t) })
}

// serversManifest is one server on each real node, and a Service for both. The
// image's tag makes the kubelet pull it, which only the cluster's own store can
// answer.
const serversManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  replicas: 2
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {labelSelector: {matchLabels: {app: server}}, topologyKey: kubernetes.io/hostname}
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      terminationGracePeriodSeconds: 2
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}
      containers:
      - name: server
        image: ` + probeImage + `
        args: [serve, ":8080"]
        resources: {requests: {cpu: "2", memory: 1Gi}, limits: {cpu: "2", memory: 1Gi}}
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec:
  selector: {app: server}
  ports: [{port: 80, targetPort: 8080}]
`

func testTraffic(c *localCluster) {
	pods := c.serverPods()
	if len(pods) != 2 || pods[0].node == pods[1].node {
		c.t.Fatalf("the servers are %v, want one on each node", pods)
	}
	for _, from := range pods {
		for _, to := range pods {
			if got := c.exec(from.name, "get", "http://"+to.ip+":8080", "1"); got != to.name {
				c.t.Errorf("%s reached %q at %s, want %s", from.node, got, to.ip, to.name)
			}
		}
		seen := map[string]bool{}
		for _, name := range strings.Fields(c.exec(from.name, "get", "http://server.default.svc.cluster.local", "40")) {
			seen[name] = true
		}
		if !seen[pods[0].name] || !seen[pods[1].name] || len(seen) != 2 {
			c.t.Errorf("%s reached %v through the Service, want both servers", from.node, seen)
		}
	}
}

func testKubectl(c *localCluster) {
	pod := c.serverPods()[0]
	if got := c.kubectl("logs", pod.name); !strings.Contains(got, "serving as "+pod.name) {
		c.t.Errorf("kubectl logs printed %q", got)
	}
	ctx, stop := context.WithTimeout(c.t.Context(), time.Minute)
	defer stop()
	forward := exec.CommandContext(ctx, c.binary, "kubectl", "--name", c.name, "--", "port-forward", "pod/"+pod.name, ":8080")
	out, err := forward.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Kill()
		_ = forward.Wait()
	}()
	line := make([]byte, 256)
	n, err := out.Read(line)
	if err != nil {
		c.t.Fatalf("kubectl port-forward printed nothing: %v", err)
	}
	address, _, ok := strings.Cut(strings.TrimPrefix(string(line[:n]), "Forwarding from "), " -> ")
	if !ok {
		c.t.Fatalf("kubectl port-forward printed %q", line[:n])
	}
	response, err := http.Get("http://" + address)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != pod.name {
		c.t.Errorf("through port-forward came %q (%v), want %s", body, err, pod.name)
	}
}

func testVolumes(c *localCluster) {
	c.apply("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}\n")
	c.runOnce("writer", "node-1", "write", "/data/kept", "the weights")
	if got := c.runOnce("reader", "node-2", "read", "/data/kept"); got != "the weights" {
		c.t.Errorf("the second pod read %q", got)
	}
}

func testGPUs(c *localCluster) {
	for _, name := range []string{"first", "second", "third"} {
		c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: gpu-%s, labels: {gpu: "true"}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: %s, imagePullPolicy: IfNotPresent, args: [serve, ":8080"], resources: {limits: {nvidia.com/gpu: 2}}}
`, name, probeImage))
	}
	c.kubectl("wait", "--for=condition=Ready", "pod/gpu-first", "pod/gpu-second", "--timeout=60s")
	c.kubectl("wait", "--for=condition=PodScheduled=false", "pod/gpu-third", "--timeout=60s")
	message := c.kubectl("get", "pod", "gpu-third", "-o", `jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`)
	if !strings.Contains(message, "Insufficient nvidia.com/gpu") {
		c.t.Errorf("the third pod waits for another reason: %q", message)
	}
	c.kubectl("delete", "pod", "-l", "gpu=true", "--wait")
}

func testNodeDies(c *localCluster) {
	c.slipway("down", "--name", c.name, "--node", "node-2")
	c.kubectl("wait", "--for=condition=Ready=Unknown", "node/node-2", "--timeout=90s")
	c.slipway("up", "--operator=false", "--name", c.name)
	c.kubectl("wait", "--for=condition=Ready", "node/node-2", "--timeout=60s")
	c.kubectl("wait", "--for=condition=Available", "deployment/server", "--timeout=60s")
}

func testSupervisorDies(c *localCluster) {
	pid := c.supervisor()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	if out := c.slipway("up", "--operator=false", "--name", c.name); !strings.Contains(out, "recovered") {
		c.t.Errorf("up after a crash says %q, want that it recovered", out)
	}
	c.kubectl("wait", "--for=condition=Available", "deployment/server", "--timeout=60s")
	testTraffic(c)
	if got := c.runOnce("reader-again", "node-1", "read", "/data/kept"); got != "the weights" {
		c.t.Errorf("after the crash the volume holds %q", got)
	}
}

func testDown(c *localCluster, before []string) {
	processes := descendants(c.t, c.supervisor())
	if len(processes) < 10 {
		c.t.Fatalf("only %d processes belong to the cluster; the test looks in the wrong place", len(processes))
	}
	c.slipway("down", "--name", c.name)
	for pid, start := range processes {
		if started(pid) == start {
			c.t.Errorf("process %d is left over", pid)
		}
	}
	if after := hostState(c.t); !slices.Equal(before, after) {
		c.t.Errorf("the host differs:\nbefore %q\nafter  %q", before, after)
	}
	if left, err := os.ReadDir(os.Getenv("SLIPWAY_STATE")); err == nil && len(left) > 0 {
		c.t.Errorf("the state folder still holds %v", left)
	}
	if out := c.slipway("down", "--name", c.name); !strings.Contains(out, "there is no cluster") {
		c.t.Errorf("a second down says %q", out)
	}
}

// hostState lists what a cluster might leave behind: the host's mounts,
// interfaces and the control groups with its name.
func hostState(t *testing.T) []string {
	t.Helper()
	var state []string
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	links, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/slipway-e2e-*")
	if err != nil {
		t.Fatal(err)
	}
	state = append(state, strings.Split(string(mounts), "\n")...)
	for _, link := range links {
		state = append(state, link.Name())
	}
	return append(state, groups...)
}

// descendants are the living processes below one, with their start times.
func descendants(t *testing.T, root int) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if fields := statFields(pid); len(fields) > 1 {
				parents[pid], _ = strconv.Atoi(fields[1])
			}
		}
	}
	found := map[int]string{}
	for pid := range parents {
		for at := pid; at > 1; at = parents[at] {
			if at == root {
				found[pid] = started(pid)
				break
			}
		}
	}
	return found
}

func statFields(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
}

// started is the start time of a living process, in clock ticks.
func started(pid int) string {
	fields := statFields(pid)
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

func (c *localCluster) with(test func(*localCluster)) func(*testing.T) {
	return func(t *testing.T) {
		inner := *c
		inner.t = t
		test(&inner)
	}
}

// supervisor is the process that runs the cluster: the only one with the
// cluster's folder as its argument.
func (c *localCluster) supervisor() int {
	c.t.Helper()
	folder := filepath.Join(os.Getenv("SLIPWAY_STATE"), c.name)
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte("\x00cluster-supervisor\x00"+folder+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				c.t.Fatal(err)
			}
			return pid
		}
	}
	c.t.Fatal("no supervisor runs")
	return 0
}

// slipway runs the binary and returns what it printed.
func (c *localCluster) slipway(args ...string) string {
	c.t.Helper()
	return c.run("", args...)
}

func (c *localCluster) kubectl(args ...string) string {
	c.t.Helper()
	return c.run("", append([]string{"kubectl", "--name", c.name, "--"}, args...)...)
}

func (c *localCluster) apply(manifest string) {
	c.t.Helper()
	c.run(manifest, "kubectl", "--name", c.name, "--", "apply", "-f", "-")
}

func (c *localCluster) exec(pod string, args ...string) string {
	c.t.Helper()
	return c.kubectl(append([]string{"exec", pod, "--", image.Binary}, args...)...)
}

func (c *localCluster) run(input string, args ...string) string {
	c.t.Helper()
	out, err := c.try(input, args...)
	if err != nil {
		c.t.Fatalf("slipway %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// try is run for what may fail.
func (c *localCluster) try(input string, args ...string) (string, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Minute) // the first up compiles
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// runOnce runs a pod with the claim "data" to its end and returns its output.
func (c *localCluster) runOnce(name, node string, args ...string) string {
	c.t.Helper()
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  nodeName: %s
  containers:
  - {name: main, image: %s, imagePullPolicy: Never, args: [%s], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`, name, node, probeImage, `"`+strings.Join(args, `", "`)+`"`))
	c.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/"+name, "--timeout=60s")
	out := c.kubectl("logs", name)
	c.kubectl("delete", "pod", name, "--wait")
	return out
}

type serverPod struct{ name, ip, node string }

func (c *localCluster) serverPods() []serverPod {
	c.t.Helper()
	out := c.kubectl("get", "pods", "-l", "app=server", "--field-selector=status.phase=Running", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.podIP} {.spec.nodeName}{"\n"}{end}`)
	var pods []serverPod
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) == 3 {
			pods = append(pods, serverPod{fields[0], fields[1], fields[2]})
		}
	}
	return pods
}

// load builds the probe and gives it to the nodes as an image.
func (c *localCluster) load(ref string) {
	c.t.Helper()
	built, err := image.Build(buildProgram(c.t, "./test/e2e/probe", "probe"), image.Config{Uncompressed: true})
	if err != nil {
		c.t.Fatal(err)
	}
	archive := filepath.Join(c.t.TempDir(), "probe.tar")
	if err := image.WriteArchive(archive, map[string]v1.Image{ref: built}); err != nil {
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

// buildProgram compiles a static program of this checkout.
func buildProgram(t *testing.T, pkg, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, pkg)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return path
}
