package plan

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

var nvidiaKind = infrav1.GroupVersion.WithKind(infrav1.KindNvidiaGpuLlm)

// renderNvidia gives what the operator would make for an installation: its claim,
// which belongs to nobody, and the rest. A status and an uninstall make nothing.
func renderNvidia(ctx context.Context, in *world, one *resource) ([]*unstructured.Unstructured, error) {
	wanted := &infrav1.NvidiaGpuLlm{}
	if err := in.planner.typed(ctx, one, wanted); err != nil {
		return nil, err
	}
	if wanted.Spec.Action != infrav1.ActionInstall {
		return nil, nil
	}
	claim, err := nvidiagpullm.Claim(wanted)
	if err != nil {
		return nil, err
	}
	storage, err := object.FromTyped(claim)
	if err != nil {
		return nil, err
	}
	objects, err := nvidiagpullm.Objects(nvidiagpullm.Input{Resource: wanted})
	return append(storage, objects...), err
}
