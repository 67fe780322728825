package nvidiagpullm

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/faults/story"
)

// withClaim is the life of an installation whose claim goes with it.
var withClaim = story.Story{
	Controllers: []string{controllerName},
	Kinds:       kinds,
	Resource:    func(namespace string) client.Object { return claiming(namespace) },
	Beside:      podAndServer,
	Steps: []story.Step{
		{Name: "create", Writes: 2, Missing: unbound, Do: func(p *story.Place) {
			p.Must(p.User.Create(p.Context(), claiming(p.Namespace)))
		}},
		// Another pod, which the API server only takes when the first is gone.
		{Name: "update", Writes: 3, Missing: unbound, Do: func(p *story.Place) {
			change(p, claiming(p.Namespace), func(spec *infrav1.NvidiaGpuLlmSpec) {
				spec.ServiceEnabled, spec.NodeSelector = false, map[string]string{corev1.LabelOSStable: "linux"}
			})
		}},
		{Name: "delete", Writes: 1, Missing: story.Left, Do: func(p *story.Place) {
			p.Must(p.User.Delete(p.Context(), claiming(p.Namespace)))
		}},
	},
}

func claiming(namespace string) *infrav1.NvidiaGpuLlm {
	made := installation(namespace)
	made.Spec.PersistentStorage, made.Spec.StorageRetentionPolicy = true, infrav1.RetentionDelete
	return made
}

// unbound tells why the resource doesn't tell yet that its claim isn't bound.
func unbound(p *story.Place, _ bed.World) string {
	p.Helper()
	found := claiming(p.Namespace)
	p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(found), found))
	ready := condition.Find(found.Status.Conditions, condition.Ready)
	switch {
	case ready == nil || ready.ObservedGeneration != found.Generation:
		return "nothing is told yet"
	case !strings.Contains(ready.Message, podName+"-storage"):
		return ready.Message
	}
	return ""
}

func TestNoClaimIsForgotten(t *testing.T) {
	worlds := withClaim.Worlds(t, api)
	withClaim.Single(t, api, worlds, len(withClaim.Steps), bed.DieAfter, bed.LoseAnswer, bed.Fail, bed.Conflict)
	withClaim.Abandoned(t, api)
}
