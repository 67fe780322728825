// Command images builds and pushes the operator's image for every architecture,
// without Docker. It is what make docker-build and make docker-push run, from
// the repository's root.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slipway-dev/slipway/internal/image"
)

const usage = `usage:
  images build [-output DIR] [-ldflags FLAGS] REGISTRY/NAME:TAG   compile and assemble into an OCI layout
  images push [-input DIR] REGISTRY/NAME:TAG                      push what build made`

// architectures are those that an image is built for.
var architectures = []string{"amd64", "arm64"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run runs one of the two commands. The result goes to out, progress to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	output := flags.String("output", "dist/image", "directory of the OCI layout that is written")
	input := flags.String("input", "dist/image", "directory of the OCI layout that is pushed")
	ldflags := flags.String("ldflags", "", "flags of the linker")
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() != 1 {
		return fmt.Errorf("one image name, please\n%s", usage)
	}
	ref := flags.Arg(0)
	switch args[0] {
	case "build":
		return build(ctx, ref, *output, *ldflags, out, progress)
	case "push":
		return push(ctx, ref, *input, out)
	default:
		return fmt.Errorf("unknown command %q\n%s", args[0], usage)
	}
}

// build compiles the binary for each architecture and writes their index.
func build(ctx context.Context, ref, output, ldflags string, out, progress io.Writer) error {
	full, err := image.FullName(ref)
	if err != nil {
		return err
	}
	created, revision, err := commit(ctx)
	if err != nil {
		return err
	}
	labels := image.Describe("Slipway", full[strings.LastIndex(full, ":")+1:], revision)
	images := make([]v1.Image, 0, len(architectures))
	for _, architecture := range architectures {
		fmt.Fprintf(progress, "compiling for linux/%s (the first time takes minutes)\n", architecture)
		binary := filepath.Join(filepath.Dir(output), "slipway-linux-"+architecture)
		if err := compile(ctx, architecture, binary, ldflags, progress); err != nil {
			return err
		}
		built, err := image.Build(binary, image.Config{Cmd: []string{"operator"}, Labels: labels, Created: created})
		if err != nil {
			return err
		}
		images = append(images, built)
	}
	index, err := image.Index(labels, images...)
	if err != nil {
		return err
	}
	if err := image.WriteLayout(output, ref, index); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s@%s for linux/%s is in %s\n", full, digest, strings.Join(architectures, " and linux/"), output)
	return err
}

// push pushes what build wrote.
func push(ctx context.Context, ref, input string, out io.Writer) error {
	index, err := image.ReadLayout(input, ref)
	if err != nil {
		return err
	}
	pushed, err := image.Push(ctx, ref, index)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "pushed", pushed)
	return err
}

// compile builds the static binary for an architecture. -trimpath and the empty
// build ID make the same source the same binary.
func compile(ctx context.Context, architecture, binary, ldflags string, progress io.Writer) error {
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", strings.TrimSpace("-s -w -buildid= "+ldflags), "-o", binary, "./cmd/slipway")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	command.Stdout, command.Stderr = progress, progress
	if err := command.Run(); err != nil {
		return fmt.Errorf("compile for linux/%s: %w", architecture, err)
	}
	return nil
}

// commit is when the source was committed, and as what. SOURCE_DATE_EPOCH wins
// over the commit (reproducible-builds.org); without either, as in a source
// archive, an image is of the epoch.
func commit(ctx context.Context) (created time.Time, revision string, err error) {
	output, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct %H").Output()
	if err != nil {
		output = []byte("0")
	}
	seconds, revision, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	count, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, "", fmt.Errorf("SOURCE_DATE_EPOCH: %q is no count of seconds", seconds)
	}
	return time.Unix(count, 0), revision, nil
}
