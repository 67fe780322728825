package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// schedulerSays is what the scheduler's message tells: "0/3 nodes are available:
// 1 node(s) had untolerated taint(s), 2 Insufficient cpu. preemption: …".
type schedulerSays struct {
	nodes   int            // how many there are, or -1 when it doesn't say
	reasons map[string]int // by how many nodes
	before  string         // what was wrong before nodes were looked at
}

var (
	schedulerHead   = regexp.MustCompile(`^0/(\d{1,9}) nodes are available: *`)
	schedulerReason = regexp.MustCompile(`^(\d{1,9}) (.+)$`)
)

// parseScheduler reads the message of a PodScheduled condition or of a
// FailedScheduling event. What follows the first full stop is about preemption.
func parseScheduler(message string) schedulerSays {
	says := schedulerSays{nodes: -1, reasons: map[string]int{}}
	m := schedulerHead.FindStringSubmatch(message)
	if m == nil {
		says.before = strings.TrimSpace(message)
		return says
	}
	says.nodes, _ = strconv.Atoi(m[1])
	body := message[len(m[0]):]
	if end := strings.Index(body, ". "); end >= 0 {
		body = body[:end]
	}
	for _, part := range strings.Split(strings.TrimSuffix(body, "."), ", ") {
		if counted := schedulerReason.FindStringSubmatch(part); counted != nil {
			count, _ := strconv.Atoi(counted[1])
			says.reasons[counted[2]] += count
		} else if part != "" {
			says.before = part
		}
	}
	return says
}

// count is how many nodes were turned down for a reason that holds the text.
func (s schedulerSays) count(text string) int {
	total := 0
	for reason, nodes := range s.reasons {
		if strings.Contains(reason, text) {
			total += nodes
		}
	}
	return total
}

// unscheduled says why no node takes a pod.
func unscheduled(facts Facts, pod *corev1.Pod) []candidate {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		if c.Reason == corev1.PodReasonSchedulingGated {
			return []candidate{{Finding{Reason: ReasonUnschedulable, Message: "the pods wait for a scheduling gate that someone else must open (a queue such as Kueue)", Next: facts.describe()}, rankSchedule}}
		}
		says := parseScheduler(c.Message)
		reason, message := place(facts, pod, says)
		next := "kubectl get nodes"
		if reason == ReasonInsufficientGPU || reason == ReasonInsufficientResources || reason == ReasonUntoleratedTaints {
			next = "kubectl describe nodes"
		}
		// Nodes that start and volumes that are being made need nothing from the user.
		terminal := reason != ReasonNoNodesReady && reason != ReasonClaimPending
		return []candidate{{Finding{Reason: reason, Message: message, Next: next, Terminal: terminal}, rankSchedule}}
	}
	return nil
}

// place finds the reason that the user can do most about: a claim before a
// resource, a resource before a rule that keeps pods off nodes.
func place(facts Facts, pod *corev1.Pod, says schedulerSays) (reason, message string) {
	total := max(says.nodes, len(facts.Nodes))
	if total == 0 || strings.HasPrefix(says.before, "no nodes available") {
		return ReasonNoNodesReady, "the cluster has no nodes; add one"
	}
	if ready := readyNodes(facts.Nodes); len(facts.Nodes) > 0 && ready == 0 {
		return ReasonNoNodesReady, fmt.Sprintf("0/%d nodes are ready; start them, or see why they aren't with kubectl describe nodes", len(facts.Nodes))
	}
	for _, name := range lacking(pod, says) {
		return shortOf(facts, pod, says, name)
	}
	return keptOff(facts, pod, says, total)
}

// lacking lists the resources of which no node has enough, extended ones (GPUs)
// first, as those are the hardest to come by.
func lacking(pod *corev1.Pod, says schedulerSays) []corev1.ResourceName {
	wanted := requests(pod)
	var names []corev1.ResourceName
	for reason := range says.reasons {
		if name, is := strings.CutPrefix(reason, "Insufficient "); is && !wanted.Name(corev1.ResourceName(name), "").IsZero() {
			names = append(names, corev1.ResourceName(name))
		}
	}
	slices.SortFunc(names, func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(native(a), native(b)), cmp.Compare(a, b))
	})
	return names
}

func native(name corev1.ResourceName) int {
	if strings.Contains(string(name), "/") {
		return 0
	}
	return 1
}

// shortOf says how much of a resource a pod needs and how much there is.
func shortOf(facts Facts, pod *corev1.Pod, says schedulerSays, name corev1.ResourceName) (reason, message string) {
	needs := requests(pod)[name]
	total := max(says.nodes, len(facts.Nodes))
	reason, lever := ReasonInsufficientResources, facts.lever(name)
	if native(name) == 0 {
		reason = ReasonInsufficientGPU
	}
	all := largest(facts.Nodes, func(n Node) corev1.ResourceList { return n.Allocatable }, name)
	free := largest(facts.Nodes, func(n Node) corev1.ResourceList { return n.Free }, name)
	known := slices.ContainsFunc(facts.Nodes, func(n Node) bool { return n.Free != nil })
	switch {
	case len(facts.Nodes) > 0 && all.IsZero() && native(name) == 0:
		return reason, fmt.Sprintf("no node offers %s; install its device plugin on the nodes that have the devices, add such nodes, or lower %s", name, lever)
	case len(facts.Nodes) > 0 && all.Cmp(needs) < 0:
		return reason, fmt.Sprintf("0/%d nodes have %s %s%s; lower %s or add larger nodes", total, needs.String(), name, aside(says, "largest node: "+all.String()), lever)
	case known:
		return reason, fmt.Sprintf("0/%d nodes have %s free %s%s; lower %s or add nodes", total, needs.String(), name, aside(says, "max free: "+free.String()), lever)
	default:
		return reason, fmt.Sprintf("0/%d nodes have %s free %s%s; lower %s or add nodes", total, needs.String(), name, aside(says), lever)
	}
}

