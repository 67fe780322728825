package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/cluster/lock"
)

// Bounds of starting and stopping a cluster.
const (
	readyDeadline = 5 * time.Minute
	stopDeadline  = 30 * time.Second
)

// UpOptions say what Up starts.
type UpOptions struct {
	// Spec is what is asked for. Name, Nodes, GPUs and SimulatedNodes count; Up
	// sets the rest.
	Spec Spec
	// Explicit says that the numbers were asked for and aren't just the defaults,
	// so that a running cluster that differs is an error.
	Explicit bool
	// Component says where the programs come from.
	Component component.Options
	// Progress receives one line for each step.
	Progress io.Writer
}

// Outcome is what Up found and did.
type Outcome string

// The outcomes of Up.
const (
	Started   Outcome = "started"
	Unchanged Outcome = "is already running"
	Recovered Outcome = "recovered"
	Restarted Outcome = "started afresh"
)

// Up makes sure that a cluster runs, and returns when it is ready. A cluster
// that runs is left alone; one that died is started again with its data, or
// afresh if its data is damaged. It goes on running after the calling process
// ends, until Down.
func Up(ctx context.Context, opts UpOptions) (Outcome, error) {
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	if err := opts.Spec.Validate(); err != nil {
		return "", err
	}
	f, err := folderOf(opts.Spec.Name)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o700); err != nil {
		return "", fmt.Errorf("make the folder for clusters: %w", err)
	}
	held, err := lock.Acquire(ctx, f.lockFile(), func() {
		fmt.Fprintln(opts.Progress, "waiting for another slipway that starts or stops this cluster")
	})
	if err != nil {
		return "", err
	}
	u := &upper{UpOptions: opts, folder: f}
	outcome, err := u.up(ctx)
	if _, statErr := os.Stat(f.path()); errors.Is(statErr, fs.ErrNotExist) {
		return outcome, errors.Join(err, held.Remove()) // nothing came of it
	}
	held.Release()
	return outcome, err
}

// upper is one run of Up.
type upper struct {
	UpOptions
	folder folder
}

func (u *upper) up(ctx context.Context) (Outcome, error) {
	existing, err := u.folder.readSpec()
	if err != nil {
		return "", err
	}
	switch {
	case existing == nil:
		return Started, u.startNew(ctx)
	case u.folder.readSupervisor().alive():
		if err := u.agree(*existing); err != nil {
			return "", err
		}
		err := u.follow(ctx)
		if err == nil {
			err = u.resumeNodes(ctx)
		}
		if err == nil || ctx.Err() != nil || u.folder.readSupervisor().alive() {
			return Unchanged, err
		}
		return u.recover(ctx, *existing) // it was ending while we looked
	default:
		return u.recover(ctx, *existing)
	}
}

// agree refuses to pass one cluster off as another.
func (u *upper) agree(existing Spec) error {
	wanted := u.Spec
	if !u.Explicit || (wanted.Nodes == existing.Nodes && wanted.GPUs == existing.GPUs && wanted.SimulatedNodes == existing.SimulatedNodes) {
		return nil
	}
	return fmt.Errorf("the cluster %s exists with --nodes %d --gpus %d --simulated-nodes %d; run slipway down first, or give another --name",
		existing.Name, existing.Nodes, existing.GPUs, existing.SimulatedNodes)
}

// recover starts a cluster that died, with its data if that serves.
func (u *upper) recover(ctx context.Context, existing Spec) (Outcome, error) {
	if err := u.agree(existing); err != nil {
		return "", err
	}
	why := "its supervisor had ended"
	if existing.BootID != bootID() {
		why = "the machine was restarted"
	}
	fmt.Fprintf(u.Progress, "recovering the cluster %s: %s\n", existing.Name, why)
	if err := u.clearGroups(ctx, existing); err != nil {
		return "", err
	}
	u.Spec = existing
	err := u.start(ctx)
	if err == nil {
		return Recovered, nil
	}
	if ctx.Err() != nil {
		return "", err
	}
	fmt.Fprintf(u.Progress, "its data does not serve (%v): starting afresh\n", err)
	if err := remove(ctx, u.folder); err != nil {
		return "", err
	}
	return Restarted, u.startNew(ctx)
}

func (u *upper) clearGroups(ctx context.Context, s Spec) error {
	if !s.Namespaced() {
		return nil
	}
	return cgroups{mount: cgroupMount, cluster: s.Name}.remove(ctx)
}

// startNew starts a cluster that doesn't exist.
func (u *upper) startNew(ctx context.Context) error {
	if u.Spec.Nodes > 0 {
		if err := mayIsolate(ctx); err != nil {
			fmt.Fprintf(u.Progress, "no real nodes, because %v: starting a control plane with simulated nodes, on which pods only seem to run\n", err)
			u.Spec.SimulatedNodes = max(u.Spec.SimulatedNodes, u.Spec.Nodes)
			u.Spec.Nodes = 0
		}
	}
	u.Spec.CPUs = advertisedCPUs(runtime.NumCPU())
	err := u.start(ctx)
	if err != nil {
		// A cluster that never became ready is of no use; its logs are quoted.
		return errors.Join(err, remove(context.WithoutCancel(ctx), u.folder))
	}
	return nil
}

