package process

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Reap makes the group wait for every child of this program, orphans included.
// The first process of a process namespace needs it: orphans become its
// children. It must be called before the first Start, and no command may be run
// outside the group from then on, since its end could be taken for an orphan's.
func (g *Group) Reap() {
	g.mu.Lock()
	g.children = map[int]*Process{}
	g.mu.Unlock()
	ended := make(chan os.Signal, 1) // signals merge; each is followed by a full round
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			g.reapAll()
		}
	}()
}

func (g *Group) reapAll() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		g.mu.Lock()
		p := g.children[pid]
		delete(g.children, pid)
		g.mu.Unlock()
		if p != nil {
			p.err = describe(status)
			close(p.Done)
		}
	}
}

func describe(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		return fmt.Errorf("signal: %s", status.Signal())
	case status.ExitStatus() != 0:
		return fmt.Errorf("exit status %d", status.ExitStatus())
	default:
		return nil
	}
}
