// Package plan shows what applying manifests would create, change and delete,
// down to what the operator would make of them. It renders with the operator's
// own functions, asks the server by dry runs, and writes nothing.
package plan

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/object"
)

// Change is what would become of one object.
type Change struct {
	Object object.Ref `json:"object"`
	// For is the resource that the operator would make the object for.
	For     *object.Ref  `json:"for,omitempty"`
	Action  apply.Action `json:"action"`
	Message string       `json:"message,omitempty"`
	// Before and After are the object without what the server keeps of it, and
	// without the values of Secrets. Nil: it isn't there.
	Before map[string]any `json:"before,omitempty"`
	After  map[string]any `json:"after,omitempty"`
}

// Plan is all that would change, in the order in which it would.
type Plan struct {
	Changes []Change `json:"changes"`
	// Notes say what the plan can't show, and why.
	Notes []string `json:"notes,omitempty"`
}

// Refused counts what the server would not accept.
func (p *Plan) Refused() int { return p.count(apply.Failed) }

func (p *Plan) count(action apply.Action) int {
	total := 0
	for _, change := range p.Changes {
		if change.Action == action {
			total++
		}
	}
	return total
}

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// Planner plans against a cluster, or without one when Client is nil.
type Planner struct {
	Client client.Client // must not cache
	Engine *apply.Engine
	// Namespace is for manifests that name none.
	Namespace string
	// Schemas finds what a misspelt field may mean; nil: Carried.
	Schemas FindSchema
}

// resource is a manifest that is planned, and what it would be afterwards.
type resource struct {
	ref   object.Ref
	live  *unstructured.Unstructured // nil when it isn't in the cluster
	after *unstructured.Unstructured // with the server's defaults where it was asked
}

// Plan plans manifests and what the operator would make of them. What would be
// refused is in the plan and no error.
func (p *Planner) Plan(ctx context.Context, manifests []*unstructured.Unstructured) (*Plan, error) {
	made := &Plan{}
	resources := map[object.Ref]*resource{}
	var order []*resource
	for _, manifest := range manifests {
		if err := p.place(manifest); err != nil {
			return nil, err
		}
		one, change, err := p.manifest(ctx, manifest, coming(manifests))
		if err != nil {
			return nil, err
		}
		if resources[one.ref.Identity()] != nil {
			return nil, fmt.Errorf("%s is in the manifests twice; remove one of them", one.ref.Display())
		}
		made.Changes = append(made.Changes, change)
		if change.Action == apply.Failed {
			continue
		}
		resources[one.ref.Identity()] = one
		order = append(order, one)
	}
	affected, err := p.affected(ctx, made, resources)
	if err != nil {
		return nil, err
	}
	for _, one := range append(order, affected...) {
		if err := p.children(ctx, made, one, resources); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// place gives a manifest of a namespaced kind the namespace that it lacks.
func (p *Planner) place(manifest *unstructured.Unstructured) error {
	known, is := kindOf(manifest.GroupVersionKind().GroupKind())
	namespaced := is && !known.cluster
	if p.Client != nil {
		gvk := manifest.GroupVersionKind()
		mapping, err := p.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return fmt.Errorf("%w; or see without the cluster with --offline", err)
		}
		namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	}
	if namespaced && manifest.GetNamespace() == "" {
		manifest.SetNamespace(p.Namespace)
	}
	return nil
}

// coming are the namespaces that the manifests themselves bring.
func coming(manifests []*unstructured.Unstructured) map[string]bool {
	namespaces := map[string]bool{}
	for _, manifest := range manifests {
		if manifest.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
			namespaces[manifest.GetName()] = true
		}
	}
	return namespaces
}

