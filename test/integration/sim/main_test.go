// Package sim_test tests what routes requests to simulated engines: the real
// endpoint picker and routing sidecar of llm-d, as processes, beside a real API
// server.
package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/test/controlplane"
)

// inside is set in a test process that has a network of its own.
const inside = "SLIPWAY_TEST_INSIDE"

// prepareDeadline allows for a first run, which compiles.
const prepareDeadline = 30 * time.Minute

var (
	// plane is the access of an administrator to the tests' API server, which
	// serves InferencePools.
	plane *rest.Config
	// programs are the picker and the sidecar.
	programs component.Programs
)

// TestMain runs the tests in a network namespace of their own, where it may make
// one: the picker and the sidecar listen on every address and can't be told
// otherwise, so on the machine's own network they would be open to its
// neighbours. What may need that network, a compile, is done before.
func TestMain(m *testing.M) {
	var code int
	var err error
	switch {
	case os.Getenv(inside) != "":
		if err = loopback(); err == nil {
			code, err = run(m)
		}
	case os.Geteuid() == 0:
		code, err = runInside()
	default:
		code, err = run(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// ownNetwork skips a test whose processes listen on every address, where the
// tests share the machine's network.
func ownNetwork(t *testing.T) {
	t.Helper()
	if os.Getenv(inside) == "" {
		t.Skip("a network namespace needs root")
	}
}

// runInside runs this program again, in a new network namespace.
func runInside() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), prepareDeadline)
	defer cancel()
	groups := slices.Concat(component.ControlPlane, component.LLMD)
	if _, err := component.Ensure(ctx, component.Options{Progress: os.Stderr}, groups...); err != nil {
		return 1, err
	}
	if _, err := definitions(ctx); err != nil {
		return 1, err
	}
	runtime.LockOSThread() // Pdeathsig is of the thread that starts the process
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), inside+"=1")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := again.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// definitions is the folder of the inference extension's CRDs, in the module
// that the picker is compiled from.
func definitions(ctx context.Context) (string, error) {
	source, err := component.FindSource()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "sigs.k8s.io/gateway-api-inference-extension")
	cmd.Dir = filepath.Join(source, string(component.Picker))
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find the inference extension's CRDs: %w: %s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("find the inference extension's CRDs: %w", err)
	}
	return filepath.Join(module.Dir, "config", "crd", "bases"), nil
}

// run starts one control plane for all tests of the package.
func run(m *testing.M) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), prepareDeadline)
	defer cancel()
	var err error
	if programs, err = component.Ensure(ctx, component.Options{Progress: os.Stderr}, component.LLMD...); err != nil {
		return 1, err
	}
	crds, err := definitions(ctx)
	if err != nil {
		return 1, err
	}
	started, err := controlplane.New(ctx, controlplane.WithNodes(1))
	if err != nil {
		return 1, err
	}
	defer started.Stop()
	plane = started.Config()
	_, err = envtest.InstallCRDs(plane, envtest.CRDInstallOptions{Paths: []string{crds}, ErrorIfPathMissing: true})
	if err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// loopback brings up the only interface of a new network namespace.
func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring up the loopback interface: %w", err)
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("bring up the loopback interface: %w", err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring up the loopback interface: %w", err)
	}
	return nil
}