// minCPUs is what a node advertises at least: the manifests of the
// specifications ask for two CPUs twice, and a rolling update for two more.
const minCPUs = 8

// advertisedCPUs is the number of CPUs that a node says it has.
func advertisedCPUs(real int) int { return max(real, minCPUs) }

// start starts the supervisor and waits until the cluster is ready.
func (u *upper) start(ctx context.Context) error {
	groups := component.ControlPlane
	if u.Spec.Namespaced() {
		if err := ensurePrograms(ctx, u.Progress); err != nil {
			return err
		}
		groups = append(append([]component.Group{}, groups...), component.Node...)
	}
	u.Component.Progress = u.Progress
	programs, err := component.Ensure(ctx, u.Component, groups...)
	if err != nil {
		return err
	}
	u.Spec.Programs, u.Spec.BootID = programs.Dir, bootID()
	for _, dir := range []string{u.folder.path(), u.folder.logs(), u.folder.path("control-plane")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the cluster's folder: %w", err)
		}
	}
	// Pods of any user write to volumes.
	if err := os.MkdirAll(u.folder.volumes(), 0o755); err != nil {
		return fmt.Errorf("make the folder for volumes: %w", err)
	}
	if err := copySelf(u.folder.binary()); err != nil {
		return err
	}
	if u.Spec.Namespaced() {
		if err := u.storeImages(programs); err != nil {
			return err
		}
	}
	if err := u.spawn(); err != nil {
		return err
	}
	return u.follow(ctx)
}

// copySelf keeps this program with the cluster, so that nodes can be started by
// the one that knows their facts even if the user builds another meanwhile.
func copySelf(to string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer self.Close()
	temporary := to + ".new"
	if err := unpackFile(temporary, self); err != nil {
		return err
	}
	if err := os.Chmod(temporary, 0o700); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	return os.Rename(temporary, to)
}

// spawn starts the supervisor, apart from this process, in namespaces of its
// own if the cluster has any.
func (u *upper) spawn() error {
	log, err := os.OpenFile(filepath.Join(u.folder.logs(), "supervisor.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(u.folder.binary(), "cluster-supervisor", u.folder.path())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.Env = processEnv(u.Spec.Programs, u.folder.path())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if u.Spec.Namespaced() {
		u.Spec.Ports = namespacedPorts()
		listener, err := u.listen()
		if err != nil {
			return err
		}
		defer func() { _ = listener.Close() }() // the supervisor has its own copy
		file, err := listener.File()
		if err != nil {
			return fmt.Errorf("hand the API server's port over: %w", err)
		}
		defer file.Close()
		cmd.ExtraFiles = []*os.File{file}
		cmd.SysProcAttr.Cloneflags = namespaces
	} else if u.Spec.Ports.APIServer == 0 {
		if u.Spec.Ports, err = freePorts(); err != nil {
			return err
		}
		u.Spec.Port = u.Spec.Ports.APIServer
	}
	if err := u.folder.writeSpec(u.Spec); err != nil {
		return err
	}
	// What an earlier supervisor left would be taken for this one's.
	if err := os.Remove(u.folder.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the old control socket: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the cluster's supervisor: %w", err)
	}
	if err := writeJSON(u.folder.supervisorFile(), identify(cmd.Process.Pid)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	go func() { _ = cmd.Wait() }() // a supervisor that fails at once must not stay a zombie
	return nil
}

// listen takes the port that the cluster had, if it is free, so that kubeconfigs
// that were copied stay good.
func (u *upper) listen() (*net.TCPListener, error) {
	for _, port := range []int{u.Spec.Port, 0} {
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			u.Spec.Port = listener.Addr().(*net.TCPAddr).Port
			return listener, nil
		}
		if port == 0 {
			return nil, fmt.Errorf("find a free port of 127.0.0.1: %w", err)
		}
	}
	return nil, errors.New("find a free port of 127.0.0.1")
}

// follow reports what the supervisor is doing until the cluster is ready.
func (u *upper) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyDeadline)
	defer cancel()
	control := newControl(u.folder)
	said := ""
	var status Status
	err := poll(ctx, "wait for the cluster to be ready", func() bool {
		next, err := control.status(ctx)
		if err != nil {
			return !u.folder.readSupervisor().alive()
		}
		status = next
		if status.Doing != "" && status.Doing != said {
			said = status.Doing
			fmt.Fprintln(u.Progress, said)
		}
		return status.Ready || status.Failed != "" || !u.folder.readSupervisor().alive()
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w, while %s; see %s", err, said, u.folder.logs())
	case status.Ready:
		return nil
	case status.Failed != "":
		return fmt.Errorf("%s; see %s", status.Failed, u.folder.logs())
	default:
		return fmt.Errorf("the cluster's supervisor ended: %s", tail(filepath.Join(u.folder.logs(), "supervisor.log")))
	}
}

// resumeNodes starts the nodes that were stopped.
func (u *upper) resumeNodes(ctx context.Context) error {
	control := newControl(u.folder)
	status, err := control.status(ctx)
	if err != nil {
		return err
	}
	for _, node := range status.Nodes {
		if !node.Running {
			fmt.Fprintf(u.Progress, "starting %s, which was stopped\n", node.Name)
			if err := control.node(ctx, node.Name, "start"); err != nil {
				return err
			}
		}
	}
	return nil
}
