package component

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoCompiler says that a group holds C or C++ and the machine has no compiler
// for it. No cluster needs such a group.
var ErrNoCompiler = errors.New("a C and a C++ compiler are needed")

// maxErrorLines bounds what a failed compile quotes of the compiler's output.
const maxErrorLines = 12

// buildFlags are the flags of go build. The programs are static, so that they
// run in any mount namespace and in an empty image.
func buildFlags(m module) []string {
	ldflags := append([]string{"-s", "-w"}, m.ldflags...)
	if m.cgo {
		ldflags = append(ldflags, "-linkmode", "external", "-extldflags", "-static")
	}
	flags := []string{"-trimpath", "-ldflags", strings.Join(ldflags, " ")}
	if len(m.tags) > 0 {
		flags = append(flags, "-tags", strings.Join(m.tags, ","))
	}
	return flags
}

// goCommand runs the go command in a nested module, shielded from a workspace
// and from flags that the user set for other projects.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	return cmd
}

// buildCommand runs a go command about what a module is compiled from.
func buildCommand(ctx context.Context, dir string, m module, args ...string) *exec.Cmd {
	cmd := goCommand(ctx, dir, args...)
	if m.cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	return cmd
}

// findCompilers returns ErrNoCompiler if a module needs a C compiler and the
// machine has none.
func findCompilers(ctx context.Context, dir string, m module) error {
	if !m.cgo {
		return nil
	}
	out, err := buildCommand(ctx, dir, m, "env", "CC", "CXX").Output()
	if err != nil {
		return fmt.Errorf("ask go for its C compiler: %w", err)
	}
	for command := range strings.Lines(string(out)) {
		// It may come with flags.
		name, _, _ := strings.Cut(strings.TrimSpace(command), " ")
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: there is no %s in PATH (Debian: apt-get install gcc g++)", ErrNoCompiler, name)
		}
	}
	return nil
}

func goVersion(ctx context.Context, source string) (string, error) {
	out, err := goCommand(ctx, filepath.Join(source, string(Kubernetes)), "env", "GOVERSION").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("the local Kubernetes is compiled from source, which needs Go: install it from https://go.dev/dl and put it in PATH")
	}
	if err != nil {
		return "", fmt.Errorf("ask go for its version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// compile builds the programs of a module into dir.
func (b *builder) compile(ctx context.Context, g Group, m module, dir string) error {
	source := filepath.Join(b.source, string(g))
	if err := findCompilers(ctx, source, m); err != nil {
		return fmt.Errorf("compile %s: %w", g, err)
	}
	meter := newMeter(b.progress, string(g))
	total, err := countStale(ctx, source, m)
	if err != nil {
		return err
	}
	meter.start(total)
	args := append([]string{"build", "-v"}, buildFlags(m)...)
	args = append(args, "-o", dir+string(filepath.Separator))
	cmd := buildCommand(ctx, source, m, append(args, m.packages()...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start go build: %w", err)
	}
	messages := watchBuild(stderr, meter)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("compiling %s was interrupted: %w", g, ctx.Err())
		}
		return fmt.Errorf("compile %s in %s: %w: %s", g, source, err, strings.Join(messages, "; "))
	}
	meter.finish()
	return rename(m, dir)
}

// rename gives each program its own name where the go command chose another.
func rename(m module, dir string) error {
	for program, pkg := range m.programs {
		built := goName(pkg)
		if built == program {
			continue
		}
		if err := os.Rename(filepath.Join(dir, built), filepath.Join(dir, program)); err != nil {
			return fmt.Errorf("name the program %s: %w", program, err)
		}
	}
	return nil
}

// watchBuild counts the packages that go build -v names as it compiles them,
// and keeps its last other lines, which are errors. It returns at the end of
// the stream.
func watchBuild(stderr io.Reader, meter *meter) []string {
	var messages []string
	lines := bufio.NewScanner(stderr)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			meter.download(strings.TrimPrefix(line, "go: downloading "))
		case isPackage(line):
			meter.compiled(line)
		case line != "":
			messages = append(messages, line)
			if len(messages) > maxErrorLines {
				messages = messages[1:]
			}
		}
	}
	_, _ = io.Copy(io.Discard, stderr)
	return messages
}

// isPackage tells a package path, as go build -v prints it, from a message.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " :#\t")
}

// countStale asks the go command how many packages it will compile. Modules
// that are missing are downloaded by this, as by any build.
func countStale(ctx context.Context, source string, m module) (int, error) {
	args := append([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, buildFlags(m)...)
	cmd := buildCommand(ctx, source, m, append(args, m.packages()...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		text := strings.Join(strings.Fields(problems.String()), " ")
		if len(text) > 600 {
			text = "… " + text[len(text)-600:]
		}
		return 0, fmt.Errorf("list the packages in %s (modules come through GOPROXY; is it reachable?): %w: %s", source, err, text)
	}
	return bytes.Count(out.Bytes(), []byte("\n")), nil
}
