// Package v1alpha1 holds the types that kinds of several groups share in their
// status. It defines no kind.
//
// +kubebuilder:object:generate=true
package v1alpha1

// InventoryEntry names one object that was made for a resource.
type InventoryEntry struct {
	// API group; empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// API version.
	Version string `json:"version"`
	// Kind.
	Kind string `json:"kind"`
	// Namespace; empty for an object of the whole cluster.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name.
	Name string `json:"name"`
}
