package plan

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/llmdeployment"
)

// Bounds of what a changed model may concern.
const (
	affectedPage = 100
	maxAffected  = 500
)

var (
	deploymentKind = llmv1alpha1.GroupVersion.WithKind(llmv1alpha1.KindLLMDeployment)
	modelKind      = llmv1alpha1.GroupVersion.WithKind(llmv1alpha1.KindLLMModel)
)

// ours says of a kind that it is one of Slipway's.
func ours(kind schema.GroupKind) bool {
	return kind == deploymentKind.GroupKind() || kind == modelKind.GroupKind()
}

// render gives the objects that the operator would make for a resource; nil for
// one that it makes nothing for.
func (p *Planner) render(ctx context.Context, made *Plan, one *resource, resources map[object.Ref]*resource) ([]*unstructured.Unstructured, error) {
	if one.ref.GroupKind() != deploymentKind.GroupKind() {
		return nil, nil
	}
	deployment := &llmv1alpha1.LLMDeployment{}
	if err := typed(one, deployment); err != nil {
		return nil, err
	}
	model, err := p.model(ctx, deployment, resources)
	if err != nil {
		return nil, err
	}
	if model == nil {
		made.note("%s would wait: LLMModel %s is neither in the manifests nor in namespace %s", one.ref.Display(), deployment.Spec.ModelRef, deployment.Namespace)
		return nil, nil
	}
	wanted, err := llmdeployment.Objects(llmdeployment.Input{Deployment: deployment, Model: model})
	if condition.IsStop(err) {
		outcome := condition.Classify(err)
		made.note("%s would stop: %s", one.ref.Display(), outcome.Message)
		return nil, nil
	}
	return wanted, err
}

// model finds the LLMModel of a deployment as it would be: in the manifests, or
// else in the cluster. Nil: it is in neither.
func (p *Planner) model(ctx context.Context, deployment *llmv1alpha1.LLMDeployment, resources map[object.Ref]*resource) (*llmv1alpha1.LLMModel, error) {
	model := &llmv1alpha1.LLMModel{}
	ref := object.Ref{Group: modelKind.Group, Kind: modelKind.Kind, Namespace: deployment.Namespace, Name: deployment.Spec.ModelRef}
	if planned := resources[ref]; planned != nil {
		return model, typed(planned, model)
	}
	if p.Client == nil || deployment.Spec.ModelRef == "" {
		return nil, nil //nolint:nilnil // absent is no error
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(modelKind)
	err := p.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil //nolint:nilnil // absent is no error
	}
	if err != nil {
		return nil, fmt.Errorf("read LLMModel %s: %w", ref.Name, err)
	}
	return model, typed(&resource{ref: object.Of(live), after: live}, model)
}

// affected finds the deployments in the cluster that serve a model which the
// manifests change, and that aren't in the manifests themselves.
func (p *Planner) affected(ctx context.Context, made *Plan, resources map[object.Ref]*resource) ([]*resource, error) {
	if p.Client == nil {
		return nil, nil
	}
	var found []*resource
	for _, change := range made.Changes {
		if change.Object.GroupKind() != modelKind.GroupKind() || change.Action != apply.Configured {
			continue
		}
		users, err := p.users(ctx, change.Object)
		if err != nil {
			return nil, err
		}
		for _, live := range users {
			if resources[object.Of(live).Identity()] == nil {
				found = append(found, &resource{ref: object.Of(live), live: live, after: live})
			}
		}
		if len(found) >= maxAffected {
			made.note("more than %d deployments serve changed models; only the first are planned", maxAffected)
			return found[:maxAffected], nil
		}
	}
	return found, nil
}

// users lists the deployments that serve a model.
func (p *Planner) users(ctx context.Context, model object.Ref) ([]*unstructured.Unstructured, error) {
	var users []*unstructured.Unstructured
	next := ""
	for {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(deploymentKind)
		if err := p.Client.List(ctx, page, client.InNamespace(model.Namespace), client.Limit(affectedPage), client.Continue(next)); err != nil {
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

// known checks the fields of a resource of ours, which a server would do.
func known(one *resource) error {
	switch one.ref.GroupKind() {
	case deploymentKind.GroupKind():
		return typed(one, &llmv1alpha1.LLMDeployment{})
	case modelKind.GroupKind():
		return typed(one, &llmv1alpha1.LLMModel{})
	}
	return nil
}

// typed reads a resource into its type; an unknown field is an error.
func typed(from *resource, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from.after.Object, into, true); err != nil {
		return fmt.Errorf("%s: %w; correct the manifest", from.ref.Display(), err)
	}
	return nil
}
