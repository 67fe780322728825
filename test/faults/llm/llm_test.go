// Package llm kills the operator after each single write of an LLMDeployment's
// life, and refuses and loses those writes. The world must end as it does
// without the fault.
package llm

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/faults/story"
)

var life = story.Story{
	Kinds: []schema.GroupVersionKind{
		llmv1alpha1.GroupVersion.WithKind("LLMModel"),
		llmv1alpha1.GroupVersion.WithKind("LLMDeployment"),
	},
	Resource: func(namespace string) client.Object { return deployment(namespace) },
	Steps: []story.Step{
		{Name: "create", Writes: 1, Missing: unready, Do: func(p *story.Place) {
			p.Must(p.User.Create(p.Context(), model(p.Namespace)))
			p.Must(p.User.Create(p.Context(), deployment(p.Namespace)))
		}},
		{Name: "update", Writes: 1, Missing: unready, Do: func(p *story.Place) {
			changed := deployment(p.Namespace)
			p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(changed), changed))
			before := changed.DeepCopy()
			changed.Spec.Replicas, changed.Spec.Port = 1, 9090
			p.Must(p.User.Patch(p.Context(), changed, client.MergeFrom(before)))
		}},
		{Name: "delete", Writes: 1, Missing: story.Left, Do: func(p *story.Place) {
			p.Must(p.User.Delete(p.Context(), deployment(p.Namespace)))
			p.Must(p.User.Delete(p.Context(), model(p.Namespace)))
		}},
	},
}

func model(namespace string) *llmv1alpha1.LLMModel {
	return &llmv1alpha1.LLMModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gpt-small"},
		Spec:       llmv1alpha1.LLMModelSpec{ModelName: "GPT-Small", Image: "your-registry/gpt-small:v1"},
	}
}

func deployment(namespace string) *llmv1alpha1.LLMDeployment {
	return &llmv1alpha1.LLMDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chat-service"},
		Spec:       llmv1alpha1.LLMDeploymentSpec{ModelRef: "gpt-small", Replicas: 2, Port: 8080},
	}
}

// unready tells why the deployment isn't ready yet, and what depends on that told.
func unready(p *story.Place, _ bed.World) string {
	p.Helper()
	deployment, model := deployment(p.Namespace), model(p.Namespace)
	p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(deployment), deployment))
	p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(model), model))
	switch status := deployment.Status; {
	case status.ObservedGeneration != deployment.Generation || status.Phase != llmv1alpha1.PhaseReady:
		return "the deployment isn't ready"
	case status.ReadyReplicas != deployment.Spec.Replicas || status.Replicas != deployment.Spec.Replicas:
		return "the replicas aren't those that are wanted"
	case model.Status.Deployments != 1:
		return "the model doesn't know who uses it"
	default:
		return ""
	}
}

func TestTheWorldEndsTheSame(t *testing.T) {
	life.Single(t, api, life.Worlds(t, api), len(life.Steps), bed.DieAfter, bed.LoseAnswer, bed.Fail, bed.Conflict)
}
