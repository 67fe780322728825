// Package nvidiagpullm kills the operator after each single write of a
// NvidiaGpuLlm's life, and refuses and loses those writes. The world must end as
// it does without the fault.
//
// Two lives are told. In the first one the pod has a real Ollama server
// (test/ollama/pods): a model is fetched, loaded and asked, the pod is made again
// with another spec, another model takes the first one's place, and all is
// uninstalled. In the second one the models would be kept in a claim that goes with
// the resource; no claim is bound here, so the pod waits for it, and what is told is
// that the claim and the finalizer never outlive the resource. What needs a kubelet
// (keepAlive: false, a server that ends) is in the end-to-end tests.
package nvidiagpullm

import (
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/faults/story"
	"github.com/slipway-dev/slipway/test/ollama/pods"
)

const (
	controllerName = "nvidiagpullm"
	podName        = "gpu-llm-pod"
)

var kinds = []schema.GroupVersionKind{infrav1.GroupVersion.WithKind("NvidiaGpuLlm")}

var life = story.Story{
	Controllers: []string{controllerName},
	Kinds:       kinds,
	Resource:    func(namespace string) client.Object { return installation(namespace) },
	Beside:      podAndServer,
	Steps: []story.Step{
		{Name: "create", Writes: 5, Missing: unready, Do: func(p *story.Place) {
			servers.Store(p.Namespace, pods.Serve(p.T, p.User, p.Namespace))
			p.Must(p.User.Create(p.Context(), installation(p.Namespace)))
		}},
		// Another pod, another prompt, no Service any more.
		{Name: "update", Writes: 5, Missing: unready, Do: func(p *story.Place) {
			change(p, installation(p.Namespace), func(spec *infrav1.NvidiaGpuLlmSpec) {
				spec.ServiceEnabled, spec.Prompts = false, []string{"Hello", "And again"}
				spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
			})
		}},
		// Another model in the same pod.
		{Name: "swap", Writes: 4, Missing: unready, Do: func(p *story.Place) {
			change(p, installation(p.Namespace), func(spec *infrav1.NvidiaGpuLlmSpec) { spec.Model = modelNamed("mistral") })
		}},
		{Name: "uninstall", Writes: 2, Missing: unready, Do: func(p *story.Place) {
			change(p, installation(p.Namespace), func(spec *infrav1.NvidiaGpuLlmSpec) { spec.Action = infrav1.ActionUninstall })
		}},
		{Name: "delete", Writes: 0, Missing: story.Left, Do: func(p *story.Place) {
			p.Must(p.User.Delete(p.Context(), installation(p.Namespace)))
		}},
	},
}

// servers are the places' servers by their namespaces.
var servers sync.Map

func modelNamed(name string) string { return models + "/library/" + name }

func installation(namespace string) *infrav1.NvidiaGpuLlm {
	return &infrav1.NvidiaGpuLlm{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
		Spec: infrav1.NvidiaGpuLlmSpec{
			Action: infrav1.ActionInstall, LLMName: podName, Model: modelNamed("tinyllama"), InsecureRegistry: true,
			ServiceEnabled: true, Prompts: []string{"Hello"},
		},
	}
}

func change(p *story.Place, changed *infrav1.NvidiaGpuLlm, how func(*infrav1.NvidiaGpuLlmSpec)) {
	p.Helper()
	p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(changed), changed))
	before := changed.DeepCopy()
	how(&changed.Spec)
	p.Must(p.User.Patch(p.Context(), changed, client.MergeFrom(before)))
}

// podAndServer shows what the pod is and what its server has in memory: a former
// model must be gone from there.
func podAndServer(p *story.Place) bed.World {
	p.Helper()
	pod := &corev1.Pod{}
	err := p.User.Get(p.Context(), client.ObjectKey{Namespace: p.Namespace, Name: podName}, pod)
	p.Must(client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	loaded := []string{}
	if found, is := servers.Load(p.Namespace); is {
		if server := found.(*pods.Servers).Of(pod.UID); server != nil {
			running, err := server.Loaded(p.Context())
			if err != nil {
				loaded = append(loaded, "it doesn't answer") // it ends with its pod
			}
			for _, each := range running {
				loaded = append(loaded, each.Name)
			}
		}
	}
	slices.Sort(loaded)
	return bed.World{
		"Pod/" + podName:       map[string]any{"selector": pod.Spec.NodeSelector, "phase": pod.Status.Phase, "ending": pod.DeletionTimestamp != nil},
		"memory of its server": loaded,
	}
}

// unready tells why a resource isn't as its spec asks.
func unready(p *story.Place, world bed.World) string {
	p.Helper()
	found := installation(p.Namespace)
	p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(found), found))
	ready := condition.Find(found.Status.Conditions, condition.Ready)
	switch {
	case ready == nil || ready.ObservedGeneration != found.Generation:
		return "nothing is told yet"
	case ready.Status != metav1.ConditionTrue:
		return ready.Message
	case found.Spec.Action == infrav1.ActionInstall && len(found.Status.Answers) != len(found.Spec.Prompts):
		return "prompts are unanswered"
	}
	if loaded, is := world["memory of its server"].([]string); is && len(loaded) != 1 {
		return "not one model is in memory"
	}
	return ""
}

func TestTheWorldEndsTheSame(t *testing.T) {
	worlds := life.Worlds(t, api)
	life.Single(t, api, worlds, len(life.Steps)-1, bed.DieAfter)
	life.AgainAndAgain(t, api, worlds, bed.DieAfter)
	life.Abandoned(t, api)
}

// TestEveryOtherWriteFails leaves the pod that is made again out: that is two
// writes, over and over, of which every other one fails is the same one each time.
// Each of them fails by itself in TestNoClaimIsForgotten.
func TestEveryOtherWriteFails(t *testing.T) {
	steady := life
	steady.Steps = slices.Clone(life.Steps)
	steady.Steps[1].Do = func(p *story.Place) {
		change(p, installation(p.Namespace), func(spec *infrav1.NvidiaGpuLlmSpec) {
			spec.ServiceEnabled, spec.Prompts = false, []string{"Hello", "And again"}
		})
	}
	steady.EveryOther(t, api, steady.Worlds(t, api), bed.LoseAnswer, bed.Fail, bed.Conflict)
}
