package diagnosis

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Node is what a diagnosis needs to know of a node.
type Node struct {
	Name          string
	Ready         bool
	Unschedulable bool
	Labels        map[string]string
	Taints        []corev1.Taint
	Allocatable   corev1.ResourceList
	// Free is Allocatable less what pods on the node have asked for; nil when
	// those aren't known.
	Free corev1.ResourceList
}

// NodesOf makes facts of nodes. Pods are all of the cluster's, from which Free
// is reckoned; nil when they aren't known.
func NodesOf(nodes []corev1.Node, pods []corev1.Pod) []Node {
	free := make(map[string]corev1.ResourceList, len(nodes))
	made := make([]Node, 0, len(nodes))
	for i := range nodes {
		node := Node{
			Name:          nodes[i].Name,
			Unschedulable: nodes[i].Spec.Unschedulable,
			Labels:        nodes[i].Labels,
			Taints:        nodes[i].Spec.Taints,
			Allocatable:   nodes[i].Status.Allocatable,
		}
		for _, c := range nodes[i].Status.Conditions {
			if c.Type == corev1.NodeReady {
				node.Ready = c.Status == corev1.ConditionTrue
			}
		}
		if pods != nil {
			node.Free = node.Allocatable.DeepCopy()
			free[node.Name] = node.Free
		}
		made = append(made, node)
	}
	for i := range pods {
		left := free[pods[i].Spec.NodeName]
		if left == nil || pods[i].Status.Phase == corev1.PodSucceeded || pods[i].Status.Phase == corev1.PodFailed {
			continue
		}
		for name, used := range requests(&pods[i]) {
			if quantity, is := left[name]; is {
				quantity.Sub(used)
				left[name] = quantity
			}
		}
	}
	return made
}

// requests is what a pod asks of a node, by the scheduler's rule: the sum of
// its containers and of its sidecars, or its largest init container if that is
// more, plus the pod's overhead.
func requests(pod *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, each := range pod.Spec.Containers {
		add(sum, each.Resources.Requests)
	}
	for _, each := range pod.Spec.InitContainers {
		if each.RestartPolicy != nil && *each.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(sum, each.Resources.Requests)
			continue
		}
		for name, quantity := range each.Resources.Requests {
			if held := sum[name]; quantity.Cmp(held) > 0 {
				sum[name] = quantity.DeepCopy()
			}
		}
	}
	add(sum, pod.Spec.Overhead)
	return sum
}

func add(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		held := sum[name]
		held.Add(quantity)
		sum[name] = held
	}
}

// largest is the most of a resource that any of the nodes has, free or at all.
func largest(nodes []Node, of func(Node) corev1.ResourceList, name corev1.ResourceName) resource.Quantity {
	var most resource.Quantity
	for _, node := range nodes {
		if quantity, is := of(node)[name]; is && quantity.Cmp(most) > 0 {
			most = quantity
		}
	}
	return most
}

// lost says that a pod is on a node that doesn't answer.
func lost(facts Facts, pod *corev1.Pod) []candidate {
	name := pod.Spec.NodeName
	at := slices.IndexFunc(facts.Nodes, func(n Node) bool { return n.Name == name })
	// A ready pod on an unknown node is on one that we haven't heard of yet.
	gone := at < 0 && len(facts.Nodes) > 0 && !isReady(pod)
	if name == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	if pod.Status.Reason != "NodeLost" && !gone && (at < 0 || facts.Nodes[at].Ready) {
		return nil
	}
	fault := fmt.Sprintf("node %s doesn't answer, so the pods on it don't serve; start it again, or delete it (kubectl delete node %s) so that they move at once", name, name)
	if gone {
		fault = fmt.Sprintf("node %s is gone, and the pods on it will be replaced", name)
	}
	return []candidate{{Finding{Reason: ReasonNodeLost, Message: fault, Next: "kubectl describe node " + name}, rankNode}}
}

// slack is how long a pod may outlive its grace period before it is called
// stuck.
const slackSeconds = 60

// leaving says of a pod that should be gone why it may not be.
func leaving(facts Facts, pod *corev1.Pod) []candidate {
	if facts.Now.IsZero() || facts.Now.Sub(pod.DeletionTimestamp.Time).Seconds() < slackSeconds {
		return nil
	}
	message := "pods that were deleted are still there after their grace period; check their node"
	if len(pod.Finalizers) > 0 {
		held := slices.Sorted(slices.Values(pod.Finalizers))
		message = fmt.Sprintf("pods that were deleted wait for finalizer %s; whoever set it must remove it", strings.Join(held, ", "))
	}
	return []candidate{{Finding{Reason: ReasonPodTerminating, Message: message, Next: facts.describe()}, rankTerminating}}
}

var (
	lowOn        = regexp.MustCompile(`low on resource: ([a-z-]+)`)
	emptyDirFull = regexp.MustCompile(`EmptyDir volume "([^"]+)" exceeds the limit "([^"]+)"`)
	diskLimit    = regexp.MustCompile(`exceeded its local ephemeral storage limit "([^"]+)"|usage exceeds the total limit of containers ([0-9A-Za-z.]+)`)
)

// ended says why a pod has failed for good.
func ended(facts Facts, pod *corev1.Pod) []candidate {
	made := func(reason, format string, args ...any) []candidate {
		return []candidate{{Finding{Reason: reason, Message: fmt.Sprintf(format, args...), Next: facts.describe()}, rankEvicted}}
	}
	said := pod.Status.Message
	switch reason := pod.Status.Reason; {
	case reason == "Evicted":
		if m := emptyDirFull.FindStringSubmatch(said); m != nil {
			return made(ReasonEvicted, "pods were evicted because volume %s outgrew its limit of %s; enlarge %s", m[1], m[2], facts.Levers.Storage)
		}
		if m := diskLimit.FindStringSubmatch(said); m != nil {
			return made(ReasonEvicted, "pods were evicted because they wrote more than their limit of %s to local disk; use %s for what they write", cmp.Or(m[1], m[2]), facts.Levers.Storage)
		}
		if m := lowOn.FindStringSubmatch(said); m != nil {
			return made(ReasonEvicted, "pods were evicted because their node ran low on %s; %s", m[1], relief(facts, m[1]))
		}
		return made(ReasonEvicted, "pods were evicted: %s", cmp.Or(facts.quote(said), "the node was under pressure"))
	case strings.HasPrefix(reason, "OutOf"), reason == "UnexpectedAdmissionError":
		if name := strings.TrimPrefix(reason, "OutOf"); name != reason {
			return made(ReasonInsufficientResources, "a node took pods for which it had not enough %s; they are placed again", name)
		}
		return made(ReasonCannotStart, "a node refused pods: %s", cmp.Or(facts.quote(said), "it gave no reason"))
	case reason == "Terminated", reason == "NodeShutdown", reason == "Shutdown":
		return made(ReasonNodeLost, "pods ended because their node shut down; they are placed again")
	case reason == "DeadlineExceeded":
		return made(ReasonDeadlineExceeded, "pods ran longer than their activeDeadlineSeconds")
	}
	if found := containers(facts, pod); len(found) > 0 {
		return found
	}
	return made(ReasonCrashLoop, "pods failed: %s", cmp.Or(facts.quote(said), pod.Status.Reason, "their containers ended with an error"))
}

// relief is what helps a node that ran low on something.
func relief(facts Facts, name string) string {
	switch name {
	case "memory":
		return fmt.Sprintf("set %s to what the model needs, or add nodes", facts.Levers.Memory)
	default:
		return "free space on the node, or give it a larger disk"
	}
}
