package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// systemPath is where distributions put the programs that a node needs, also
// when a user's PATH lacks them.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// installDeadline bounds the installation of the distribution's packages.
const installDeadline = 10 * time.Minute

// needed maps each program that nodes take from the distribution to its package
// on Debian and Ubuntu.
var needed = map[string]string{
	"runc":   "runc",
	"nft":    "nftables",
	"ip":     "iproute2",
	"mount":  "mount",
	"umount": "mount",
}

// findProgram is the path of a program of the system, or empty.
func findProgram(name string) string {
	for dir := range strings.SplitSeq(systemPath, ":") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// missing are the programs and packages that the machine lacks.
func missing(find func(string) string) (programs, packages []string) {
	for _, program := range []string{"runc", "nft", "ip", "mount", "umount"} {
		if find(program) == "" {
			programs = append(programs, program)
			packages = append(packages, needed[program])
		}
	}
	return programs, packages
}

// ensurePrograms installs what nodes need of the distribution, where it knows
// how, and otherwise says what is missing.
func ensurePrograms(ctx context.Context, progress io.Writer) error {
	programs, packages := missing(findProgram)
	if len(programs) == 0 {
		return nil
	}
	way := fmt.Errorf("real nodes need %s: install them with the system's package manager (Debian: apt-get install %s)",
		strings.Join(programs, ", "), strings.Join(packages, " "))
	apt := findProgram("apt-get")
	if apt == "" || os.Geteuid() != 0 {
		return way
	}
	fmt.Fprintf(progress, "installing %s with apt-get\n", strings.Join(packages, " "))
	ctx, cancel := context.WithTimeout(ctx, installDeadline)
	defer cancel()
	install := append([]string{"install", "-y", "-q", "--no-install-recommends"}, packages...)
	if _, err := runApt(ctx, apt, install...); err != nil {
		if out, err := runApt(ctx, apt, "update", "-q"); err != nil {
			return fmt.Errorf("%w; apt-get update failed: %w: %s", way, err, out)
		}
		if out, err := runApt(ctx, apt, install...); err != nil {
			return fmt.Errorf("%w; apt-get install failed: %w: %s", way, err, out)
		}
	}
	if programs, _ := missing(findProgram); len(programs) > 0 {
		return fmt.Errorf("%w; apt-get installed them, but there is still no %s in %s", way, strings.Join(programs, ", "), systemPath)
	}
	return nil
}

// runApt returns the last line that apt-get wrote.
func runApt(ctx context.Context, apt string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, apt, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "PATH="+systemPath)
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], err
}

// mayIsolate says whether this process may make the namespaces that real nodes
// need, and if not, why. It tries: rights, kernels and sandboxes all have a say.
func mayIsolate(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("slipway does not run as root")
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the system lets slipway make no namespaces: %w", err)
	}
	groups := cgroups{mount: cgroupMount, cluster: fmt.Sprintf("probe-%d", os.Getpid())}
	_, err := groups.make("node")
	if err := errors.Join(err, groups.remove(ctx)); err != nil {
		return fmt.Errorf("the system lets slipway make no control groups: %w", err)
	}
	return nil
}

// hasCapability says whether the process holds a capability
// (capabilities(7), by its number).
func hasCapability(number int) bool {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err == nil && set&(1<<number) != 0
		}
	}
	return false
}
