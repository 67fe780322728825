package olm

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	yamldocuments "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// What the annotations file says (operator-registry, docs/design/operator-bundle.md).
const (
	annotationsFile      = "metadata/annotations.yaml"
	annotationMediaType  = "operators.operatorframework.io.bundle.mediatype.v1"
	annotationManifests  = "operators.operatorframework.io.bundle.manifests.v1"
	annotationPackage    = "operators.operatorframework.io.bundle.package.v1"
	annotationChannels   = "operators.operatorframework.io.bundle.channels.v1"
	mediaType            = "registry+v1"
	defaultManifests     = "manifests/"
	kindCSV              = "ClusterServiceVersion"
	kindDefinition       = "CustomResourceDefinition"
	maxObjects           = 2000
	maxDocument          = 8 << 20
	mostAnnotationsBytes = 64 << 10
)

// Bundle is what an operator's author published: one version of one operator.
type Bundle struct {
	// Package is the operator's name in a catalog; the ClusterServiceVersion's
	// name up to its first dot where the bundle doesn't say.
	Package  string
	Channels []string
	CSV      *v1alpha1.ClusterServiceVersion
	// Definitions are the CustomResourceDefinitions.
	Definitions []*unstructured.Unstructured
	// Others are all other manifests.
	Others []*unstructured.Unstructured
}

// Version is the operator's version, without a v.
func (b *Bundle) Version() string { return b.CSV.Spec.Version.String() }

// Parse reads a bundle from its files, whose names are paths below its root. An
// error is one line that names the file.
func Parse(files map[string][]byte) (*Bundle, error) {
	annotations, err := readAnnotations(files[annotationsFile])
	if err != nil {
		return nil, err
	}
	if kind := annotations[annotationMediaType]; kind != "" && kind != mediaType {
		return nil, fmt.Errorf("%s says that the bundle is of format %s; only %s can be read", annotationsFile, kind, mediaType)
	}
	dir := path.Clean(cmp.Or(annotations[annotationManifests], defaultManifests))
	if path.IsAbs(dir) || dir == ".." || strings.HasPrefix(dir, "../") {
		return nil, fmt.Errorf("%s names the directory %s, which isn't in the bundle; it must be a path such as %s", annotationsFile, dir, defaultManifests)
	}
	bundle := &Bundle{Package: annotations[annotationPackage]}
	if text := annotations[annotationChannels]; text != "" {
		bundle.Channels = strings.Split(text, ",")
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Dir(name) != dir || !isManifest(name) {
			continue
		}
		if err := bundle.add(name, files[name]); err != nil {
			return nil, err
		}
	}
	if bundle.CSV == nil {
		return nil, fmt.Errorf("there is no %s in %s/; this isn't a bundle of format %s", kindCSV, dir, mediaType)
	}
	if bundle.Package == "" {
		bundle.Package, _, _ = strings.Cut(bundle.CSV.Name, ".")
	}
	return bundle, bundle.check()
}

func readAnnotations(text []byte) (map[string]string, error) {
	if len(text) > mostAnnotationsBytes {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", annotationsFile, len(text), mostAnnotationsBytes)
	}
	var file struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s can't be read: %w", annotationsFile, oneLine(err))
	}
	return file.Annotations, nil
}

func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// add reads one file, which may hold several documents.
func (b *Bundle) add(name string, text []byte) error {
	documents := yamldocuments.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s can't be read: %w", name, oneLine(err))
		}
		if len(document) > maxDocument {
			return fmt.Errorf("%s has a document of %d bytes; at most %d are read", name, len(document), maxDocument)
		}
		obj := &unstructured.Unstructured{}
		if err := decode(document, &obj.Object); err != nil {
			return fmt.Errorf("%s can't be read: %w", name, oneLine(err))
		}
		if len(obj.Object) == 0 {
			continue
		}
		if err := b.addObject(name, obj); err != nil {
			return err
		}
	}
}

// decode reads a document with its whole numbers as such, as the API server does.
func decode(document []byte, into *map[string]any) error {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (b *Bundle) addObject(name string, obj *unstructured.Unstructured) error {
	switch {
	case obj.GetAPIVersion() == "" || obj.GetKind() == "":
		return fmt.Errorf("%s has an object without apiVersion or kind", name)
	case obj.IsList():
		return fmt.Errorf("%s has a list of objects; write each of them as a document of its own", name)
	case obj.GetName() == "":
		return fmt.Errorf("%s has a %s without a name", name, obj.GetKind())
	case len(b.Definitions)+len(b.Others) >= maxObjects:
		return fmt.Errorf("the bundle has more than %d objects", maxObjects)
	case obj.GetKind() == kindCSV:
		return b.addCSV(name, obj)
	case obj.GetKind() == kindDefinition && obj.GroupVersionKind().Group == "apiextensions.k8s.io":
		if obj.GroupVersionKind().Version != "v1" {
			return fmt.Errorf("%s has %s in %s, which Kubernetes no longer serves; it must be apiextensions.k8s.io/v1", name, obj.GetName(), obj.GetAPIVersion())
		}
		b.Definitions = append(b.Definitions, obj)
	default:
		b.Others = append(b.Others, obj)
	}
	return nil
}

func (b *Bundle) addCSV(name string, obj *unstructured.Unstructured) error {
	if b.CSV != nil {
		return fmt.Errorf("%s has a second %s, %s beside %s; a bundle has one", name, kindCSV, obj.GetName(), b.CSV.Name)
	}
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, csv); err != nil {
		return fmt.Errorf("%s can't be read: %w", name, oneLine(err))
	}
	b.CSV = csv
	return nil
}

// check refuses what a bundle can't mean.
func (b *Bundle) check() error {
	strategy := b.CSV.Spec.InstallStrategy
	if strategy.StrategyName != "" && strategy.StrategyName != v1alpha1.InstallStrategyNameDeployment {
		return fmt.Errorf("%s is installed by strategy %q; only %q is known", b.CSV.Name, strategy.StrategyName, v1alpha1.InstallStrategyNameDeployment)
	}
	if len(strategy.StrategySpec.DeploymentSpecs) == 0 {
		return fmt.Errorf("%s names no deployment in spec.install.spec.deployments", b.CSV.Name)
	}
	names := map[string]bool{}
	for _, each := range strategy.StrategySpec.DeploymentSpecs {
		switch {
		case each.Name == "":
			return fmt.Errorf("%s has a deployment without a name", b.CSV.Name)
		case names[each.Name]:
			return fmt.Errorf("%s has two deployments named %s", b.CSV.Name, each.Name)
		case each.Spec.Selector == nil:
			return fmt.Errorf("%s: deployment %s has no selector", b.CSV.Name, each.Name)
		}
		names[each.Name] = true
	}
	for _, hook := range b.CSV.Spec.WebhookDefinitions {
		if !names[hook.DeploymentName] {
			return fmt.Errorf("%s: webhook %s is served by deployment %q, which the bundle doesn't have", b.CSV.Name, hook.GenerateName, hook.DeploymentName)
		}
	}
	if owned := b.CSV.Spec.APIServiceDefinitions.Owned; len(owned) > 0 {
		return fmt.Errorf("%s brings an API server of its own (%s); extracting those isn't supported", b.CSV.Name, owned[0].GetName())
	}
	return nil
}

// oneLine keeps an error's text on one line.
func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", " ")), " "))
}
