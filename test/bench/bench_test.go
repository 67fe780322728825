// Package bench measures the budgets of the design against a baseline in the
// same run (`make bench`). Figures on one machine say little; ratios hold.
package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
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

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slipway-dev/slipway/internal/cluster"
	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/test/controlplane"
)

const (
	// simulatedNodes hold 1,000 pods each.
	simulatedNodes = 5
	// writers is the concurrency of whoever writes, the operator included.
	writers = 16
	// patience bounds every wait.
	patience = 5 * time.Minute
)

// world is a control plane with the CRDs in it.
type world struct {
	tb     testing.TB
	plane  *cluster.ControlPlane
	config *rest.Config
	client client.WithWatch
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	log.SetLogger(logr.Discard())
	plane := controlplane.StartPlane(tb, controlplane.WithNodes(simulatedNodes))
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the API server's last words:\n%s", plane.Log("kube-apiserver"))
		}
	})
	config := plane.Config()
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := controller.AddToScheme(scheme); err != nil {
		tb.Fatal(err)
	}
	made, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		tb.Fatal(err)
	}
	_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{"../../config/crd"}, ErrorIfPathMissing: true})
	if err != nil {
		tb.Fatal(err)
	}
	return &world{tb: tb, plane: plane, config: config, client: made}
}

func (w *world) namespace(name string) {
	w.tb.Helper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := w.client.Create(context.Background(), made); err != nil {
		w.tb.Fatal(err)
	}
}

// inOrder puts objects into the order in which the operator makes them.
func inOrder(objects []*unstructured.Unstructured) {
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return object.Compare(object.Of(a), object.Of(b)) })
}

// operator is a running `slipway operator` process.
type operator struct {
	tb      testing.TB
	command *exec.Cmd
	metrics string
}

// binary builds the program once for the whole run.
func binary(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "slipway")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../../cmd/slipway")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build slipway: %v\n%s", err, out)
	}
	return path
}

// startOperator runs the operator until it serves its metrics.
func startOperator(w *world, path string) *operator {
	w.tb.Helper()
	address := freeAddress(w.tb)
	o := &operator{tb: w.tb, metrics: "http://" + address + "/metrics"}
	o.command = exec.Command(path, "operator", "--metrics-bind-address", address,
		"--health-probe-bind-address", "0", "--concurrency", strconv.Itoa(writers), "--log-level", "error")
	o.command.Env = append(os.Environ(), "KUBECONFIG="+w.plane.Kubeconfig())
	o.command.Stderr = os.Stderr
	o.command.SysProcAttr = &syscall.SysProcAttr{}
	if err := o.command.Start(); err != nil {
		w.tb.Fatal(err)
	}
	w.tb.Cleanup(o.stop)
	eventually(w.tb, "the operator serves its metrics", func() bool {
		response, err := http.Get(o.metrics)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return o
}

// stop ends the operator and waits for it. It may be called again.
func (o *operator) stop() {
	if o.command.ProcessState != nil {
		return
	}
	_ = o.command.Process.Signal(syscall.SIGTERM)
	_ = o.command.Wait()
}

// requests is how many requests the operator has made: reads and writes. A watch
// that is opened anew counts as a read.
func (o *operator) requests() (reads, writes int) {
	o.tb.Helper()
	const counter, get = "rest_client_requests_total{", `method="GET"`
	all, gets := o.sum(counter, ""), o.sum(counter, get)
	return int(gets), int(all - gets)
}

// sum adds up what a metric says whose line begins with a name and has a label.
func (o *operator) sum(name, label string) float64 {
	o.tb.Helper()
	response, err := http.Get(o.metrics)
	if err != nil {
		o.tb.Fatal(err)
	}
	defer response.Body.Close()
	total := 0.0
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, name) || !strings.Contains(line, label) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			o.tb.Fatal(err)
		}
		total += value
	}
	return total
}

// passes is how often the operator's controllers have looked at a resource.
func (o *operator) passes() float64 {
	o.tb.Helper()
	return o.sum("controller_runtime_reconcile_total{", "")
}

// cpu is the processor time that the operator has used.
func (o *operator) cpu() time.Duration {
	o.tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", o.command.Process.Pid))
	if err != nil {
		o.tb.Fatal(err)
	}
	// After the name in parentheses; utime and stime are fields 14 and 15 of
	// proc(5), in ticks of which there are 100 a second.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			o.tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// peakMemory is the most resident memory that the operator has had, in MiB.
func (o *operator) peakMemory() float64 {
	o.tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.command.Process.Pid))
	if err != nil {
		o.tb.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if kib, is := strings.CutPrefix(line, "VmHWM:"); is {
			value, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kib), " kB"))
			if err != nil {
				o.tb.Fatal(err)
			}
			return float64(value) / 1024
		}
	}
	o.tb.Fatal("no VmHWM in the process's status")
	return 0
}

func freeAddress(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// eventually polls what has no event to wait for.
func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-timeout:
			tb.Fatalf("%s: not after %s", what, patience)
		}
	}
}
