package cluster

import (
	"debug/elf"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/image"
)

// llmdPrograms are files that are read as static binaries, under the names of
// the real programs.
func llmdPrograms(t *testing.T) component.Programs {
	t.Helper()
	dir := t.TempDir()
	for _, routed := range LLMD() {
		file, err := os.Create(filepath.Join(dir, routed.program))
		if err != nil {
			t.Fatal(err)
		}
		header := elf.Header64{
			Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		}
		if err := binary.Write(file, binary.LittleEndian, header); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return component.Programs{Dir: dir}
}

func TestLLMDImagesAreRunAsTheirProjectsRunThem(t *testing.T) {
	images, err := llmdImages(llmdPrograms(t), "one")
	if err != nil {
		t.Fatal(err)
	}
	type run struct {
		User       string
		Entrypoint []string
	}
	got := map[string]run{}
	for ref, img := range images {
		file, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		got[ref] = run{file.Config.User, file.Config.Entrypoint}
	}
	want := map[string]run{
		"ghcr.io/llm-d/llm-d-inference-scheduler:v0.4.0":    {"65532:65532", []string{"/app/epp"}},
		"ghcr.io/llm-d/llm-d-routing-sidecar:v0.4.0":        {"65532:65532", []string{"/app/pd-sidecar"}},
		"cr.kgateway.dev/kgateway-dev/envoy-wrapper:v2.1.1": {"10101", []string{"/usr/local/bin/envoyinit"}},
		"docker.io/istio/proxyv2:1.28.1":                    {"1337:1337", []string{"/usr/local/bin/envoy"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the images run (-want +got):\n%s", diff)
	}
	for _, routed := range LLMD() {
		if full, err := image.FullName(routed.Ref); err != nil || full != routed.Ref {
			t.Errorf("%s isn't a full name, under which the store keeps it: %s, %v", routed.Ref, full, err)
		}
	}
}

func TestStoreKnowsItsBuildOfLLMD(t *testing.T) {
	programs := llmdPrograms(t)
	store := newImageStore(t.TempDir())
	have := func(build string) bool {
		t.Helper()
		held, err := store.all()
		if err != nil {
			t.Fatal(err)
		}
		return haveBuild(held, build)
	}
	if have("one") {
		t.Error("an empty store has the images")
	}
	for _, build := range []string{"one", "two"} {
		images, err := llmdImages(programs, build)
		if err != nil {
			t.Fatal(err)
		}
		last := LLMD()[len(LLMD())-1].Ref
		if err := store.put(map[string]v1.Image{last: images[last]}); err != nil {
			t.Fatal(err)
		}
		if have(build) {
			t.Errorf("with one image of build %s the store has all", build)
		}
		if err := store.put(images); err != nil {
			t.Fatal(err)
		}
		if !have(build) {
			t.Errorf("the store lacks the build %s that was put into it", build)
		}
	}
	if have("one") {
		t.Error("the store has a build that another took the place of")
	}
}

func TestNodesAreGivenWhatTheyLackButForLLMDs(t *testing.T) {
	img, err := random.Image(8, 1)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]v1.Image{"a:1": img, "b:1": img, "c:1": img, LLMD()[0].Ref: img}
	lacks, err := lacking(stored, map[string]string{"a:1": digest.String(), "b:1": "sha256:another"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b:1", "c:1"}, slices.Sorted(maps.Keys(lacks))); diff != "" {
		t.Errorf("what the node is given (-want +got):\n%s", diff)
	}
}
