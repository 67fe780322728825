package bundle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/slipway-dev/slipway/internal/chart"
	"github.com/slipway-dev/slipway/internal/olm"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/registry/bundle"
)

// What a chart remembers of how it was made.
const (
	annotationSource  = "slipway.dev/bundle"
	annotationDigest  = "slipway.dev/bundle-digest"
	annotationRequest = "slipway.dev/bundle-options"
)

// madeBefore is where a chart keeps the values that it was made with, so that an
// update can tell the user's own.
const madeBefore = ".slipway/values.yaml"

// options are those of a Request that an update repeats.
type options struct {
	Watch        []string `json:"watch,omitempty"`
	Exclude      []string `json:"exclude,omitempty"`
	Certificates string   `json:"certificates,omitempty"`
}

// Chart brings a bundle and writes it as a Helm chart into a directory that isn't
// there yet, or is empty.
func (m Maker) Chart(ctx context.Context, request Request, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s isn't empty; bring the chart in it up to date with slipway bundle update %s VERSION, or give another directory", dir, dir)
	}
	found, made, err := m.bring(ctx, request.Reference)
	if err != nil {
		return err
	}
	tree, err := m.tree(ctx, found, made, request)
	if err != nil {
		return err
	}
	fmt.Fprintf(m.Progress, "%s %s: a chart of %d files\n", made.Package, made.Version(), len(tree.Files))
	return replaceDirectory(dir, tree.Files)
}

// tree makes the files of a chart.
func (m Maker) tree(ctx context.Context, found bundle.Bundle, made *olm.Bundle, request Request) (chart.Chart, error) {
	from := request.Certificates
	switch from {
	case CertManager: // as if nothing were said
		from = ""
	case SelfSigned, Provided, "":
	default:
		return chart.Chart{}, fmt.Errorf("--certificates %q: write %s, %s or %s", from, CertManager, SelfSigned, Provided)
	}
	request.Namespace, request.Certificates = chart.Namespace, CertManager // templates make of it what the value says
	objects, err := m.objects(ctx, made, request)
	if err != nil {
		return chart.Chart{}, err
	}
	m.warn(made, objects)
	repeated, err := json.Marshal(options{Watch: request.Watch, Exclude: request.Exclude, Certificates: from})
	if err != nil {
		return chart.Chart{}, err
	}
	annotations := map[string]string{annotationSource: found.Source, annotationRequest: string(repeated)}
	if found.Digest != "" {
		annotations[annotationDigest] = found.Digest
	}
	tree, err := chart.Make(chart.Input{
		Name: made.Package, Version: made.Version(), Objects: objects, Annotations: annotations,
		Description:  strings.TrimSpace(cmp.Or(made.CSV.Spec.DisplayName, made.Package)) + ", from its OLM bundle",
		KubeVersion:  made.CSV.Spec.MinKubeVersion,
		Certificates: certificates(made), CertificatesFrom: from,
	})
	if err != nil {
		return chart.Chart{}, err
	}
	tree.Files[madeBefore] = tree.Files["values.yaml"]
	digests := map[string]string{}
	for name, text := range tree.Files {
		digests[name] = registry.Digest(text)
	}
	tree.Files[madeFiles], err = json.MarshalIndent(digests, "", "  ")
	return tree, err
}

// certificates are those that a bundle's webhooks are served with.
func certificates(made *olm.Bundle) []chart.Certificate {
	var list []chart.Certificate
	for _, service := range made.WebhookServices() {
		list = append(list, chart.Certificate{Service: service, Secret: olm.CertificateSecret(service)})
	}
	return list
}
