// Package charts brings the charts of an Llmd into a directory: for a cluster
// without a network, and for people to see what would be released before it is. It
// fetches and renders as the operator does, asks no cluster, and installs nothing.
package charts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// What is written into the directory beside the archives and their index.yaml.
const (
	// ImagesFile lists images, one on a line.
	ImagesFile = "images.txt"
	// ManifestsDir holds a file for each release, in the order of the releases.
	ManifestsDir = "manifests"
)

// renderTimeout bounds rendering; no cluster is asked, so that it is never reached.
const renderTimeout = time.Minute

// Vendorer fetches charts.
type Vendorer struct {
	Registry *registry.Client
	// Dir is where to; it is made if it isn't there.
	Dir string
	// KubeVersion is what charts are told, such as v1.36.0; the SDK's own if empty.
	KubeVersion string
	// Progress takes a line for each chart.
	Progress io.Writer
}

// Vendor fetches the charts that an Llmd asks for, renders them, and returns the
// images that they refer to, sorted. Archives are written before anything is
// rendered, so that a chart that can't be rendered for want of values is there all
// the same; the error then says so.
func (v *Vendorer) Vendor(ctx context.Context, input llmd.Input) ([]string, error) {
	releases := llmd.Releases(input)
	if len(releases) == 0 {
		return nil, errors.New("no chart is enabled, so there is nothing to fetch; enable one in the manifest")
	}
	archives, err := v.fetch(ctx, releases)
	if err != nil {
		return nil, err
	}
	images, err := v.renderAll(releases, archives)
	text := strings.Join(images, "\n")
	if text != "" {
		text += "\n"
	}
	return images, errors.Join(err, os.WriteFile(filepath.Join(v.Dir, ImagesFile), []byte(text), 0o644))
}

// fetch brings all charts, and writes them if it got them all.
func (v *Vendorer) fetch(ctx context.Context, releases []llmd.Release) ([]registry.Archive, error) {
	archives, vendored := []registry.Archive{}, []registry.Vendored{}
	for _, release := range releases {
		if release.Fault != nil {
			return nil, fmt.Errorf("%s: %s; give it with -f beside the resource if it is another manifest", llmd.Title(release.Component), condition.Classify(release.Fault).Message)
		}
		archive, err := v.Registry.Chart(ctx, registry.Chart(release.Chart), registry.Credentials(release.Credentials))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", llmd.Title(release.Component), err)
		}
		fmt.Fprintf(v.Progress, "%s: chart %s %s, %s\n", llmd.Title(release.Component), archive.Name, archive.Version, archive.Digest)
		archives = append(archives, archive)
		vendored = append(vendored, registry.Vendored{Repository: release.Chart.Repository, Archive: archive})
	}
	return archives, registry.WriteVendored(v.Dir, vendored)
}

// renderAll writes the manifests of all releases, in place of those that are there,
// and returns their images.
func (v *Vendorer) renderAll(releases []llmd.Release, archives []registry.Archive) ([]string, error) {
	dir := filepath.Join(v.Dir, ManifestsDir)
	if err := clearManifests(dir); err != nil {
		return nil, err
	}
	var images []string
	var faults []error
	for i, release := range releases {
		text, err := v.render(release, archives[i])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: the chart was fetched, but can't be rendered: %w; give the values that it needs in the resource with -f", llmd.Title(release.Component), err))
			continue
		}
		found, err := Images(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", llmd.Title(release.Component), err)
		}
		images = append(images, found...)
		file := filepath.Join(dir, fmt.Sprintf("%d-%s.yaml", i+1, release.Name))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	slices.Sort(images)
	return slices.Compact(images), errors.Join(faults...)
}

// clearManifests removes what was rendered formerly, and nothing else.
func clearManifests(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "[0-9]-*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// render gives all objects of a release: the CRDs, the templates and the hooks.
func (v *Vendorer) render(release llmd.Release, archive registry.Archive) (string, error) {
	plain, err := hooksAsTemplates(archive)
	if err != nil {
		return "", err
	}
	chart, err := helm.LoadArchive(plain)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, crd := range chart.CRDs() {
		fmt.Fprintf(&text, "---\n%s\n", strings.TrimSpace(strings.TrimPrefix(string(crd), "---\n")))
	}
	request := helm.Request{Name: release.Name, Chart: chart, Values: release.Values, Timeout: renderTimeout}
	rendered, err := helm.Template(request, release.Namespace, v.KubeVersion)
	if err != nil {
		return "", err
	}
	text.WriteString(strings.ReplaceAll(rendered, templateMark, hookMark))
	return text.String(), nil
}
