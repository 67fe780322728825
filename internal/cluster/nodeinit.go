package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/cluster/config"
	"github.com/slipway-dev/slipway/internal/cluster/process"
)

// nodeFacts are handed from the supervisor to a node's first process.
type nodeFacts struct {
	Node  config.Node `json:"node"`
	Nodes int         `json:"nodes"`
	// Dir is the node's folder, Programs the one with all built programs, and
	// Volumes the one with the cluster's volumes, all as the host has them.
	Dir      string `json:"dir"`
	Programs string `json:"programs"`
	Volumes  string `json:"volumes"`
}

// RunNode is the first process of a node's namespaces. It makes the node's
// mounts, waits for its link to the cluster, and runs its programs until it is
// killed. Descriptor 3 is readable, or at its end, once the link is there.
func RunNode(ctx context.Context, factsFile string) error {
	data, err := os.ReadFile(factsFile)
	if err != nil {
		return fmt.Errorf("read the node's facts: %w", err)
	}
	var facts nodeFacts
	if err := json.Unmarshal(data, &facts); err != nil {
		return fmt.Errorf("read the node's facts: %w", err)
	}
	linked := os.NewFile(3, "linked")
	if _, err := linked.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("wait for the node's link: %w", err)
	}
	linked.Close()
	if err := unix.Sethostname([]byte(facts.Node.Name())); err != nil {
		return fmt.Errorf("name the node: %w", err)
	}
	logs, err := mountNode(facts)
	if err != nil {
		return err
	}
	if err := setupNodeNetwork(ctx, facts.Node, facts.Nodes); err != nil {
		return err
	}
	group := process.NewGroup(logs, processEnv(config.NodePrograms+"/"+facts.Node.Programs, "/root"))
	group.Reap()
	var running sync.WaitGroup
	for _, command := range facts.Node.Commands() {
		running.Go(func() { keepCommand(ctx, group, command) })
	}
	running.Go(func() { group.TrimLogs(ctx) })
	running.Wait()
	return nil
}

func keepCommand(ctx context.Context, group *process.Group, command config.Command) {
	spec := process.Spec{Name: command.Name, Path: command.Path, Args: command.Args, Env: command.Env, Dir: "/"}
	group.Keep(ctx,
		func() (process.Spec, error) { return spec, nil },
		nil,
		func(err error, pause time.Duration) {
			fmt.Fprintf(os.Stderr, "%s ended: %v; starting it again in %s\n", command.Name, err, pause)
		})
}

// nodeMounts are folders of the node that its programs know by fixed paths.
var nodeMounts = map[string]string{
	"kubelet":    "/var/lib/kubelet",
	"containerd": "/var/lib/containerd",
	"pods":       "/var/log/pods",
	"files":      config.NodeFiles,
	"logs":       config.NodeRoot + "/logs",
}

// mountNode turns the mount namespace that the process was born in into the
// node's: the host's files, with folders of the node's own in place of those that
// its programs write to. It returns where its programs' logs go. Nothing of it
// is seen outside the namespace, or outlives it.
func mountNode(facts nodeFacts) (string, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("make the mounts private: %w", err)
	}
	sources := map[string]string{
		config.NodePrograms: facts.Programs,
		config.NodeVolumes:  facts.Volumes,
	}
	for name, target := range nodeMounts {
		sources[target] = filepath.Join(facts.Dir, name)
	}
	// Open before anything is covered: a source may lie below a covered folder.
	opened := map[string]*os.File{}
	for target, source := range sources {
		if err := os.MkdirAll(source, 0o700); err != nil {
			return "", fmt.Errorf("make a folder of the node: %w", err)
		}
		file, err := os.Open(source)
		if err != nil {
			return "", fmt.Errorf("open a folder of the node: %w", err)
		}
		defer file.Close()
		opened[target] = file
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return "", fmt.Errorf("mount /proc: %w", err)
	}
	for _, dir := range []string{"/run", "/var/lib", "/var/log"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
			return "", fmt.Errorf("mount a fresh %s: %w", dir, err)
		}
	}
	for target, file := range opened {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return "", fmt.Errorf("make a mount point: %w", err)
		}
		from := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
		if err := unix.Mount(from, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return "", fmt.Errorf("mount %s: %w", target, err)
		}
	}
	// Containers with bidirectional mounts need a shared tree (mount_namespaces(7)).
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return "", fmt.Errorf("share the mounts: %w", err)
	}
	return nodeMounts["logs"], nil
}
