// Package server runs the real Ollama server in tests: as a process on the
// loopback interface, or as the image that manifests name. It never downloads
// one; it is compiled with the components of the local cluster.
package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/image"
)

// Ref is the name of Ollama's image in manifests.
const Ref = "docker.io/ollama/ollama:latest"

// Program is the path of the server, which is compiled if the cache lacks it.
// Without a C compiler the error is component.ErrNoCompiler.
func Program(ctx context.Context) (string, error) {
	programs, err := component.Ensure(ctx, component.Options{Progress: os.Stderr}, component.Ollama)
	if err != nil {
		return "", err
	}
	return programs.Path("ollama"), nil
}

// Image is Ollama's image, for cluster.LoadImage, with the paths, user,
// variables and arguments of the one that the project publishes (its
// Dockerfile), and without its libraries for GPUs.
func Image(ctx context.Context) (v1.Image, error) {
	program, err := Program(ctx)
	if err != nil {
		return nil, err
	}
	built, err := image.Build(program, image.Config{
		Paths: []string{"/usr/bin/ollama", "/bin/ollama"},
		User:  "0:0", Entrypoint: []string{"/bin/ollama"}, Cmd: []string{"serve"},
		Uncompressed: true,
	})
	if err != nil {
		return nil, err
	}
	file, err := built.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Config.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"OLLAMA_HOST=0.0.0.0:11434",
		"NVIDIA_DRIVER_CAPABILITIES=compute,utility",
		"NVIDIA_VISIBLE_DEVICES=all",
	}
	return mutate.ConfigFile(built, file)
}

// Options say how a server runs.
type Options struct {
	// Address is where it listens, as HOST:PORT; a free port of the loopback
	// interface if empty.
	Address string
	// Models is the folder OLLAMA_MODELS; a temporary one if empty.
	Models string
	// Env are more variables, as NAME=value.
	Env []string
	// Space bounds the folder of the models to so many bytes, if not zero, which
	// needs root: the test skips without.
	Space int64
}

// Server is a running server.
type Server struct {
	// URL is its base URL.
	URL string
	// Models is the folder OLLAMA_MODELS.
	Models string

	log     *lastLines
	process *exec.Cmd
	ended   chan struct{}
	err     error
	swept   sync.Once
}

// startDeadline bounds how long a server may take until it listens.
const startDeadline = 30 * time.Second

// Start runs a server until the test ends, or Stop. It returns when the server
// answers. Without a C compiler the test is skipped.
func Start(t *testing.T, opts Options) *Server {
	t.Helper()
	program, err := Program(t.Context())
	if errors.Is(err, component.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if opts.Space > 0 && os.Geteuid() != 0 {
		t.Skip("a small file system needs root")
	}
	s := &Server{Models: opts.Models, log: &lastLines{}, ended: make(chan struct{})}
	if s.Models == "" {
		s.Models = t.TempDir()
	}
	address := opts.Address
	if address == "" {
		address = freeAddress(t)
	}
	s.URL = "http://" + address
	s.process = command(t.Context(), program, s.Models, opts.Space)
	s.process.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"OLLAMA_HOST=" + address, "OLLAMA_MODELS=" + s.Models,
	}, opts.Env...)
	output, err := s.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		t.Fatalf("start the Ollama server: %v", err)
	}
	listening := make(chan struct{})
	go s.watch(output, listening)
	t.Cleanup(func() {
		s.Stop(t, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the Ollama server wrote at last:\n%s", s.log)
		}
	})
	select {
	case <-listening:
	case <-s.ended:
		t.Fatalf("the Ollama server ended at once: %v\n%s", s.err, s.log)
	case <-time.After(startDeadline):
		t.Fatalf("the Ollama server doesn't listen after %v:\n%s", startDeadline, s.log)
	}
	s.greet(t)
	return s
}

// greet waits for an answer. The server listens a moment before it handles
// signals: one that comes in between ends it like any program.
func (s *Server) greet(t *testing.T) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: startDeadline}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("the Ollama server doesn't answer: %v\n%s", err, s.log)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
}

// command is the server's, in a mount namespace of its own if its space is
// bounded. Its processes end with it, and with the test.
func command(ctx context.Context, program, models string, space int64) *exec.Cmd {
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd := exec.CommandContext(ctx, program, "serve")
	if space > 0 {
		mount := `mount -t tmpfs -o size="$1" models "$2" && exec "$3" serve`
		cmd = exec.CommandContext(ctx, "/bin/sh", "-c", mount, "sh", fmt.Sprint(space), models, program)
		attributes.Unshareflags = syscall.CLONE_NEWNS
	}
	cmd.SysProcAttr = attributes
	return cmd
}

// watch reads what the server writes, and tells when it listens and ends.
func (s *Server) watch(output io.Reader, listening chan struct{}) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for once := false; lines.Scan(); {
		s.log.add(lines.Text())
		if !once && strings.Contains(lines.Text(), "Listening on") {
			once = true
			close(listening)
		}
	}
	s.err = s.process.Wait()
	close(s.ended)
}

// Stop sends the server a signal and returns its exit code when it has ended:
// -1 if a signal ended it. What it started ends with it.
func (s *Server) Stop(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	// It may have ended by itself.
	_ = s.process.Process.Signal(signal)
	select {
	case <-s.ended:
	case <-time.After(startDeadline):
		t.Errorf("the Ollama server runs on %v after %v", startDeadline, signal)
	}
	// Runners of models are in its process group.
	s.swept.Do(func() { _ = syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL) })
	<-s.ended
	return s.process.ProcessState.ExitCode()
}

// Folder is the folder of the models as this test sees it, also where it is on a
// file system of the server's own.
func (s *Server) Folder() string {
	return filepath.Join("/proc", strconv.Itoa(s.process.Process.Pid), "root", s.Models)
}

// Log is the end of what the server wrote.
func (s *Server) Log() string { return s.log.String() }

// freeAddress is an address of the loopback interface that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// lastLines keeps the end of a log.
type lastLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *lastLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	if len(l.lines) > 200 {
		l.lines = l.lines[1:]
	}
}

// String is the lines in order.
func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
