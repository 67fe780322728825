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
	var versions []string
	for _, kind := range simulatordeployment.Optional() {
		version, err := p.served(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, kind.Versions)
		if err != nil {
			return simulatordeployment.Served{}, err
		}
		versions = append(versions, version)
	}
	return simulatordeployment.ServedOf(versions), nil
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
