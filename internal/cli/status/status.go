// Package status shows a resource as a tree, from what a user applied to its
// pods, with what is wrong and the next command. It only ever reads.
package status

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/readiness"
)

// Node is an object in the tree.
type Node struct {
	Object object.Ref       `json:"object"`
	Status readiness.Status `json:"status"`
	Reason string           `json:"reason,omitempty"`
	// Message says what is wrong and the way out.
	Message string `json:"message,omitempty"`
	// Next is the command to run next.
	Next     string  `json:"next,omitempty"`
	Details  Details `json:"details,omitzero"`
	Children []*Node `json:"children,omitempty"`

	uid types.UID // of the object, empty when it isn't there
}

// walk calls visit for a node and all below it, the node itself first.
func (n *Node) walk(visit func(*Node)) {
	visit(n)
	for _, child := range n.Children {
		child.walk(visit)
	}
}
