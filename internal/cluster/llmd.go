package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/image"
)

// Routed is an image that stands between a client and an inference engine, under
// the name that llm-d's manifests give it.
type Routed struct {
	// Ref is the image's name.
	Ref string
	// Is says what is in the image.
	Is string

	// program is compiled from localcluster/ and found at paths, all links to the
	// first; user runs the entrypoint, or the first path if there is none.
	program    string
	paths      []string
	user       string
	entrypoint []string
}

// LLMD are the images that ProvideLLMD gives a cluster. Their paths and users
// are those of the images that the projects publish (their Dockerfiles).
func LLMD() []Routed {
	const envoy = "/usr/local/bin/envoy"
	const standIn = "a stand-in for Envoy here, not Envoy"
	// The wrapper fills in its configuration and then is Envoy; the stand-in goes
	// by the name that it is called by.
	envoys := []string{envoy, "/usr/local/bin/envoyinit"}
	return []Routed{
		{
			Ref: "ghcr.io/llm-d/llm-d-inference-scheduler:v0.4.0", Is: "llm-d's endpoint picker, compiled from its source",
			program: "epp", paths: []string{"/app/epp"},
		},
		{
			Ref: "ghcr.io/llm-d/llm-d-routing-sidecar:v0.4.0", Is: "llm-d's routing sidecar, compiled from its source",
			program: "pd-sidecar", paths: []string{"/app/pd-sidecar"},
		},
		{
			Ref: "cr.kgateway.dev/kgateway-dev/envoy-wrapper:v2.1.1", Is: standIn,
			program: "envoy", paths: envoys, user: "10101", entrypoint: envoys[1:],
		},
		{
			Ref: "docker.io/istio/proxyv2:1.28.1", Is: standIn,
			program: "envoy", paths: envoys, user: "1337:1337",
		},
	}
}

// buildLabel on an image says which build its program is of.
const buildLabel = "slipway.dev/build"

// ProvideLLMD makes sure that a running cluster has the images that LLMD lists,
// so that every node can pull them, and says whether it had to give them.
// Programs that the cache lacks are compiled first, which takes two minutes,
// once. A cluster of simulated nodes alone runs no image and is given none. An
// interruption leaves the cluster as it was.
func ProvideLLMD(ctx context.Context, name string, opts component.Options) (given bool, err error) {
	f, spec, err := find(name)
	if err != nil || !spec.Namespaced() {
		return false, err
	}
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	cached, err := component.Cached(ctx, opts, component.LLMD...)
	if err != nil {
		return false, err
	}
	if !cached {
		fmt.Fprintln(opts.Progress, "the cluster is ready; what follows is for llm-d's images alone and may be interrupted")
	}
	programs, err := component.Ensure(ctx, opts, component.LLMD...)
	if err != nil {
		return false, err
	}
	build := filepath.Base(programs.Dir)
	held, err := newImageStore(f.images()).all()
	if err != nil || haveBuild(held, build) {
		return false, err
	}
	fmt.Fprintln(opts.Progress, "adding llm-d's images")
	images, err := llmdImages(programs, build)
	if err != nil {
		return false, err
	}
	return true, f.load(ctx, images)
}

// haveBuild says whether all images of LLMD are there, and of that build.
func haveBuild(held map[string]v1.Image, build string) bool {
	for _, routed := range LLMD() {
		img := held[routed.Ref]
		if img == nil {
			return false
		}
		file, err := img.ConfigFile()
		if err != nil || file.Config.Labels[buildLabel] != build {
			return false
		}
	}
	return true
}

// llmdImages makes the images of LLMD.
func llmdImages(programs component.Programs, build string) (map[string]v1.Image, error) {
	images := map[string]v1.Image{}
	byProgram := map[string]map[string]image.Config{}
	for _, routed := range LLMD() {
		if byProgram[routed.program] == nil {
			byProgram[routed.program] = map[string]image.Config{}
		}
		byProgram[routed.program][routed.Ref] = image.Config{
			Paths: routed.paths, User: routed.user, Entrypoint: routed.entrypoint, Uncompressed: true,
			Labels: map[string]string{buildLabel: build},
		}
	}
	for program, configs := range byProgram {
		built, err := image.BuildAll(programs.Path(program), configs)
		if err != nil {
			return nil, err
		}
		for ref, img := range built {
			images[ref] = img
		}
	}
	return images, nil
}

// load gives the nodes of a running cluster images under their names.
func (f folder) load(ctx context.Context, images map[string]v1.Image) (err error) {
	scratch, err := os.MkdirTemp(f.path(), ".give-")
	if err != nil {
		return fmt.Errorf("make a folder for images: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	path := filepath.Join(scratch, "images.tar")
	if err := image.WriteArchive(path, images); err != nil {
		return err
	}
	archive, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the images: %w", err)
	}
	defer archive.Close()
	return newControl(f).load(ctx, archive, nil)
}
