package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/slipway-dev/slipway/internal/cluster/lock"
)

// ErrNoCluster says that there is no cluster of that name.
var ErrNoCluster = errors.New("no such cluster; slipway up starts one")

// Down ends a cluster and removes all that is left of it: processes, mounts,
// interfaces, control groups and files. Without a cluster it returns
// ErrNoCluster.
func Down(ctx context.Context, name string) error {
	f, err := folderOf(name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(f.path()); err != nil {
		return fmt.Errorf("%s: %w", name, ErrNoCluster)
	}
	held, err := lock.Acquire(ctx, f.lockFile(), nil)
	if err != nil {
		return err
	}
	if err := remove(ctx, f); err != nil {
		held.Release()
		return err
	}
	if err := held.Remove(); err != nil {
		return fmt.Errorf("remove the cluster's lock: %w", err)
	}
	_ = os.Remove(filepath.Dir(f.path())) // the last cluster takes the folder of all with it
	return nil
}

// remove ends a cluster whose lock is held, and removes its files.
func remove(ctx context.Context, f folder) error {
	if err := endSupervisor(ctx, f); err != nil {
		return err
	}
	name := filepath.Base(f.path())
	if os.Geteuid() == 0 {
		if err := (cgroups{mount: cgroupMount, cluster: name}).remove(ctx); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(f.path()); err != nil {
		return fmt.Errorf("remove the cluster's files: %w", err)
	}
	return nil
}

// endSupervisor ends the process that runs a cluster, and with it all others. In
// namespaces of its own it is the first process: the kernel ends the others when
// it is killed, and drops their mounts and interfaces. Without, it is asked to
// end them itself, and to wait for them.
func endSupervisor(ctx context.Context, f folder) error {
	s := f.readSupervisor()
	if !s.alive() {
		return nil
	}
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}
	if spec, err := f.readSpec(); err != nil || spec == nil || spec.Namespaced() {
		signals = signals[1:]
	}
	for _, signal := range signals {
		if err := syscall.Kill(s.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end the cluster's supervisor: %w", err)
		}
		waiting, cancel := context.WithTimeout(ctx, stopDeadline)
		err := poll(waiting, "wait for the cluster's processes to end", func() bool { return !s.alive() })
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("the cluster's supervisor, process %d, can't be killed", s.PID)
}

// Kubeconfig is the path of the administrator's kubeconfig of a cluster.
func Kubeconfig(name string) (string, error) {
	f, _, err := find(name)
	if err != nil {
		return "", err
	}
	return f.kubeconfig(), nil
}

// Kubectl is the path of the kubectl that belongs to a cluster.
func Kubectl(name string) (string, error) {
	_, spec, err := find(name)
	if err != nil {
		return "", err
	}
	return filepath.Join(spec.Programs, "kubectl"), nil
}

// errNotRunning says that a cluster exists but nothing runs it.
var errNotRunning = errors.New("the cluster isn't running; slipway up starts it again")

// find returns the folder and description of a cluster that runs.
func find(name string) (folder, *Spec, error) {
	f, err := folderOf(name)
	if err != nil {
		return "", nil, err
	}
	spec, err := f.readSpec()
	if err != nil {
		return "", nil, err
	}
	if spec == nil {
		return "", nil, fmt.Errorf("%s: %w", name, ErrNoCluster)
	}
	if !f.readSupervisor().alive() {
		return "", nil, fmt.Errorf("%s: %w", name, errNotRunning)
	}
	return f, spec, nil
}

// StopNode ends a real node at once, as if its machine had lost power. Up, or
// StartNode, brings it back.
func StopNode(ctx context.Context, name, node string) error {
	f, _, err := find(name)
	if err != nil {
		return err
	}
	return newControl(f).node(ctx, node, "stop")
}

// StartNode starts a real node that was stopped.
func StartNode(ctx context.Context, name, node string) error {
	f, _, err := find(name)
	if err != nil {
		return err
	}
	return newControl(f).node(ctx, node, "start")
}

// LoadImage gives a running cluster's nodes an image from a tar archive, which
// may be an OCI image layout or what `docker save` writes. With refs, the
// archive's one image gets those names, for any registry; without, images keep
// their names in the archive.
func LoadImage(ctx context.Context, name string, refs []string, archive io.Reader) error {
	f, _, err := find(name)
	if err != nil {
		return err
	}
	return newControl(f).load(ctx, archive, refs)
}

func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return writeFile(path, append(data, '\n'))
}

// tail is the end of a log, in one line.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "it wrote nothing"
	}
	data = bytes.TrimSpace(data)
	if len(data) > 1024 {
		data = data[len(data)-1024:]
	}
	return strings.Join(strings.Fields(string(data)), " ")
}
