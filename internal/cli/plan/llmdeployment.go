package plan

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/llmdeployment"
)

// usersPage is how many deployments are read at once.
const usersPage = 100

var (
	deploymentKind = llmv1alpha1.GroupVersion.WithKind(llmv1alpha1.KindLLMDeployment)
	modelKind      = llmv1alpha1.GroupVersion.WithKind(llmv1alpha1.KindLLMModel)
)

// renderDeployment gives what the operator would make for an LLMDeployment.
func renderDeployment(ctx context.Context, in *world, one *resource) ([]*unstructured.Unstructured, error) {
	deployment, model := &llmv1alpha1.LLMDeployment{}, &llmv1alpha1.LLMModel{}
	if err := in.planner.typed(ctx, one, deployment); err != nil {
		return nil, err
	}
	ref := object.Ref{
		Group: modelKind.Group, Version: modelKind.Version, Kind: modelKind.Kind,
		Namespace: deployment.Namespace, Name: deployment.Spec.ModelRef,
	}
	found, err := in.find(ctx, ref, model)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, condition.Wait(condition.ReasonDependencyNotFound,
			"LLMModel %s is neither in the manifests nor in namespace %s", ref.Name, ref.Namespace)
	}
	return llmdeployment.Objects(llmdeployment.Input{Deployment: deployment, Model: model})
}

// deploymentsOf lists the LLMDeployments that serve a model.
func deploymentsOf(ctx context.Context, p *Planner, model object.Ref) ([]*unstructured.Unstructured, error) {
	var users []*unstructured.Unstructured
	next := ""
	for {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(deploymentKind)
		if err := p.Client.List(ctx, page, client.InNamespace(model.Namespace), client.Limit(usersPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list the deployments of %s: %w", model.Display(), err)
		}
		for i := range page.Items {
			if name, _, _ := unstructured.NestedString(page.Items[i].Object, "spec", "modelRef"); name == model.Name {
				users = append(users, &page.Items[i])
			}
		}
		if next = page.GetContinue(); next == "" || len(users) > maxAffected {
			return users, nil
		}
	}
}
