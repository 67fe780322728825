package process_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/cluster/process"
)

// role makes the test's own binary play a program.
const role = "SLIPWAY_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "parent":
		parent()
	case "reaper":
		reaper()
	default:
		os.Exit(m.Run())
	}
}

// parent starts a long-lived child, says its number and waits to be killed.
func parent() {
	g := process.NewGroup(os.Getenv("LOGS"), os.Environ())
	p, err := g.Start(process.Spec{Name: "child", Path: "/bin/sleep", Args: []string{"600"}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID)
	<-p.Done
}

// reaper is given an orphan as the first process of a namespace would be, and
// ends well once both the orphan and a process of its own were waited for.
func reaper() {
	g := process.NewGroup(os.Getenv("LOGS"), os.Environ())
	g.Reap()
	p, err := g.Start(process.Spec{Name: "own", Path: "/bin/sh", Args: []string{"-c", "exit 7"}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	<-p.Done
	if p.Err() == nil || p.Err().Error() != "exit status 7" {
		fmt.Println("the process ended with", p.Err())
		os.Exit(1)
	}
}

func TestReaperTellsHowItsOwnProcessesEnded(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=reaper", "LOGS="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestChildDiesWithItsParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=parent", "LOGS="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 32)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatalf("the parent says %q", line[:n])
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the child to end", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestKeepStartsAgainAndStops(t *testing.T) {
	g := process.NewGroup(t.TempDir(), nil)
	defer g.Close()
	ctx, stop := context.WithCancel(t.Context())
	starts := make(chan *process.Process, 8)
	ends := make(chan error, 8)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		g.Keep(ctx,
			func() (process.Spec, error) {
				return process.Spec{Name: "p", Path: "/bin/sleep", Args: []string{"600"}}, nil
			},
			func(p *process.Process) { starts <- p },
			func(err error, _ time.Duration) { ends <- err })
	}()
	first := <-starts
	first.Kill()
	if err := <-ends; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v, want that it was killed", err)
	}
	second := <-starts
	if second.PID == first.PID {
		t.Error("the second process is the first")
	}
	stop()
	<-finished
	if err := syscall.Kill(second.PID, 0); err == nil {
		t.Error("the process outlives its keeper")
	}
}

func TestStopOfOneThatIgnoresIt(t *testing.T) {
	g := process.NewGroup(t.TempDir(), nil)
	defer g.Close()
	p, err := g.Start(process.Spec{Name: "deaf", Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; echo ready; sleep 600 & wait; wait; sleep 600"}})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program to run", func() bool { return strings.Contains(g.Tail("deaf", 100), "ready") })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	p.Stop(ctx)
	if p.Err() == nil {
		t.Error("the process ended well, though it ignores the request")
	}
}

func TestTailIsBounded(t *testing.T) {
	logs := t.TempDir()
	g := process.NewGroup(logs, nil)
	defer g.Close()
	if err := os.WriteFile(filepath.Join(logs, "x.log"), []byte(strings.Repeat("a", 5000)+"end"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := g.Tail("x", 10); got != "aaaaaaaend" {
		t.Errorf("the tail is %q", got)
	}
	if got := g.Tail("none", 10); got != "" {
		t.Errorf("the tail of nothing is %q", got)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !done() {
		select {
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}
