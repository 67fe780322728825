// Package component makes the programs of the local Kubernetes exist, and those
// of the images that go with it: it compiles them from their published Go
// modules, listed in the folder localcluster/, into a cache that every later
// start reuses. It never downloads a binary and never starts one of the
// programs.
package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/slipway-dev/slipway/internal/cluster/lock"
)

// KubernetesVersion is the version that the API server reports. It is the
// newest k8s.io/kubernetes that resolves, see localcluster/kubernetes/go.mod.
const KubernetesVersion = "v1.36.3"

// OllamaVersion is the version that the Ollama server reports. Newer ones leave
// files out of their module and don't compile from it.
const OllamaVersion = "0.9.6"

// Options say where the sources and the cache are, and who is told about
// progress.
type Options struct {
	// Source is the folder localcluster/ of a checkout; empty means FindSource.
	Source string
	// Cache is the folder that keeps what was built; empty means CacheDir.
	Cache string
	// Progress receives what a compile is doing; nil discards it. On a terminal
	// it shows a bar in place, elsewhere plain lines.
	Progress io.Writer
}

// Programs are compiled programs, by name.
type Programs struct {
	// Dir holds a link to each program under its own name, so that it can serve
	// as KUBEBUILDER_ASSETS or in PATH.
	Dir string
}

// Path is the path of a program.
func (p Programs) Path(name string) string { return filepath.Join(p.Dir, name) }

// Ensure returns the programs of the named groups, and compiles those that the
// cache lacks. Processes that need the same group at the same time wait for one
// of them to build it. The first build of everything takes several minutes.
func Ensure(ctx context.Context, opts Options, groups ...Group) (Programs, error) {
	b, err := newBuilder(ctx, opts)
	if err != nil {
		return Programs{}, err
	}
	dirs := make(map[Group]string, len(groups))
	for _, g := range groups {
		m, ok := modules[g]
		if !ok {
			return Programs{}, fmt.Errorf("no component group %q", g)
		}
		if dirs[g], err = b.ensureModule(ctx, g, m); err != nil {
			return Programs{}, err
		}
	}
	return b.link(groups, dirs)
}

// Cached says whether Ensure would find all the programs of the named groups
// compiled.
func Cached(ctx context.Context, opts Options, groups ...Group) (bool, error) {
	b, err := newBuilder(ctx, opts)
	if err != nil {
		return false, err
	}
	for _, g := range groups {
		dir, err := b.dir(g, modules[g])
		if err != nil {
			return false, err
		}
		if _, err := os.Stat(dir); err != nil {
			return false, nil
		}
	}
	return true, nil
}

// CacheDir is the folder for what Slipway builds once: $SLIPWAY_CACHE, or
// slipway in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv("SLIPWAY_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "slipway"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || home == "" {
		return "", errors.New("no folder for the cache: set SLIPWAY_CACHE or HOME")
	}
	return filepath.Join(home, ".cache", "slipway"), nil
}

// FindSource finds the folder localcluster/ of a checkout: where
// $SLIPWAY_LOCALCLUSTER says, above the working directory, or above the running
// binary, in that order.
func FindSource() (string, error) {
	if dir := os.Getenv("SLIPWAY_LOCALCLUSTER"); dir != "" {
		if isSource(dir) {
			return filepath.Abs(dir)
		}
		return "", fmt.Errorf("SLIPWAY_LOCALCLUSTER=%s is not the localcluster folder of a Slipway checkout", dir)
	}
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			if candidate := filepath.Join(dir, "localcluster"); isSource(candidate) {
				return candidate, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("the sources of the local Kubernetes are not here: run slipway inside a checkout of github.com/slipway-dev/slipway, or set SLIPWAY_LOCALCLUSTER to its localcluster folder")
}

func isSource(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, string(Kubernetes), "go.mod"))
	return err == nil
}

// builder compiles groups for one cache, source and Go version.
type builder struct {
	source    string
	cache     string
	goVersion string
	progress  io.Writer
}

func newBuilder(ctx context.Context, opts Options) (*builder, error) {
	b := &builder{source: opts.Source, cache: opts.Cache, progress: opts.Progress}
	var err error
	if b.source == "" {
		if b.source, err = FindSource(); err != nil {
			return nil, err
		}
	}
	if b.cache == "" {
		if b.cache, err = CacheDir(); err != nil {
			return nil, err
		}
	}
	if b.progress == nil {
		b.progress = io.Discard
	}
	if b.goVersion, err = goVersion(ctx, b.source); err != nil {
		return nil, err
	}
	return b, nil
}

// dir is the folder for the programs of a group; it exists when they are all
// there.
func (b *builder) dir(g Group, m module) (string, error) {
	key, err := m.key(filepath.Join(b.source, string(g)), b.goVersion, runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil {
		return "", fmt.Errorf("read the sources of %s: %w", g, err)
	}
	return filepath.Join(b.cache, "localcluster", fmt.Sprintf("%s-%s", g, key)), nil
}

// ensureModule returns the folder with the programs of a group. The folder is
// renamed into place when it is complete, so a half-built one is never seen.
func (b *builder) ensureModule(ctx context.Context, g Group, m module) (string, error) {
	dir, err := b.dir(g, m)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	root := filepath.Dir(dir)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	held, err := lock.Acquire(ctx, dir+".lock", func() {
		fmt.Fprintf(b.progress, "waiting for another process that compiles %s\n", g)
	})
	if err != nil {
		return "", err
	}
	defer held.Release()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	prefix := fmt.Sprintf(".build-%s-", filepath.Base(dir))
	sweep(filepath.Join(root, prefix+"*"))
	temporary, err := os.MkdirTemp(root, prefix)
	if err != nil {
		return "", fmt.Errorf("make a folder to build in: %w", err)
	}
	defer os.RemoveAll(temporary)
	if err := b.compile(ctx, g, m, temporary); err != nil {
		return "", err
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return "", err
	}
	return dir, os.Rename(temporary, dir)
}

// sweep removes what builders left that were killed. The lock must be held.
func sweep(pattern string) {
	left, err := filepath.Glob(pattern)
	if err != nil {
		return
	}
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
}

// link gathers the programs of several groups in one folder of symbolic links.
// Its name follows from what it links to, so it never changes under a reader.
func (b *builder) link(groups []Group, dirs map[Group]string) (Programs, error) {
	name := digest(func(w io.Writer) {
		for _, g := range groups {
			fmt.Fprintln(w, dirs[g])
		}
	})
	dir := filepath.Join(b.cache, "localcluster", "programs-"+name)
	if _, err := os.Stat(dir); err == nil {
		return Programs{Dir: dir}, nil
	}
	temporary, err := os.MkdirTemp(filepath.Dir(dir), ".programs-")
	if err != nil {
		return Programs{}, fmt.Errorf("make a folder of programs: %w", err)
	}
	defer os.RemoveAll(temporary)
	for _, g := range groups {
		for program := range modules[g].programs {
			// Relative, so that the links hold where the cache is mounted elsewhere.
			target := filepath.Join("..", filepath.Base(dirs[g]), program)
			if err := os.Symlink(target, filepath.Join(temporary, program)); err != nil {
				return Programs{}, fmt.Errorf("link %s: %w", program, err)
			}
		}
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return Programs{}, err
	}
	if err := os.Rename(temporary, dir); err != nil && !errors.Is(err, os.ErrExist) {
		if _, statErr := os.Stat(dir); statErr != nil {
			return Programs{}, fmt.Errorf("place the folder of programs: %w", err)
		}
	}
	return Programs{Dir: dir}, nil
}
