package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	wholejson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/chart"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/olm"
	"github.com/slipway-dev/slipway/internal/registry"
)

// madeFiles is where a chart keeps the digests of the files that it was made with.
const madeFiles = ".slipway/files.json"

// Bounds of a chart on disk.
const (
	maxChartFiles = 10_000
	maxChartFile  = 16 << 20
)

// anyKubernetes is new enough for whatever a chart asks for: it is only compared.
const anyKubernetes = "v1.999.0"

// Update says what an update of a chart is.
type Update struct {
	// Dir is the chart.
	Dir string
	// Version takes the place of the tag of the bundle that the chart was made of; or
	// Reference names another bundle.
	Version, Reference string
	// DryRun writes nothing.
	DryRun bool
}

// Updated says what an update changes.
type Updated struct {
	From, To string // versions
	olm.Difference
	// Kept are the user's own values, Dropped those that the new chart has no place
	// for, by their paths.
	Kept, Dropped []string
}

// Update brings a chart up to date with another version of its bundle. Values that
// the user has changed stay, and so do files that are the user's. With a stored
// version gone, or a file of the chart changed by hand, nothing is written.
func (m Maker) Update(ctx context.Context, update Update) (Updated, error) {
	dir, err := located(update.Dir)
	if err != nil {
		return Updated{}, err
	}
	files, err := readChart(dir)
	if err != nil {
		return Updated{}, err
	}
	request, version, err := remembered(files, update)
	if err != nil {
		return Updated{}, fmt.Errorf("%s: %w", update.Dir, err)
	}
	before, err := chartObjects(dir, files)
	if err != nil {
		return Updated{}, err
	}
	found, bundle, err := m.bring(ctx, request.Reference)
	if err != nil {
		return Updated{}, err
	}
	tree, err := m.tree(ctx, found, bundle, request)
	if err != nil {
		return Updated{}, err
	}
	request.Namespace, request.Certificates = chart.Namespace, CertManager
	after, err := m.objects(ctx, bundle, request)
	if err != nil {
		return Updated{}, err
	}
	made := Updated{From: version, To: bundle.Version(), Difference: olm.Compare(before, after)}
	for _, lines := range [][]string{made.Images, made.Gained, made.Lost} {
		for i := range lines {
			lines[i] = strings.ReplaceAll(lines[i], chart.Namespace, "NAMESPACE")
		}
	}
	if err := m.merge(&made, tree, files); err != nil {
		return Updated{}, fmt.Errorf("%s: %w", update.Dir, err)
	}
	if len(made.Errors) > 0 {
		return made, fmt.Errorf("%s isn't updated: %s", update.Dir, made.Errors[0])
	}
	if update.DryRun {
		return made, nil
	}
	return made, replaceDirectory(dir, tree.Files)
}

// readChart reads all files of a chart.
func readChart(dir string) (map[string][]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("there is no chart in %s: %w", dir, err)
	}
	defer func() { _ = root.Close() }() // It was only read.
	files := map[string][]byte{}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() || len(files) >= maxChartFiles {
			return fmt.Errorf("%s: %s is a link or no regular file, or there are too many; keep only the chart there", dir, name)
		}
		file, err := root.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, maxChartFile+1))
		if err == nil && len(text) > maxChartFile {
			err = fmt.Errorf("%s: %s has more than %d MiB; keep only the chart there", dir, name, maxChartFile>>20)
		}
		files[name] = text
		return err
	})
	return files, err
}

