// Package simulatordeployment kills the operator after each single write of a
// SimulatorDeployment's life, and refuses and loses those writes. The world must
// end as it does without the fault, and no two resources ever hold one name.
package simulatordeployment

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/faults/story"
)

const controllerName = "simulatordeployment"

// life is that of a stack with every part, of which some go, others come, and
// all get other names at last.
var life = story.Story{
	Controllers: []string{controllerName},
	Kinds:       []schema.GroupVersionKind{simv1alpha1.GroupVersion.WithKind("SimulatorDeployment")},
	Resource:    func(namespace string) client.Object { return full(namespace) },
	Steps: []story.Step{
		{Name: "create", Writes: 15, Missing: unready, Do: func(p *story.Place) {
			p.Must(p.User.Create(p.Context(), full(p.Namespace)))
		}},
		{Name: "update", Writes: 6, Missing: unready, Do: func(p *story.Place) {
			change(p, func(spec *simv1alpha1.SimulatorDeploymentSpec) {
				spec.Prefill.Enabled = false
				spec.Decode.Image = "docker.io/library/llm-d-simulator:other"
				spec.InferenceGateway.Istio.Enabled = false
				spec.Service = &simv1alpha1.ServiceConfig{Name: "front", Port: 9000}
			})
		}},
		{Name: "rename", Writes: 12, Missing: unready, Do: func(p *story.Place) {
			change(p, func(spec *simv1alpha1.SimulatorDeploymentSpec) { spec.NamePrefix = "blue-" })
		}},
		// The cluster's garbage collector deletes what the operator made.
		{Name: "delete", Writes: 0, Missing: story.Left, Do: func(p *story.Place) {
			p.Must(p.User.Delete(p.Context(), full(p.Namespace)))
		}},
	},
}

func full(namespace string) *simv1alpha1.SimulatorDeployment {
	gateway := func() *simv1alpha1.GatewayInstanceConfig { return &simv1alpha1.GatewayInstanceConfig{Enabled: true} }
	return &simv1alpha1.SimulatorDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "llm-sim"},
		Spec: simv1alpha1.SimulatorDeploymentSpec{
			Prefill:          &simv1alpha1.StageConfig{Enabled: true, Replicas: new(int32(1))},
			Decode:           &simv1alpha1.StageConfig{Enabled: true, Replicas: new(int32(2))},
			EPP:              &simv1alpha1.EPPConfig{Enabled: true},
			InferenceGateway: &simv1alpha1.InferenceGatewayConfig{Enabled: true, Standard: gateway(), Istio: gateway()},
		},
	}
}

func change(p *story.Place, how func(*simv1alpha1.SimulatorDeploymentSpec)) {
	p.Helper()
	changed := full(p.Namespace)
	p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(changed), changed))
	before := changed.DeepCopy()
	how(&changed.Spec)
	p.Must(p.User.Patch(p.Context(), changed, client.MergeFrom(before)))
}

// unready tells why the stack isn't ready yet, to the last pod and the last object
// of the former one.
func unready(p *story.Place, _ bed.World) string {
	p.Helper()
	found := full(p.Namespace)
	p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(found), found))
	if missing := notReady(found); missing != "" {
		return missing
	}
	wanted, err := simulatordeployment.Objects(simulatordeployment.Input{Deployment: found})
	p.Must(err)
	if left := len(found.Status.Inventory) - len(wanted); left != 0 {
		return fmt.Sprintf("%d objects of the former spec are left", left)
	}
	return ""
}

func notReady(found *simv1alpha1.SimulatorDeployment) string {
	ready := condition.Find(found.Status.Conditions, condition.Ready)
	switch {
	case ready == nil || ready.ObservedGeneration != found.Generation:
		return "nothing is told yet"
	case ready.Status != metav1.ConditionTrue:
		return ready.Message
	case found.Status.Replicas != found.Status.ReadyReplicas:
		return "pods come or go"
	default:
		return ""
	}
}

func TestTheWorldEndsTheSame(t *testing.T) {
	worlds := life.Worlds(t, api)
	life.Single(t, api, worlds, 2, bed.DieAfter)
	life.AgainAndAgain(t, api, worlds, bed.DieAfter)
	life.EveryOther(t, api, worlds, bed.LoseAnswer, bed.Fail, bed.Conflict)
	life.Abandoned(t, api)
}
