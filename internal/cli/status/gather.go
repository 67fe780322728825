package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// Bounds of what is read for one command.
const (
	pageSize   = 500
	maxObjects = 10_000 // of one kind
	maxRefs    = 500    // of one inventory
	maxDepth   = 8      // of the tree
)

// Reader reads what a tree is made from.
type Reader struct {
	Client client.Client // must not cache
	Mapper meta.RESTMapper
	Now    func() time.Time
	// Notice is told what couldn't be read and only makes the answer poorer.
	Notice func(error)
}

// seen is an object of the tree as it was read; a nil live object is missing.
type seen struct {
	ref      object.Ref
	live     *unstructured.Unstructured
	facts    *diagnosis.Facts  // of a workload that isn't ready
	told     *readiness.Result // of what is no object of its own; nil: the object tells
	children []*seen
}

// Tree reads one resource and all that was made for it.
func (r *Reader) Tree(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey) (*Node, error) {
	root := &unstructured.Unstructured{}
	root.SetGroupVersionKind(gvk)
	if err := r.Client.Get(ctx, key, root); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("there is no %s %s%s; slipway status -A lists what there is", gvk.Kind, key.Name, inNamespace(key.Namespace))
		}
		return nil, err
	}
	found, err := r.below(ctx, root, levers(root), 0)
	if err != nil {
		return nil, err
	}
	return build(found), nil
}

// Flat reads all resources of the kinds, without what is below them. Kinds that
// the cluster doesn't serve are left out; when it serves none, the error says
// so. An empty namespace means all.
func (r *Reader) Flat(ctx context.Context, wanted []schema.GroupVersionKind, namespace string) ([]*Node, error) {
	var nodes []*Node
	served := false
	for _, gvk := range wanted {
		listed, err := r.list(ctx, gvk, client.InNamespace(namespace))
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		served = true
		for _, live := range listed {
			nodes = append(nodes, build(&seen{ref: object.Of(live), live: live}))
		}
	}
	if !served {
		return nil, errors.New("the cluster serves none of Slipway's kinds; install the operator with slipway install")
	}
	return nodes, nil
}

// below reads what was made for an object: what its inventory names, what it
// refers to, and what it owns.
func (r *Reader) below(ctx context.Context, live *unstructured.Unstructured, levers words, depth int) (*seen, error) {
	found := &seen{ref: object.Of(live), live: live}
	if depth >= maxDepth {
		return found, nil
	}
	for _, ref := range named(live) {
		child, err := r.get(ctx, ref)
		if err != nil {
			return nil, err
		}
		if child == nil {
			found.children = append(found.children, &seen{ref: ref})
			continue
		}
		deeper, err := r.below(ctx, child, levers, depth+1)
		if err != nil {
			return nil, err
		}
		found.children = append(found.children, deeper)
	}
	if stack := stackOf(live); stack != nil {
		var err error
		if found.children, err = r.components(ctx, stack, levers, depth); err != nil {
			return nil, err
		}
	}
	owned, err := r.owned(ctx, live)
	if err != nil {
		return nil, err
	}
	for _, child := range owned {
		deeper, err := r.below(ctx, child, levers, depth+1)
		if err != nil {
			return nil, err
		}
		found.children = append(found.children, deeper)
	}
	found.facts = r.facts(ctx, live, levers)
	return found, nil
}

// named lists what an object's spec and status name: what it refers to, and its
// inventory.
func named(live *unstructured.Unstructured) []object.Ref {
	inventory, _, _ := unstructured.NestedFieldNoCopy(live.Object, "status", "inventory")
	return append(refers(live), entries(inventory)...)
}

