package simulatordeployment

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/test/faults/story"
)

// TestItFindsOutAlone: an operator that runs this controller alone tells what is
// amiss as one that runs them all does, though it watches less.
func TestItFindsOutAlone(t *testing.T) {
	p := story.NewPlace(t, api, controllerName)
	large := small(p.Namespace, "one")
	large.Spec.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9999")}}
	p.Must(p.User.Create(p.Context(), large))
	p.Await(func() string {
		decode := condition.Find(read(p, large.Name).Status.Conditions, simv1alpha1.ConditionDecodeReady)
		switch {
		case decode == nil:
			return "nothing is told of decode"
		case decode.Reason != diagnosis.ReasonInsufficientResources:
			return decode.Reason + ": " + decode.Message
		}
		return ""
	})
}
