package stack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/chart"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// semantic is a version that a chart may have.
var semantic = regexp.MustCompile(`^v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// noVersion is the version of a chart whose objects have none.
const noVersion = "0.0.0"

// wrap makes a chart of objects, in memory: definitions apart, namespaces beside
// it, whatever looks like a template as it is.
func (p *pass) wrap(name, version, kubeVersion string, certificates []chart.Certificate, objects []*unstructured.Unstructured) (*made, error) {
	wrapped := &made{certificates: certificates}
	for _, each := range objects {
		own := each.DeepCopy()
		if isNamespace(own) {
			wrapped.namespaces = append(wrapped.namespaces, own)
			continue
		}
		wrapped.objects = append(wrapped.objects, own)
	}
	if !semantic.MatchString(version) {
		version = noVersion
	}
	tree, err := chart.Make(chart.Input{
		Name: name, Version: strings.TrimPrefix(version, "v"), KubeVersion: kubeVersion, Objects: wrapped.objects,
		Certificates: certificates, Description: "Made by Slipway for PlatformStack " + p.stack.Name,
	})
	if err != nil {
		return nil, condition.Stop(condition.ReasonInvalidObject, "%w", err)
	}
	packed, err := pack(object.Name(name), tree.Files)
	if err != nil {
		return nil, err
	}
	wrapped.archive = packed
	if wrapped.chart, err = helm.LoadArchive(packed); err != nil {
		return nil, condition.Stop(condition.ReasonInvalidObject, "%w", err)
	}
	return wrapped, nil
}

const kindDefinition = "CustomResourceDefinition"

func isNamespace(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Namespace" && o.GroupVersionKind().Group == ""
}

// marks tell whose an object is. Definitions stay when the stack goes: the mark tells
// later that they aren't an installation from elsewhere.
func (p *pass) marks() map[string]string {
	return map[string]string{platformstack.LabelStack: p.stack.Name}
}

// pack makes the archive of a chart: the same bytes of the same files.
func pack(name string, files map[string][]byte) ([]byte, error) {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name + "/" + file, Mode: 0o644, Size: int64(len(files[file])), Format: tar.FormatPAX}
		err := archive.WriteHeader(header)
		if err == nil {
			_, err = archive.Write(files[file])
		}
		if err != nil {
			return nil, fmt.Errorf("pack a chart: %w", err)
		}
	}
	err := errors.Join(archive.Close(), zipped.Close())
	return packed.Bytes(), err
}

// definitions are all that a component defines.
func (m *made) definitions() ([]*unstructured.Unstructured, error) {
	if m.objects != nil {
		return definitionsOf(m.objects), nil
	}
	var found []*unstructured.Unstructured
	for _, text := range m.chart.CRDs() {
		objects, err := parse(text)
		if err != nil {
			return nil, condition.Stop(condition.ReasonInvalidObject, "the chart's crds/: %w", err)
		}
		found = append(found, objects...)
	}
	return found, nil
}

// definitionsOf are those among objects.
func definitionsOf(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, each := range objects {
		if each.GetKind() == kindDefinition {
			found = append(found, each)
		}
	}
	return found
}
