package cluster

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/cluster/config"
	"github.com/slipway-dev/slipway/internal/image"
	"github.com/slipway-dev/slipway/internal/version"
)

// StandIns are the images that manifests of the specifications name and that
// can't be pulled here. In a local cluster, Slipway's simulator takes their
// place under these very names.
func StandIns() []string {
	return []string{
		"your-registry/gpt-small:v1",
		"ghcr.io/llm-d/llm-d-inference-sim:v0.6.1",
		"ghcr.io/llm-d/llm-d-simulator:latest",
		"llm-d-simulator:local",
	}
}

// storeImages puts the images that a cluster holds from the start into its
// store: those of its own pods, the operator's, and the stand-ins.
func (u *upper) storeImages(programs component.Programs) error {
	images := map[string]v1.Image{}
	for ref, program := range map[string]string{config.PauseImage: "pause", config.CoreDNSImage: "coredns"} {
		img, err := image.Build(programs.Path(program), image.Config{Uncompressed: true})
		if err != nil {
			return err
		}
		images[ref] = img
	}
	const operator, simulator = "operator", "simulator"
	roles, err := image.BuildAll(u.folder.binary(), map[string]image.Config{
		operator:  {Uncompressed: true, Labels: image.Describe("slipway", version.Version, "")},
		simulator: {Uncompressed: true, Entrypoint: []string{image.Binary, "simulator"}},
	})
	if err != nil {
		return err
	}
	images[version.Image()] = roles[operator]
	for _, ref := range StandIns() {
		images[ref] = roles[simulator]
	}
	return newImageStore(u.folder.images()).put(images)
}