// remembered is how a chart was made, and its version.
func remembered(files map[string][]byte, update Update) (Request, string, error) {
	var metadata struct {
		Version     string            `json:"version"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.Unmarshal(files["Chart.yaml"], &metadata); err != nil {
		return Request{}, "", fmt.Errorf("Chart.yaml can't be read: %w", err)
	}
	source := metadata.Annotations[annotationSource]
	var chosen options
	if source == "" || json.Unmarshal([]byte(metadata.Annotations[annotationRequest]), &chosen) != nil {
		return Request{}, "", errors.New("slipway bundle chart hasn't made this chart, or its annotations were removed; make it again")
	}
	request := Request{Reference: update.Reference, Watch: chosen.Watch, Exclude: chosen.Exclude, Certificates: chosen.Certificates}
	if request.Reference != "" {
		return request, metadata.Version, nil
	}
	image, _, _ := strings.Cut(source, "@")
	slash := strings.LastIndex(image, "/")
	repository, _, tagged := strings.Cut(image[slash+1:], ":")
	if !tagged && image == source {
		return Request{}, "", fmt.Errorf("it was made of %s, which isn't an image with a tag; name the new bundle with --from", source)
	}
	request.Reference = image[:slash+1] + repository + ":" + update.Version
	if strings.HasPrefix(update.Version, "sha256:") {
		request.Reference = image[:slash+1] + repository + "@" + update.Version
	}
	return request, metadata.Version, nil
}

// chartObjects are those that a chart renders to with the values that it was made
// with, so that the user's own count for no difference.
func chartObjects(dir string, files map[string][]byte) ([]*unstructured.Unstructured, error) {
	loaded, err := helm.Load(os.DirFS(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if err := yaml.Unmarshal(files[madeBefore], &values); err != nil {
		return nil, fmt.Errorf("%s: %s can't be read: %w", dir, madeBefore, err)
	}
	text, err := helm.Template(helm.Request{Name: "update", Chart: loaded, Values: values}, chart.Namespace, anyKubernetes)
	if err != nil {
		return nil, fmt.Errorf("%s can't be rendered: %w", dir, err)
	}
	documents := []string{text}
	for _, each := range loaded.CRDs() {
		documents = append(documents, string(each))
	}
	return parseAll(documents)
}

// parseAll reads the documents of several texts.
func parseAll(list []string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, each := range list {
		for document := range strings.SplitSeq("\n"+each, "\n---") {
			obj := &unstructured.Unstructured{}
			text, err := yaml.YAMLToJSON([]byte(document))
			if err == nil {
				err = wholejson.Unmarshal(text, &obj.Object)
			}
			if err != nil {
				return nil, fmt.Errorf("the chart renders to what is no YAML: %w", err)
			}
			if len(obj.Object) > 0 {
				objects = append(objects, obj)
			}
		}
	}
	return objects, nil
}

// merge puts the user's values and files into a new tree.
func (m Maker) merge(made *Updated, tree chart.Chart, files map[string][]byte) error {
	var digests map[string]string
	if err := json.Unmarshal(files[madeFiles], &digests); err != nil {
		return fmt.Errorf("%s can't be read; make the chart again", madeFiles)
	}
	for _, name := range sortedNames(files) {
		digest, ours := digests[name]
		switch {
		case name == "values.yaml" || path.Dir(name) == ".slipway":
		case ours && registry.Digest(files[name]) != digest:
			return fmt.Errorf("%s was changed by hand, and an update would undo that; put the change into values.yaml or a file of your own, and the file back as it was", name)
		case !ours:
			if _, taken := tree.Files[name]; taken {
				return fmt.Errorf("%s is yours, and the new version has a file of that name; rename it", name)
			}
			tree.Files[name] = files[name]
		}
	}
	var base, mine map[string]any
	if err := errors.Join(yaml.Unmarshal(files[madeBefore], &base), yaml.Unmarshal(files["values.yaml"], &mine)); err != nil {
		return fmt.Errorf("values can't be read: %w", err)
	}
	var fresh map[string]any
	if err := yaml.Unmarshal(tree.Files["values.yaml"], &fresh); err != nil {
		return err
	}
	merged := made.mergeValues("", base, mine, fresh)
	if len(made.Kept) == 0 {
		return nil
	}
	text, err := chart.ValuesText(merged)
	tree.Files["values.yaml"] = text
	return err
}

func sortedNames[V any](from map[string]V) []string {
	names := make([]string, 0, len(from))
	for name := range from {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
