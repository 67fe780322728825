// Package datasciencecluster renders a DataScienceCluster to the resources of the
// components that Slipway knows. It reads and writes nothing.
package datasciencecluster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/object"
)

// Objects are the resources that a DataScienceCluster asks for: an Llmd where
// llm-d is Managed.
func Objects(cluster *datascienceclusterv2.DataScienceCluster) ([]*unstructured.Unstructured, error) {
	if !cluster.Spec.Components.Managed() {
		return nil, nil
	}
	made, err := object.FromTyped(Llmd(cluster))
	if err != nil {
		return nil, err
	}
	charts := cluster.Spec.Components.Llmd.Charts
	for name, chart := range map[string]*componentsv1alpha1.ChartSpec{
		"infra": charts.Infra, "gatewayAPI": charts.GatewayAPI, "modelService": charts.ModelService,
	} {
		if chart == nil || chart.Values == nil {
			continue
		}
		// As they are written: to a chart, null says something else than nothing.
		var values map[string]any
		if err := utiljson.Unmarshal(chart.Values.Raw, &values); err != nil {
			return nil, fmt.Errorf("read spec.components.llmd.%s.values: %w", name, err)
		}
		if err := unstructured.SetNestedMap(made[0].Object, values, "spec", name, "values"); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// Llmd is the Llmd of a DataScienceCluster that asks for one.
func Llmd(cluster *datascienceclusterv2.DataScienceCluster) *componentsv1alpha1.Llmd {
	return &componentsv1alpha1.Llmd{
		TypeMeta: metav1.TypeMeta{APIVersion: componentsv1alpha1.GroupVersion.String(), Kind: componentsv1alpha1.KindLlmd},
		ObjectMeta: metav1.ObjectMeta{
			Name:   componentsv1alpha1.LlmdName,
			Labels: object.Identity{Name: "llmd", Instance: cluster.Name, PartOf: "data-science-cluster"}.Labels(),
		},
		Spec: componentsv1alpha1.LlmdSpec{Charts: *cluster.Spec.Components.Llmd.Charts.DeepCopy()},
	}
}
