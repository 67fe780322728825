package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// kindComponent is how the tree calls a component of a PlatformStack, which is no
// object of its own.
const kindComponent = "Component"

// platformWorkloads are the kinds of a stack's objects that are shown, beside those
// that hooks name: what runs, not the hundreds of roles and definitions around it.
func platformWorkloads() []schema.GroupVersionKind {
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	return []schema.GroupVersionKind{
		apps.WithKind("Deployment"), apps.WithKind("StatefulSet"), apps.WithKind("DaemonSet"), batchv1.SchemeGroupVersion.WithKind("Job"),
	}
}

// stackOf reads a PlatformStack; nil if an object is none, or of a version that isn't
// known here.
func stackOf(live *unstructured.Unstructured) *platformv1alpha1.PlatformStack {
	if live.GroupVersionKind().GroupKind() != platformv1alpha1.GroupVersion.WithKind(platformv1alpha1.KindPlatformStack).GroupKind() {
		return nil
	}
	made := &platformv1alpha1.PlatformStack{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, made); err != nil {
		return nil
	}
	return made
}

// components are those of a stack, as its status tells them, with what runs of their
// releases and what their hooks apply and wait for.
func (r *Reader) components(ctx context.Context, stack *platformv1alpha1.PlatformStack, levers words, depth int) ([]*seen, error) {
	running, err := r.ofStack(ctx, stack)
	if err != nil {
		return nil, err
	}
	var found []*seen
	for _, each := range componentsOf(stack) {
		result := resultOf(each)
		one := &seen{ref: object.Ref{
			Group: platformv1alpha1.GroupVersion.Group, Version: platformv1alpha1.GroupVersion.Version,
			Kind: kindComponent, Namespace: each.Namespace, Name: each.Name,
		}, told: &result}
		objects, shown := running[each.Name], map[object.Ref]bool{}
		for _, live := range objects {
			shown[object.Of(live).Identity()] = true
		}
		for _, ref := range r.hooked(stack, each.Name) {
			if shown[ref.Identity()] {
				continue
			}
			shown[ref.Identity()] = true
			live, err := r.get(ctx, ref)
			if err != nil {
				return nil, err
			}
			if live == nil {
				one.children = append(one.children, &seen{ref: ref})
				continue
			}
			objects = append(objects, live)
		}
		for _, live := range objects {
			deeper, err := r.below(ctx, live, levers, depth+1)
			if err != nil {
				return nil, err
			}
			one.children = append(one.children, deeper)
		}
		found = append(found, one)
	}
	return found, nil
}

// componentsOf are the components that the status tells, and those of the spec that
// it doesn't tell yet.
func componentsOf(stack *platformv1alpha1.PlatformStack) []platformv1alpha1.ComponentStatus {
	told := map[string]bool{}
	all := stack.Status.Components
	for _, each := range all {
		told[each.Name] = true
	}
	for i := range stack.Spec.Components {
		if spec := &stack.Spec.Components[i]; !told[spec.Name] {
			all = append(all, platformv1alpha1.ComponentStatus{
				Name: spec.Name, Namespace: platformstack.NamespaceOf(spec), Phase: platformv1alpha1.PhaseWaiting, Message: "nobody has looked at it yet",
			})
		}
	}
	return all
}

// resultOf says how a component stands in the tree's words.
func resultOf(c platformv1alpha1.ComponentStatus) readiness.Result {
	result := readiness.Result{Status: readiness.InProgress, Reason: c.Reason, Message: c.Message}
	switch c.Phase { //nolint:exhaustive // the others are on their way, or wait
	case platformv1alpha1.PhaseReady, platformv1alpha1.PhaseLeft:
		result.Status = readiness.Ready
	case platformv1alpha1.PhaseFailed, platformv1alpha1.PhaseRolledBack:
		result.Status = readiness.Failed
	case platformv1alpha1.PhaseRemoving:
		result.Status = readiness.Terminating
	}
	return result
}

// ofStack lists what runs of a stack, by component. It may be in any namespace.
func (r *Reader) ofStack(ctx context.Context, stack *platformv1alpha1.PlatformStack) (map[string][]*unstructured.Unstructured, error) {
	found := map[string][]*unstructured.Unstructured{}
	for _, kind := range platformWorkloads() {
		listed, err := r.list(ctx, kind, client.MatchingLabels{platformstack.LabelStack: stack.Name})
		if apierrors.IsForbidden(err) {
			r.Notice(fmt.Errorf("what runs of the stack isn't shown: %w", err))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		for _, live := range listed {
			if of, is := releaseOf(stack, live); is {
				found[of.Component] = append(found[of.Component], live)
			}
		}
	}
	return found, nil
}

// releaseOf finds the release of a stack that an object is of.
func releaseOf(stack *platformv1alpha1.PlatformStack, live *unstructured.Unstructured) (platformv1alpha1.StackRelease, bool) {
	marks := live.GetAnnotations()
	for _, each := range stack.Status.Releases {
		if marks[object.AnnotationReleaseName] == each.Name && marks[object.AnnotationReleaseNamespace] == each.Namespace {
			return each, true
		}
	}
	return platformv1alpha1.StackRelease{}, false
}

// hooked are the objects that a component's hooks apply and wait for, without
// definitions.
func (r *Reader) hooked(stack *platformv1alpha1.PlatformStack, name string) []object.Ref {
	var refs []object.Ref
	for i := range stack.Spec.Components {
		spec := &stack.Spec.Components[i]
		if spec.Name != name || spec.Hooks == nil {
			continue
		}
		for _, hook := range slices.Concat(spec.Hooks.Before, spec.Hooks.After) {
			for _, each := range namedBy(hook, platformstack.NamespaceOf(spec)) {
				if mapping, err := r.Mapper.RESTMapping(each.GroupKind(), each.Version); err == nil && mapping.Scope.Name() == meta.RESTScopeNameRoot {
					each.Namespace = ""
				}
				if each.Validate() == nil && !each.IsDefinition() && len(refs) < maxRefs {
					refs = append(refs, each)
				}
			}
		}
	}
	return refs
}

// namedBy are the objects that one hook applies or waits for.
func namedBy(hook platformv1alpha1.Hook, namespace string) []object.Ref {
	var refs []object.Ref
	add := func(apiVersion, kind, namespace, name string) {
		gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
		refs = append(refs, object.Ref{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: namespace, Name: name})
	}
	if wait := hook.Wait; wait != nil {
		add(wait.APIVersion, wait.Kind, wait.Namespace, wait.Name)
	}
	if hook.Apply == nil {
		return refs
	}
	for _, each := range hook.Apply.Objects {
		made := &unstructured.Unstructured{}
		if err := made.UnmarshalJSON(each.Raw); err == nil { // or else the stack's status says so
			add(made.GetAPIVersion(), made.GetKind(), cmp.Or(made.GetNamespace(), namespace), made.GetName())
		}
	}
	return refs
}

// platformLevers are those of the component, or of its hook, that a workload is of.
func platformLevers(root, workload *unstructured.Unstructured) diagnosis.Levers {
	stack := stackOf(root)
	if stack == nil {
		return diagnosis.Levers{}
	}
	of, is := releaseOf(stack, workload)
	if hook, isHook := strings.CutPrefix(of.Name, of.Component+"-"); is && isHook {
		return platformstack.HookLevers(of.Component, hook)
	}
	for i := range stack.Spec.Components {
		if spec := &stack.Spec.Components[i]; is && spec.Name == of.Component {
			return platformstack.Levers(spec, workload)
		}
	}
	return diagnosis.Levers{}
}
