package apply

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
)

// Owner is the resource that objects are made for.
type Owner struct {
	// Object as it was read. Its kind is found in the client's scheme; only an
	// unstructured one has to carry it. Without a UID (a resource that isn't in
	// the cluster yet) it can only be planned for.
	Object client.Object
}

// identity is what the engine needs of an owner.
type identity struct {
	ref object.Ref
	uid types.UID
	// kept: someone else keeps the record of the objects (keep.go).
	kept bool
}

func (e *Engine) identify(owner Owner) (identity, error) {
	gvk, err := e.client.GroupVersionKindFor(owner.Object)
	if err != nil {
		return identity{}, fmt.Errorf("find the kind of the owner: %w", err)
	}
	return identity{
		uid: owner.Object.GetUID(),
		ref: object.Ref{
			Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
			Namespace: owner.Object.GetNamespace(), Name: owner.Object.GetName(),
		},
	}, nil
}

// exists refuses an owner without a UID: nothing could be told to be its own.
func (o identity) exists() error {
	if o.uid == "" {
		return fmt.Errorf("%s has no UID, so it isn't in the cluster", o.ref.Display())
	}
	return nil
}

// refersTo reports whether an object can carry an owner reference to us, which
// Kubernetes allows within a namespace and to an owner of the whole cluster.
func (o identity) refersTo(obj *unstructured.Unstructured) bool {
	return o.ref.Namespace == "" || o.ref.Namespace == obj.GetNamespace()
}

// mark gives a copy of a wanted object that carries its owner: a controller
// reference where it may, a label with the UID where not.
func (o identity) mark(wanted *unstructured.Unstructured) *unstructured.Unstructured {
	marked := wanted.DeepCopy()
	if o.kept {
		return marked
	}
	labels := maps.Clone(marked.GetLabels())
	if labels == nil {
		labels = make(map[string]string, 2)
	}
	labels[object.LabelManagedBy] = object.ManagedBy
	switch {
	case o.uid == "": // planned for before it exists
	case o.refersTo(wanted):
		yes := true
		marked.SetOwnerReferences(append(marked.GetOwnerReferences(), metav1.OwnerReference{
			APIVersion: o.ref.GroupVersionKind().GroupVersion().String(), Kind: o.ref.Kind,
			Name: o.ref.Name, UID: o.uid, Controller: &yes, BlockOwnerDeletion: &yes,
		}))
	default:
		labels[object.LabelOwnerUID] = string(o.uid)
		annotations := maps.Clone(marked.GetAnnotations())
		if annotations == nil {
			annotations = make(map[string]string, 1)
		}
		annotations[object.AnnotationOwner] = o.ref.String()
		marked.SetAnnotations(annotations)
	}
	marked.SetLabels(labels)
	return marked
}

// owns reports whether a live object still carries our UID. Only such an object
// is ever deleted.
func (o identity) owns(live *unstructured.Unstructured) bool {
	if o.uid == "" {
		return o.kept
	}
	if controller := metav1.GetControllerOfNoCopy(live); controller != nil && controller.UID != o.uid {
		return false
	}
	for _, reference := range live.GetOwnerReferences() {
		if reference.UID == o.uid {
			return true
		}
	}
	return live.GetLabels()[object.LabelOwnerUID] == string(o.uid)
}

// mayApply decides whether a live object of a wanted object's name may be
// written: when it is ours, or when nobody controls it and it is marked as ours
// from before (a backup, an owner of the same name) or was handed over by an
// annotation. The error is the sentence that the user reads.
func (o identity) mayApply(live, wanted *unstructured.Unstructured) error {
	if o.kept {
		return nil
	}
	ref := object.Of(wanted).Display()
	if controller := metav1.GetControllerOf(live); controller != nil && controller.UID != o.uid {
		if o.isFormerly(controller, live.GetNamespace()) {
			return condition.Wait(condition.ReasonTerminating,
				"%s belongs to an earlier %s and is being cleaned up; waiting until it is gone", ref, o.ref.Display())
		}
		return condition.Stop(condition.ReasonOwnedByAnother,
			"%s exists and is controlled by %s %s; rename this %s, or delete the other one",
			ref, controller.Kind, controller.Name, o.ref.Kind)
	}
	if o.owns(live) {
		return nil
	}
	if other := live.GetLabels()[object.LabelOwnerUID]; other != "" && !o.isNamed(live.GetAnnotations()[object.AnnotationOwner]) {
		return condition.Stop(condition.ReasonOwnedByAnother,
			"%s exists and belongs to %s; rename this %s, or delete the other one",
			ref, describeOwner(live.GetAnnotations()[object.AnnotationOwner], other), o.ref.Kind)
	}
	if live.GetAnnotations()[object.AnnotationAdopt] == "true" || sameInstance(live, wanted) {
		return nil
	}
	return condition.Stop(condition.ReasonOwnedByAnother,
		"%s exists and wasn't made for this %s; delete it, or hand it over with the annotation %s=true on it",
		ref, o.ref.Kind, object.AnnotationAdopt)
}

// isFormerly reports whether a controller reference is to an owner of our kind
// and name that was deleted before we were created: names are unique.
func (o identity) isFormerly(controller *metav1.OwnerReference, namespace string) bool {
	former := object.Ref{Kind: controller.Kind, Name: controller.Name, Namespace: namespace}
	if o.ref.Namespace == "" {
		former.Namespace = ""
	}
	former.Group = groupOf(controller.APIVersion)
	return former.Identity() == o.ref.Identity()
}

func (o identity) isNamed(annotation string) bool {
	ref, err := object.ParseRef(annotation)
	return err == nil && ref.Identity() == o.ref.Identity()
}

func describeOwner(annotation, uid string) string {
	if ref, err := object.ParseRef(annotation); err == nil {
		return ref.Display()
	}
	return "the owner with UID " + uid
}

func sameInstance(live, wanted *unstructured.Unstructured) bool {
	labels := live.GetLabels()
	instance := wanted.GetLabels()[object.LabelInstance]
	return instance != "" && labels[object.LabelInstance] == instance && labels[object.LabelManagedBy] == object.ManagedBy
}