// entries are the objects that an inventory names, at most maxRefs.
func entries(inventory any) []object.Ref {
	var refs []object.Ref
	list, _ := inventory.([]any)
	for _, entry := range list[:min(len(list), maxRefs)] {
		fields, _ := entry.(map[string]any)
		of := func(name string) string { value, _ := fields[name].(string); return value }
		ref := object.Ref{Group: of("group"), Version: of("version"), Kind: of("kind"), Namespace: of("namespace"), Name: of("name")}
		if ref.Validate() == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}

// get reads one object, nil when it isn't there. Of Secrets only the metadata
// is read.
func (r *Reader) get(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(ref.GroupVersionKind())
	var err error
	if ref.GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		partial := &metav1.PartialObjectMetadata{}
		partial.SetGroupVersionKind(ref.GroupVersionKind())
		err = r.Client.Get(ctx, key, partial)
		live.SetName(partial.Name)
		live.SetNamespace(partial.Namespace)
		live.SetDeletionTimestamp(partial.DeletionTimestamp)
	} else {
		err = r.Client.Get(ctx, key, live)
	}
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil //nolint:nilnil // absent is no error
	case apierrors.IsForbidden(err):
		r.Notice(fmt.Errorf("%s can't be read: %w", ref.Display(), err))
		live.SetName(ref.Name)
		live.SetNamespace(ref.Namespace)
		return live, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", ref.Display(), err)
	}
	return live, nil
}

// owned lists what the built-in controllers made for an object.
func (r *Reader) owned(ctx context.Context, live *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, each := range makes(live) {
		listed, err := r.list(ctx, each.kind, client.InNamespace(live.GetNamespace()), client.MatchingLabels(each.labels))
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", each.kind.Kind, err)
		}
		for _, candidate := range listed {
			if ownedBy(candidate, live.GetUID()) {
				found = append(found, candidate)
			}
		}
	}
	return found, nil
}

// query is what to look for: objects of a kind with the labels.
type query struct {
	kind   schema.GroupVersionKind
	labels map[string]string
}

// makes says what a kind's controller makes, and which labels those have.
func makes(live *unstructured.Unstructured) []query {
	pods, apps := corev1.SchemeGroupVersion.WithKind("Pod"), schema.GroupVersion{Group: "apps", Version: "v1"}
	selector, _, _ := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels")
	switch live.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return []query{{apps.WithKind("ReplicaSet"), selector}}
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{Group: "apps", Kind: "DaemonSet"},
		schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, schema.GroupKind{Group: "batch", Kind: "Job"}:
		return []query{{pods, selector}}
	case schema.GroupKind{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}:
		return []query{{apps.WithKind("StatefulSet"), map[string]string{"leaderworkerset.sigs.k8s.io/name": live.GetName()}}}
	case schema.GroupKind{Kind: "Pod"}:
		// The first pod of a LeaderWorkerSet's group owns the set of the others.
		if group := live.GetLabels()["leaderworkerset.sigs.k8s.io/group-key"]; group != "" && live.GetLabels()["leaderworkerset.sigs.k8s.io/worker-index"] == "0" {
			return []query{{apps.WithKind("StatefulSet"), map[string]string{"leaderworkerset.sigs.k8s.io/group-key": group}}}
		}
	}
	return nil
}

func ownedBy(candidate *unstructured.Unstructured, uid types.UID) bool {
	for _, reference := range candidate.GetOwnerReferences() {
		if reference.UID == uid {
			return true
		}
	}
	return false
}

// list reads all objects of a kind, in pages, at most maxObjects.
func (r *Reader) list(ctx context.Context, gvk schema.GroupVersionKind, options ...client.ListOption) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	next := ""
	for len(found) < maxObjects {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(gvk)
		if err := r.Client.List(ctx, page, append(options, client.Limit(pageSize), client.Continue(next))...); err != nil {
			return nil, err
		}
		for i := range page.Items {
			found = append(found, &page.Items[i])
		}
		if next = page.GetContinue(); next == "" {
			return found, nil
		}
	}
	r.Notice(fmt.Errorf("only the first %d objects of kind %s were read", maxObjects, gvk.Kind))
	return found, nil
}

// facts reads what a diagnosis needs about a workload that isn't ready.
func (r *Reader) facts(ctx context.Context, live *unstructured.Unstructured, levers words) *diagnosis.Facts {
	selector, _, _ := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels")
	if len(selector) == 0 || live.GetKind() == "ReplicaSet" || readiness.Evaluate(live).Status == readiness.Ready {
		return nil
	}
	evidence := &reconcile.Evidence{Cached: r.Client, Server: r.Client, Now: r.Now}
	facts, err := evidence.Gather(ctx, live, selector)
	if err != nil {
		r.Notice(fmt.Errorf("the diagnosis says less, since something couldn't be read: %w", err))
	}
	facts.Levers = levers(live)
	return &facts
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}
