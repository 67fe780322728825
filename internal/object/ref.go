// Package object says which object is meant, in which order kinds are applied,
// what an object and its labels are called, and when two objects ask for the
// same. It is pure: it never reads a cluster and changes nothing that it is
// given.
package object

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is what the functions of this package need of one.
type Object interface {
	metav1.Object
	runtime.Object
}

// Ref names an object. Its identity is everything but the version: an object is
// the same one in every version in which its kind is served. It converts to and
// from the inventory entry of api/meta.
type Ref struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // empty for an object of the whole cluster
	Name      string `json:"name"`
}

// Of names an object that carries its kind. An object read through a typed
// client doesn't: set it first.
func Of(obj Object) Ref {
	gvk := obj.GetObjectKind().GroupVersionKind()
	return Ref{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(),
	}
}

// GroupVersionKind is the kind in the version that the reference was made with.
func (r Ref) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// GroupKind is the kind without a version.
func (r Ref) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}
}

// Identity is the reference without its version, to compare with == and to use
// as a key.
func (r Ref) Identity() Ref {
	r.Version = ""
	return r
}

// Validate reports what a reference lacks to name an object.
func (r Ref) Validate() error {
	switch {
	case r.Kind == "":
		return fmt.Errorf("object %q has no kind; set apiVersion and kind", r.Name)
	case r.Version == "":
		return fmt.Errorf("%s %q has no API version; set apiVersion", r.Kind, r.Name)
	case r.Name == "":
		return fmt.Errorf("a %s has no name; set metadata.name (generateName can't be applied)", r.Kind)
	}
	return nil
}

// Display is the reference as a sentence calls it: "Service prod/chat".
func (r Ref) Display() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// String is the reference in one word, with ParseRef as its inverse:
// version/kind/namespace/name for the core group, else group/version/kind/….
// The namespace of an object of the whole cluster is empty.
func (r Ref) String() string {
	text := r.Version + "/" + r.Kind + "/" + r.Namespace + "/" + r.Name
	if r.Group != "" {
		text = r.Group + "/" + text
	}
	return text
}

// ParseRef reads what String wrote. Neither a group, a version, a kind, a
// namespace nor a name contains a slash.
func ParseRef(text string) (Ref, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 4 {
		parts = append([]string{""}, parts...)
	}
	if len(parts) != 5 {
		return Ref{}, fmt.Errorf("%q names no object; write group/version/kind/namespace/name", text)
	}
	ref := Ref{Group: parts[0], Version: parts[1], Kind: parts[2], Namespace: parts[3], Name: parts[4]}
	return ref, ref.Validate()
}

// Compare orders references as they are applied: by the rank of their kind
// (order.go), then by group, kind, namespace and name. The version counts last
// and only so that the order is total.
func Compare(a, b Ref) int {
	return cmp.Or(
		cmp.Compare(a.Rank(), b.Rank()),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Version, b.Version),
	)
}

// Sort puts references in the order in which they are applied.
func Sort(refs []Ref) { slices.SortFunc(refs, Compare) }

// Union is every object of both lists once, in apply order. Where both name the
// same object, the version of the second is kept.
func Union(old, wanted []Ref) []Ref {
	known := make(map[Ref]struct{}, len(wanted))
	all := make([]Ref, 0, len(old)+len(wanted))
	add := func(refs []Ref) {
		for _, ref := range refs {
			if _, there := known[ref.Identity()]; !there {
				known[ref.Identity()] = struct{}{}
				all = append(all, ref)
			}
		}
	}
	add(wanted)
	add(old)
	Sort(all)
	return all
}

// Difference is every object of the first list that the second doesn't name, in
// apply order.
func Difference(old, wanted []Ref) []Ref {
	known := make(map[Ref]struct{}, len(wanted))
	for _, ref := range wanted {
		known[ref.Identity()] = struct{}{}
	}
	var rest []Ref
	for _, ref := range old {
		if _, there := known[ref.Identity()]; !there {
			known[ref.Identity()] = struct{}{}
			rest = append(rest, ref)
		}
	}
	Sort(rest)
	return rest
}
