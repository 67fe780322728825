// Package process runs the programs of a cluster as child processes that never
// outlive their parent, keeps their logs bounded, and starts those that die
// again. It knows nothing of what the programs do.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a process may take to end by itself.
const stopGrace = 10 * time.Second

// Spec says how to run one program.
type Spec struct {
	// Name is unique in its group, and names the log file.
	Name string
	Path string
	Args []string
	// Env is added to the group's environment.
	Env []string
	// Dir is the working directory; empty means the parent's.
	Dir string
	// Attr, which may be nil, is the start of the process's attributes, such as
	// new namespaces. The group sets Pdeathsig in it.
	Attr *syscall.SysProcAttr
	// Files are inherited as descriptors 3 and up.
	Files []*os.File
}

// Group starts processes from one thread of the operating system that lives as
// long as the group: the kernel sends a process its parent-death signal when
// the thread that started it ends, not the program (prctl(2), PR_SET_PDEATHSIG).
type Group struct {
	logs    string
	env     []string
	starts  chan func()
	done    chan struct{}
	closing sync.Once

	mu sync.Mutex
	// children are the processes that a reaper waits for; nil without one.
	children map[int]*Process
}

// NewGroup makes a group that writes its logs to a folder, which must exist.
// The processes get this environment and nothing else. Close ends its thread.
func NewGroup(logs string, env []string) *Group {
	g := &Group{logs: logs, env: env, starts: make(chan func()), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for {
			select {
			case start := <-g.starts:
				start()
			case <-g.done:
				return
			}
		}
	}()
	return g
}

// Close ends the group's thread, and with it every process that still runs.
func (g *Group) Close() { g.closing.Do(func() { close(g.done) }) }

// Process is a running program.
type Process struct {
	Name string
	PID  int
	// Done is closed when the process has ended; then Err says how.
	Done chan struct{}
	err  error
}

// Err is how the process ended; it may be read once Done is closed.
func (p *Process) Err() error { return p.err }

// LogPath is the file with what a process of that name wrote.
func (g *Group) LogPath(name string) string { return filepath.Join(g.logs, name+".log") }

// Start starts a program. Its output is appended to its log.
func (g *Group) Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(g.LogPath(spec.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", spec.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Env = append(append([]string{}, g.env...), spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = spec.Files
	attr := syscall.SysProcAttr{}
	if spec.Attr != nil {
		attr = *spec.Attr
	}
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = &attr

	// With a reaper, a process that ends at once must not be reaped before it is
	// known.
	g.mu.Lock()
	defer g.mu.Unlock()
	started := make(chan error, 1)
	select {
	case g.starts <- func() { started <- cmd.Start() }:
	case <-g.done:
		return nil, fmt.Errorf("start %s: the group is closed", spec.Name)
	}
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return g.adopt(spec.Name, cmd), nil
}

// adopt makes somebody wait for a process that was started.
func (g *Group) adopt(name string, cmd *exec.Cmd) *Process {
	p := &Process{Name: name, PID: cmd.Process.Pid, Done: make(chan struct{})}
	if g.children != nil {
		g.children[p.PID] = p
		_ = cmd.Process.Release()
		return p
	}
	go func() {
		p.err = cmd.Wait()
		close(p.Done)
	}()
	return p
}

// Kill ends the process at once and waits until it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.Done
}

// Stop asks the process to end, kills it when it takes too long or ctx ends,
// and returns when it is gone.
func (p *Process) Stop(ctx context.Context) {
	p.signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	select {
	case <-p.Done:
	case <-ctx.Done():
		p.Kill()
	}
}

// signal sends a signal unless the process has ended: its number may by then be
// another's.
func (p *Process) signal(sig syscall.Signal) {
	select {
	case <-p.Done:
	default:
		_ = syscall.Kill(p.PID, sig)
	}
}

// Tail returns the end of a process's log, at most n bytes, for an error that
// says why it died.
func (g *Group) Tail(name string, n int64) string {
	file, err := os.Open(g.LogPath(name))
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > n {
		if _, err := file.Seek(-n, 2); err != nil {
			return ""
		}
	}
	text := make([]byte, n)
	read, err := file.Read(text)
	if err != nil && !errors.Is(err, os.ErrClosed) && read == 0 {
		return ""
	}
	return string(text[:read])
}
