package plan

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/render/datasciencecluster"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

var (
	llmdKind               = componentsv1alpha1.GroupVersion.WithKind(componentsv1alpha1.KindLlmd)
	dataScienceClusterKind = datascienceclusterv2.GroupVersion.WithKind(datascienceclusterv2.KindDataScienceCluster)
)

// llmdRemark says what a plan of an Llmd leaves out: it fetches nothing.
const llmdRemark = "it releases Helm charts, whose objects a plan doesn't show; slipway charts vendor -f FILE -o DIR renders them"

// renderLlmd gives what the operator makes beside the releases.
func renderLlmd(ctx context.Context, in *world, one *resource) ([]*unstructured.Unstructured, error) {
	resource := &componentsv1alpha1.Llmd{}
	if err := in.planner.typed(ctx, one, resource); err != nil {
		return nil, err
	}
	var versions []string
	for _, kind := range llmd.Optional() {
		version, err := in.planner.served(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, kind.Versions)
		if err != nil {
			return nil, err
		}
		versions = append(versions, version)
	}
	return llmd.Objects(resource, versions)
}

// renderDataScienceCluster gives the Llmd that the operator would make.
func renderDataScienceCluster(ctx context.Context, in *world, one *resource) ([]*unstructured.Unstructured, error) {
	resource := &datascienceclusterv2.DataScienceCluster{}
	if err := in.planner.typed(ctx, one, resource); err != nil {
		return nil, err
	}
	if err := strictComponent(one); err != nil {
		return nil, err
	}
	return datasciencecluster.Objects(resource)
}

// strictComponent checks the fields of the one component that has a type: the
// list of components takes any.
func strictComponent(one *resource) error {
	given, is, err := unstructured.NestedMap(one.after.Object, "spec", "components", "llmd")
	if !is || err != nil {
		return err
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(given, &componentsv1alpha1.DSCLlmd{}, true)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: spec.components.llmd: %w; correct or remove it", one.ref.Display(), err)
}
