package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// stackPod is a pod of the full stack.
type stackPod struct {
	name, uid string
	restarts  int
	leaving   bool
}

// pods are those of a component, as the label app.kubernetes.io/component has it.
func (c *localCluster) pods(component string) []stackPod {
	c.t.Helper()
	out := c.kubectl("get", "pods", "-n", stackNamespace, "-l", "app.kubernetes.io/component="+component, "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[0].restartCount} {.metadata.deletionTimestamp}{"\n"}{end}`)
	var pods []stackPod
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		restarts, err := strconv.Atoi(fields[2])
		if err != nil {
			c.t.Fatalf("pods of %s: %q", component, line)
		}
		pods = append(pods, stackPod{name: fields[0], uid: fields[1], restarts: restarts, leaving: len(fields) > 3})
	}
	return pods
}

// anyPod is one that never failed: its next start won't be delayed.
func (c *localCluster) anyPod(component string) stackPod {
	c.t.Helper()
	pods := c.pods(component)
	at := slices.IndexFunc(pods, func(pod stackPod) bool { return !pod.leaving && pod.restarts == 0 })
	if at < 0 {
		c.t.Fatalf("no pod of %s is unharmed: %v", component, pods)
	}
	return pods[at]
}

// rolls waits until all pods that a component had before something was done are
// gone, and those that came serve.
func (c *localCluster) rolls(component string, do func()) {
	c.t.Helper()
	before := c.pods(component)
	do()
	c.left(before)
	c.serves(component)
}

// left waits until pods are gone.
func (c *localCluster) left(pods []stackPod) {
	c.t.Helper()
	if len(pods) == 0 {
		return
	}
	args := []string{"wait", "-n", stackNamespace, "--for=delete", "--timeout=60s"}
	for _, pod := range pods {
		args = append(args, "pod/"+pod.name)
	}
	c.kubectl(args...)
}

// serves waits until a component has all of its pods, and none that leaves.
func (c *localCluster) serves(component string) {
	c.t.Helper()
	c.kubectl("rollout", "status", "-n", stackNamespace, "deployment", "-l", "app.kubernetes.io/component="+component, "--timeout=60s")
	c.left(slices.DeleteFunc(c.pods(component), func(pod stackPod) bool { return !pod.leaving }))
}

// deletes removes one pod of a component and waits until another one serves.
func (c *localCluster) deletes(component string, how ...string) {
	c.t.Helper()
	c.kubectl(append([]string{"delete", "-n", stackNamespace, "pod/" + c.anyPod(component).name, "--wait"}, how...)...)
	c.serves(component)
}

// kills ends processes of one pod of a component, as a fault of the program would:
// those with one of the words in their command line. The pod's own process, that
// holds its network, lives on. It waits until the pod serves again.
func (c *localCluster) kills(component string, words ...string) {
	c.t.Helper()
	pod := c.anyPod(component)
	killed := 0
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, file := range groups {
		group, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(group, []byte("/slipway-"+c.name+"/")) || !bytes.Contains(group, []byte("/pod"+pod.uid+"/")) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		pid, bad := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || bad != nil || !slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(line, []byte(word)) }) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			c.t.Fatal(err)
		}
		killed++
	}
	if killed == 0 {
		c.t.Fatalf("pod %s has no process %q", pod.name, words)
	}
	c.waits("pod/"+pod.name, "jsonpath={.status.containerStatuses[0].restartCount}="+strconv.Itoa(pod.restarts+1))
	c.waits("pod/"+pod.name, "condition=Ready")
	c.serves(component)
}
