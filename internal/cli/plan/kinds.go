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

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
)

// maxAffected bounds how many resources a change of another may concern.
const maxAffected = 500

// kind is what a plan knows of one of Slipway's kinds.
type kind struct {
	gvk schema.GroupVersionKind
	// empty makes the Go type of the kind, whose fields are the ones it has.
	empty func() any
	// render gives what the operator would make for a resource. Its error may be
	// condition's: it would wait, or stop. Nil: the operator makes nothing.
	render func(context.Context, *world, *resource) ([]*unstructured.Unstructured, error)
	// users lists the resources in the cluster for which something else is made
	// when one of this kind changes. Nil: there are none.
	users func(context.Context, *Planner, object.Ref) ([]*unstructured.Unstructured, error)
	// cluster: resources of the kind are in no namespace.
	cluster bool
	// remark says what a plan of this kind doesn't show; empty: nothing.
	remark string
}

// kinds lists Slipway's kinds. Any other kind is planned as kubectl would apply
// it, and nothing is made for it.
func kinds() []kind {
	return []kind{
		{gvk: modelKind, empty: func() any { return &llmv1alpha1.LLMModel{} }, users: deploymentsOf},
		{gvk: deploymentKind, empty: func() any { return &llmv1alpha1.LLMDeployment{} }, render: renderDeployment},
		{gvk: simulatorKind, empty: func() any { return &simv1alpha1.SimulatorDeployment{} }, render: renderSimulator},
		{gvk: nvidiaKind, empty: func() any { return &infrav1.NvidiaGpuLlm{} }, render: renderNvidia},
		{gvk: llmdKind, cluster: true, empty: func() any { return &componentsv1alpha1.Llmd{} }, render: renderLlmd, remark: llmdRemark},
		{gvk: dataScienceClusterKind, cluster: true, empty: func() any { return &datascienceclusterv2.DataScienceCluster{} }, render: renderDataScienceCluster},
		{gvk: platformStackKind, cluster: true, empty: func() any { return &platformv1alpha1.PlatformStack{} }, remark: platformStackRemark},
	}
}

// kindOf finds one of Slipway's kinds.
func kindOf(wanted schema.GroupKind) (kind, bool) {
	for _, each := range kinds() {
		if each.gvk.GroupKind() == wanted {
			return each, true
		}
	}
	return kind{}, false
}

// ours says of a kind that it is one of Slipway's.
func ours(wanted schema.GroupKind) bool {
	_, is := kindOf(wanted)
	return is
}

// world is where a renderer finds what a resource refers to.
type world struct {
	planner *Planner
	// planned are the resources of the manifests, by their identity.
	planned map[object.Ref]*resource
}

// find reads a resource as it would be: from the manifests, or else from the
// cluster. False: it is in neither.
func (w *world) find(ctx context.Context, ref object.Ref, into any) (bool, error) {
	if planned := w.planned[ref.Identity()]; planned != nil {
		return true, w.planner.typed(ctx, planned, into)
	}
	if w.planner.Client == nil || ref.Name == "" {
		return false, nil
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(ref.GroupVersionKind())
	err := w.planner.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", ref.Display(), err)
	}
	return true, w.planner.typed(ctx, &resource{ref: object.Of(live), after: live}, into)
}

// render gives the objects that the operator would make for a resource; nil for
// one that it makes nothing for, with a note where that is for now.
func (p *Planner) render(ctx context.Context, made *Plan, one *resource, planned map[object.Ref]*resource) ([]*unstructured.Unstructured, error) {
	known, is := kindOf(one.ref.GroupKind())
	if known.remark != "" && known.render == nil {
		made.note("%s: %s", one.ref.Display(), known.remark)
	}
	if !is || known.render == nil {
		return nil, nil
	}
	wanted, err := known.render(ctx, &world{planner: p, planned: planned}, one)
	switch {
	case condition.IsWait(err):
		made.note("%s would wait: %s", one.ref.Display(), condition.Classify(err).Message)
		return nil, nil
	case condition.IsStop(err):
		made.note("%s would stop: %s", one.ref.Display(), condition.Classify(err).Message)
		return nil, nil
	}
	if known.remark != "" && err == nil {
		made.note("%s: %s", one.ref.Display(), known.remark)
	}
	return wanted, err
}

// affected finds the resources in the cluster that the operator would make
// something else for because the manifests change what they refer to, and that
// aren't in the manifests themselves.
func (p *Planner) affected(ctx context.Context, made *Plan, planned map[object.Ref]*resource) ([]*resource, error) {
	if p.Client == nil {
		return nil, nil
	}
	var found []*resource
	for _, change := range made.Changes {
		known, _ := kindOf(change.Object.GroupKind())
		if known.users == nil || change.Action != apply.Configured {
			continue
		}
		users, err := known.users(ctx, p, change.Object)
		if err != nil {
			return nil, err
		}
		for _, live := range users {
			if planned[object.Of(live).Identity()] == nil {
				found = append(found, &resource{ref: object.Of(live), live: live, after: live})
			}
		}
		if len(found) >= maxAffected {
			made.note("the manifests change what more than %d resources refer to; only the first are planned", maxAffected)
			return found[:maxAffected], nil
		}
	}
	return found, nil
}

// known checks the fields of a resource of ours, which a server would do.
func (p *Planner) known(ctx context.Context, one *resource) error {
	known, is := kindOf(one.ref.GroupKind())
	if !is {
		return nil
	}
	return p.typed(ctx, one, known.empty())
}

// typed reads a resource into its type; an unknown field is an error.
func (p *Planner) typed(ctx context.Context, from *resource, into any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from.after.Object, into, true)
	if err == nil {
		return nil
	}
	known := p.schema(ctx, from.ref.GroupVersionKind())
	if runtime.IsStrictDecodingError(err) {
		return fmt.Errorf("%s: %s", from.ref.Display(), explain(err.Error(), known))
	}
	if misfit := known.misfit("", known.root, from.after.Object); misfit != "" {
		return fmt.Errorf("%s: %s", from.ref.Display(), misfit)
	}
	return fmt.Errorf("%s: %w; correct the manifest", from.ref.Display(), err)
}

// schema is a kind's schema; an empty one where it can't be had, which only
// makes a message poorer.
func (p *Planner) schema(ctx context.Context, kind schema.GroupVersionKind) Schema {
	find := p.Schemas
	if find == nil {
		find = Carried
	}
	found, err := find(ctx, kind)
	if err != nil {
		return Schema{}
	}
	return found
}
