package charts

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datasciencev2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// Input gives what is to be rendered: the one Llmd or DataScienceCluster among
// manifests, and the ConfigMaps and Secrets among them that it refers to. Without any
// manifest it is an Llmd that leaves all to the defaults.
func Input(manifests []*unstructured.Unstructured) (llmd.Input, error) {
	input := llmd.Input{Llmd: &componentsv1alpha1.Llmd{}}
	if len(manifests) == 0 {
		return input, nil
	}
	found := 0
	for _, manifest := range manifests {
		charts, is, err := chartsOf(manifest)
		if err != nil {
			return input, fmt.Errorf("%s %s: %w", manifest.GetKind(), manifest.GetName(), err)
		}
		if is {
			input.Llmd.Spec.Charts = charts
			found++
		}
	}
	if found != 1 {
		return input, fmt.Errorf("the manifests hold %d of Llmd and DataScienceCluster; give one", found)
	}
	input.Sources = map[llmd.Source]llmd.Data{}
	for _, source := range llmd.Sources(input.Llmd) {
		for _, manifest := range manifests {
			data, is, err := dataOf(manifest, source)
			if err != nil {
				return input, err
			}
			if is {
				input.Sources[source] = data
			}
		}
	}
	return input, nil
}

// chartsOf is what a manifest says of charts, if it is of a kind that does.
func chartsOf(manifest *unstructured.Unstructured) (componentsv1alpha1.Charts, bool, error) {
	none := componentsv1alpha1.Charts{}
	switch manifest.GroupVersionKind().GroupKind() {
	case componentsv1alpha1.GroupVersion.WithKind("Llmd").GroupKind():
		var resource componentsv1alpha1.Llmd
		err := decode(manifest, &resource)
		return resource.Spec.Charts, true, err
	case datasciencev2.GroupVersion.WithKind("DataScienceCluster").GroupKind():
		var resource datasciencev2.DataScienceCluster
		if err := decode(manifest, &resource); err != nil {
			return none, false, err
		}
		component := resource.Spec.Components.Llmd
		if component == nil || component.ManagementState != componentsv1alpha1.Managed {
			return none, false, errors.New("llmd isn't managed, so it needs no charts; set spec.components.llmd.managementState to Managed")
		}
		return component.Charts, true, nil
	default:
		return none, false, nil
	}
}

// dataOf is what a manifest holds, if it is the source. One without a namespace is
// meant for whichever refers to it.
func dataOf(manifest *unstructured.Unstructured, source llmd.Source) (llmd.Data, bool, error) {
	namespace := manifest.GetNamespace()
	if manifest.GetAPIVersion() != "v1" || manifest.GetKind() != source.Kind || manifest.GetName() != source.Name ||
		namespace != "" && namespace != source.Namespace {
		return nil, false, nil
	}
	data := llmd.Data{}
	if source.Kind == llmd.KindSecret {
		var secret corev1.Secret
		if decode(manifest, &secret) != nil { // The error would repeat what is in it.
			return nil, false, fmt.Errorf("%s: data must be base64, and stringData text", source)
		}
		for key, value := range secret.Data {
			data[key] = value
		}
		for key, value := range secret.StringData {
			data[key] = []byte(value)
		}
		return data, true, nil
	}
	var config corev1.ConfigMap
	if err := decode(manifest, &config); err != nil {
		return nil, false, fmt.Errorf("%s: %w", source, err)
	}
	for key, value := range config.BinaryData {
		data[key] = value
	}
	for key, value := range config.Data {
		data[key] = []byte(value)
	}
	return data, true, nil
}

// decode reads a manifest into its type; a field that isn't known is an error.
func decode(manifest *unstructured.Unstructured, into any) error {
	raw, err := manifest.MarshalJSON()
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		return fmt.Errorf("%s; correct the manifest", strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "))
	}
	return nil
}