// manifest plans one manifest as it would be by kubectl apply.
func (p *Planner) manifest(ctx context.Context, manifest *unstructured.Unstructured, coming map[string]bool) (*resource, Change, error) {
	one := &resource{ref: object.Of(manifest), after: manifest.DeepCopy()}
	if err := one.ref.Validate(); err != nil {
		return nil, Change{}, err
	}
	change := Change{Object: one.ref, Action: apply.Created}
	if p.Client == nil {
		if err := p.known(ctx, one); err != nil {
			return nil, Change{}, err
		}
	} else {
		// The operator, or anyone, may write the resource between the two requests.
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return p.dryRun(ctx, one, manifest) })
		switch {
		case apierrors.IsNotFound(err) && coming[one.ref.Namespace]:
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err),
			err != nil && undeclared.MatchString(err.Error()):
			known := func() Schema { return p.schema(ctx, one.ref.GroupVersionKind()) }
			change.Action, change.Message = apply.Failed, reasonOf(err, known)
		case err != nil:
			return nil, Change{}, fmt.Errorf("plan %s: %w", one.ref.Display(), err)
		}
	}
	if one.live != nil {
		change.Before = essence(one.live)
	}
	if change.Action != apply.Failed {
		change.After = essence(one.after)
	}
	if one.live != nil && change.Action != apply.Failed {
		change.Action = apply.Configured
		if same(change.Before, change.After) {
			change.Action = apply.Unchanged
		}
	}
	mask(&change)
	return one, change, nil
}

// dryRun asks the server what a manifest would become; a conflict says that the
// resource changed meanwhile, and to ask again. A resource of ours is
// replaced by its manifest, so that a field that was taken out shows; anything
// else is applied over what is there.
func (p *Planner) dryRun(ctx context.Context, one *resource, manifest *unstructured.Unstructured) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(manifest.GroupVersionKind())
	err := p.Client.Get(ctx, client.ObjectKeyFromObject(manifest), live)
	one.live, one.after = nil, manifest.DeepCopy()
	if apierrors.IsNotFound(err) {
		if err := p.Client.Create(ctx, one.after, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			return err
		}
		one.after.SetUID("") // the dry run's own, which nothing will have
		return nil
	}
	if err != nil {
		return err
	}
	one.live = live
	if !ours(one.ref.GroupKind()) {
		return p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(one.after), client.DryRunAll, client.ForceOwnership, client.FieldOwner("slipway-plan"))
	}
	one.after = live.DeepCopy()
	one.after.Object["spec"] = manifest.DeepCopy().Object["spec"]
	one.after.SetLabels(merged(live.GetLabels(), manifest.GetLabels()))
	one.after.SetAnnotations(merged(live.GetAnnotations(), manifest.GetAnnotations()))
	return p.Client.Update(ctx, one.after, client.DryRunAll, client.FieldValidation("Strict"))
}

// children plans what the operator would make of a resource.
func (p *Planner) children(ctx context.Context, made *Plan, one *resource, resources map[object.Ref]*resource) error {
	wanted, err := p.render(ctx, made, one, resources)
	if err != nil || wanted == nil {
		return err
	}
	if p.Client == nil {
		for _, each := range wanted {
			change := Change{Object: object.Of(each), For: &one.ref, Action: apply.Created, After: essence(each)}
			mask(&change)
			made.Changes = append(made.Changes, change)
		}
		return nil
	}
	previews, err := p.Engine.Plan(ctx, apply.Owner{Object: one.after}, recorded{one.live}, wanted)
	if err != nil && len(previews) == 0 {
		return fmt.Errorf("plan what is made for %s: %w", one.ref.Display(), err)
	}
	for _, preview := range previews {
		change := Change{Object: preview.Object, For: &one.ref, Action: preview.Action, Message: preview.Message}
		if preview.Before != nil {
			change.Before = essence(preview.Before)
		}
		if preview.After != nil {
			change.After = essence(preview.After)
		}
		withoutAddress(&change)
		mask(&change)
		made.Changes = append(made.Changes, change)
	}
	return nil
}

// recorded is the inventory of a live resource, for reading only.
type recorded struct{ live *unstructured.Unstructured }

// Load gives what the resource's status lists.
func (r recorded) Load(context.Context) ([]object.Ref, error) {
	if r.live == nil {
		return nil, nil
	}
	return inventory(r.live), nil
}

// Save refuses: a plan writes nothing.
func (recorded) Save(context.Context, []object.Ref) error {
	return errors.New("a plan writes no inventory")
}
