package status

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/readiness"
)

// build turns what was read into the tree. It reads nothing more.
func build(root *seen) *Node { return under(root, nil) }

// under builds a node; facts are those of the workload that it belongs to.
func under(from *seen, facts *diagnosis.Facts) *Node {
	result := readiness.Evaluate(from.live)
	if from.told != nil {
		result = *from.told
	}
	node := &Node{Object: from.ref, Status: result.Status, Reason: result.Reason, Message: result.Message, Details: detailsOf(from.live)}
	if from.live != nil {
		node.uid = from.live.GetUID()
	}
	if from.facts != nil {
		facts = from.facts
		if finding, found := diagnosis.Diagnose(*facts); found {
			node.tell(finding)
		}
	}
	if from.ref.GroupKind() == (object.Ref{Kind: "Pod"}).GroupKind() && facts != nil && from.live != nil {
		node.pod(from, *facts)
	}
	for _, child := range from.children {
		if !outdated(child) {
			node.Children = append(node.Children, under(child, facts))
		}
	}
	if from.facts == nil {
		node.lift()
	}
	return node
}

// tell puts a finding into a node. One that waits for the user makes it Failed.
func (n *Node) tell(finding diagnosis.Finding) {
	n.Reason, n.Message, n.Next = finding.Reason, finding.Message, finding.Next
	if finding.Terminal && n.Status == readiness.InProgress {
		n.Status = readiness.Failed
	}
}

// pod diagnoses a pod by itself.
func (n *Node) pod(from *seen, facts diagnosis.Facts) {
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.live.Object, pod); err != nil {
		return
	}
	if finding, found := diagnosis.DiagnosePod(facts, pod); found {
		n.tell(finding)
	}
}

// lift gives a node that isn't ready the next command of the child that tells
// the same, since only workloads know one.
func (n *Node) lift() {
	if n.Status == readiness.Ready || n.Next != "" {
		return
	}
	for _, child := range n.Children {
		if child.Next != "" && child.Message == n.Message {
			n.Next = child.Next
			return
		}
	}
}

// outdated says of a replica set that it is one of an earlier revision, with
// nothing left in it.
func outdated(from *seen) bool {
	return from.ref.Kind == "ReplicaSet" && from.live != nil && len(from.children) == 0 && replicasOf(from) == 0
}

func replicasOf(from *seen) int64 {
	spec, _ := from.live.Object["spec"].(map[string]any)
	wanted, _ := spec["replicas"].(int64)
	return wanted
}
