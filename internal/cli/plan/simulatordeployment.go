package plan

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

var simulatorKind = simv1alpha1.GroupVersion.WithKind(simv1alpha1.KindSimulatorDeployment)

// renderSimulator gives what the operator would make for a SimulatorDeployment
// with the optional kinds that the cluster serves; offline that is none.
func renderSimulator(ctx context.Context, in *world, one *resource) ([]*unstructured.Unstructured, error) {
	deployment := &simv1alpha1.SimulatorDeployment{}
	if err := in.planner.typed(ctx, one, deployment); err != nil {
		return nil, err
	}
	served, err := in.planner.servedForSimulators()
	if err != nil {
		return nil, err
	}
	return simulatordeployment.Objects(simulatordeployment.Input{Deployment: deployment, Served: served})
}

func (p *Planner) servedForSimulators() (simulatordeployment.Served, error) {
	var versions [6]string
	for i, each := range []struct {
		group, kind string
		versions    []string // that can be written, the preferred one first
	}{
		{simulatordeployment.GroupInference, "InferencePool", []string{"v1"}},
		{simulatordeployment.GroupInferenceX, "InferencePool", []string{"v1alpha2"}},
		{simulatordeployment.GroupInferenceX, "InferenceObjective", []string{"v1alpha2"}},
		{simulatordeployment.GroupIstio, "DestinationRule", []string{"v1", "v1beta1"}},
		{simulatordeployment.GroupGatewayAPI, "Gateway", []string{"v1"}},
		{simulatordeployment.GroupGatewayAPI, "HTTPRoute", []string{"v1"}},
	} {
		version, err := p.served(schema.GroupKind{Group: each.group, Kind: each.kind}, each.versions)
		if err != nil {
			return simulatordeployment.Served{}, err
		}
		versions[i] = version
	}
	served := simulatordeployment.Served{Pool: versions[0], Objectives: versions[2] != "", DestinationRule: versions[3]}
	if served.Pool == "" {
		served.Pool = versions[1]
	}
	if versions[4] == versions[5] {
		served.Gateway = versions[4]
	}
	return served, nil
}

// served is the first of the versions of a kind that the cluster serves; empty
// where it serves none.
func (p *Planner) served(kind schema.GroupKind, versions []string) (string, error) {
	if p.Client == nil {
		return "", nil
	}
	for _, version := range versions {
		_, err := p.Client.RESTMapper().RESTMapping(kind, version)
		if err == nil {
			return version, nil
		}
		if !meta.IsNoMatchError(err) {
			return "", fmt.Errorf("find out whether the cluster serves %s: %w", kind.Kind, err)
		}
	}
	return "", nil
}