// aside adds in brackets how many nodes were turned down for something else.
func aside(says schedulerSays, notes ...string) string {
	if tainted := says.count("taint"); tainted > 0 {
		notes = append(notes, fmt.Sprintf("tainted: %d", tainted))
	}
	if other := says.count("affinity/selector"); other > 0 {
		notes = append(notes, fmt.Sprintf("outside the node selector: %d", other))
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

func (f Facts) lever(name corev1.ResourceName) string {
	switch name {
	case corev1.ResourceCPU:
		return f.Levers.CPU
	case corev1.ResourceMemory:
		return f.Levers.Memory
	case corev1.ResourceEphemeralStorage:
		return f.Levers.Storage
	case corev1.ResourcePods:
		return f.Levers.Replicas
	}
	return f.Levers.GPU
}

// keptOff says which rule keeps a pod off the nodes.
func keptOff(facts Facts, pod *corev1.Pod, says schedulerSays, total int) (reason, message string) {
	levers := facts.Levers
	switch {
	case says.count("affinity/selector") > 0:
		return ReasonNoMatchingNode, fmt.Sprintf("%d/%d nodes don't match the pods' node selector%s; label a node, or change %s",
			says.count("affinity/selector"), total, selector(pod), levers.NodeSelector)
	case says.count("taint") > 0:
		return ReasonUntoleratedTaints, fmt.Sprintf("%d/%d nodes have taints that the pods don't tolerate%s; add %s, or remove the taints",
			says.count("taint"), total, taints(facts, pod), levers.Tolerations)
	case says.count("Too many pods") > 0:
		return ReasonInsufficientResources, fmt.Sprintf("%d/%d nodes run as many pods as they may; add nodes, or lower %s", says.count("Too many pods"), total, levers.Replicas)
	case says.count("anti-affinity") > 0:
		return ReasonNoMatchingNode, fmt.Sprintf("every node that fits has such a pod already (anti-affinity); add nodes, or lower %s", levers.Replicas)
	case says.count("pod affinity") > 0, says.count("topology spread") > 0:
		return ReasonNoMatchingNode, fmt.Sprintf("no node fits the pods' affinity or topology spread; add nodes, or lower %s", levers.Replicas)
	case says.count("were unschedulable") > 0:
		return ReasonNoNodesReady, "the nodes that would fit are cordoned; kubectl uncordon one"
	case says.count("free ports") > 0:
		return ReasonUnschedulable, fmt.Sprintf("no node has the pods' host port free; add nodes, or lower %s", levers.Replicas)
	case says.count("volume") > 0, strings.Contains(says.before, "ersistentVolumeClaim"), strings.Contains(says.before, "persistentvolumeclaim"):
		return ReasonClaimPending, fmt.Sprintf("no node can have the pods' volumes%s; check that they are bound, and where their volumes are", claimsOf(pod))
	}
	said := facts.quote(cmp.Or(says.before, strings.Join(slices.Sorted(maps.Keys(says.reasons)), ", ")))
	return ReasonUnschedulable, "no node takes the pods: " + cmp.Or(said, "the scheduler gives no reason")
}

// claimsOf names the claims that a pod uses.
func claimsOf(pod *corev1.Pod) string {
	var names []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return " (PersistentVolumeClaim " + strings.Join(names[:min(maxNamed, len(names))], ", ") + ")"
}

// selector shows a pod's node selector.
func selector(pod *corev1.Pod) string {
	if len(pod.Spec.NodeSelector) == 0 {
		return ""
	}
	var pairs []string
	for key, value := range pod.Spec.NodeSelector {
		pairs = append(pairs, key+"="+value)
	}
	slices.Sort(pairs)
	return " " + strings.Join(pairs[:min(maxNamed, len(pairs))], ",")
}

// taints lists the taints of schedulable nodes that a pod doesn't tolerate.
func taints(facts Facts, pod *corev1.Pod) string {
	var keys []string
	for _, node := range facts.Nodes {
		for i := range node.Taints {
			taint := node.Taints[i]
			if taint.Effect == corev1.TaintEffectPreferNoSchedule || tolerated(pod, taint) {
				continue
			}
			keys = append(keys, strings.TrimSuffix(taint.Key+"="+taint.Value, "=")+":"+string(taint.Effect))
		}
	}
	if len(keys) == 0 {
		return ""
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return " (" + strings.Join(keys[:min(maxNamed, len(keys))], ", ") + ")"
}

// tolerated follows the API's rule for tolerations: an empty effect or key
// stands for all, and Exists ignores the value.
func tolerated(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		return t.Operator == corev1.TolerationOpExists || t.Key != "" && t.Value == taint.Value
	})
}

func readyNodes(nodes []Node) int {
	ready := 0
	for _, node := range nodes {
		if node.Ready {
			ready++
		}
	}
	return ready
}
