// Package diagnosis turns what is known of a workload's pods, events, nodes and
// volumes into one sentence that names the fault and the way out, and the next
// command to run. It reads no cluster and no clock: the same facts, in any
// order, give the same finding, and a message holds nothing that changes while
// the fault stays (no pod's name, time, count of restarts or backoff).
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/slipway-dev/slipway/internal/condition"
)

// Facts are what a diagnosis is made from. Whatever isn't known stays empty;
// the finding then says less.
type Facts struct {
	Workload Workload
	Pods     []corev1.Pod
	// Events of the pods, of their claims and of the workload's replica sets.
	Events  []corev1.Event
	Nodes   []Node
	Claims  []corev1.PersistentVolumeClaim
	Classes []storagev1.StorageClass
	// ClassesKnown says that Classes are all that the cluster has, so that a
	// name that isn't among them doesn't exist.
	ClassesKnown bool
	// Levers are the words for what the user can change.
	Levers Levers
	// Now lets a pod be found that should be gone by now. The zero time leaves
	// that out.
	Now time.Time
}

// Workload is what makes the pods: a Deployment, a StatefulSet and so on.
type Workload struct {
	Kind      string // as in a manifest, "Deployment" when empty
	Namespace string
	Name      string
	Replicas  int32 // wanted
	Ready     int32
	// Conditions of the workload and of its replica sets.
	Conditions []Condition
}

// Condition is a workload's condition, whichever kind it is of.
type Condition struct {
	Type, Status, Reason, Message string
}

// Finding is a fault and the way out.
type Finding struct {
	Reason  string // CamelCase, one of the constants below
	Message string // a deterministic sentence of at most condition.MaxMessage bytes
	Next    string // the next command to run, deterministic too
	// Terminal says that nothing gets better until the user acts.
	Terminal bool
	// Pod is a pod that shows the fault, or empty. It is for a live view only
	// and must not go into a condition.
	Pod string
}

// The reasons of findings.
const (
	ReasonImagePullFailed       = "ImagePullFailed"
	ReasonImageNotFound         = "ImageNotFound"
	ReasonImageUnauthorized     = "ImageUnauthorized"
	ReasonRegistryUnreachable   = "RegistryUnreachable"
	ReasonInvalidImageName      = "InvalidImageName"
	ReasonImageNotPresent       = "ImageNotPresent"
	ReasonCrashLoop             = "CrashLoop"
	ReasonOutOfMemory           = "OutOfMemory"
	ReasonCannotStart           = "CannotStart"
	ReasonContainerConfig       = "ContainerConfigError"
	ReasonMissingConfig         = "MissingConfig"
	ReasonRunsAsRoot            = "RunsAsRoot"
	ReasonProbeFailed           = "ProbeFailed"
	ReasonStarting              = "Starting"
	ReasonNotAnswering          = "NotAnswering" // it runs and doesn't answer: it loads, or listens elsewhere
	ReasonInsufficientGPU       = "InsufficientGPU"
	ReasonInsufficientResources = "InsufficientResources"
	ReasonNoMatchingNode        = "NoMatchingNode"
	ReasonUntoleratedTaints     = "UntoleratedTaints"
	ReasonNoNodesReady          = "NoNodesReady"
	ReasonUnschedulable         = "Unschedulable"
	ReasonMissingStorageClass   = "MissingStorageClass"
	ReasonClaimMissing          = "ClaimMissing"
	ReasonClaimPending          = "ClaimPending"
	ReasonMountFailed           = "MountFailed"
	ReasonSandboxFailed         = "SandboxFailed"
	ReasonQuotaExceeded         = condition.ReasonQuotaExceeded
	ReasonPodSecurity           = "PodSecurityViolation"
	ReasonLimitRange            = "LimitRangeViolation"
	ReasonPodsRejected          = "PodsRejected"
	ReasonEvicted               = "Evicted"
	ReasonNodeLost              = "NodeLost"
	ReasonPodTerminating        = "PodTerminating"
	ReasonDeadlineExceeded      = "ProgressDeadlineExceeded"
	ReasonProgressing           = condition.ReasonProgressing
)

// rank orders findings of equal urgency: the lower, the sooner told.
type rank int

const (
	rankContainer rank = iota // the container itself can't be made, or fails
	rankProbe
	rankStorage
	rankRejected
	rankSchedule
	rankNode
	rankEvicted
	rankStarting
	rankTerminating
	rankDeadline
)

// candidate is one of the faults that were found.
type candidate struct {
	Finding
	rank rank
}

// Diagnose gives the most actionable fault: one that waits for the user before
// one that may pass, a fault of a container before one of its surroundings. It
// reports false when there is no fault, which is never so while a pod isn't
// ready or replicas are missing.
func Diagnose(facts Facts) (Finding, bool) {
	facts.Levers = facts.Levers.filled()
	found := rejected(facts)
	found = append(found, deadline(facts)...)
	for i := range facts.Pods {
		found = append(found, ofPod(facts, &facts.Pods[i])...)
	}
	if len(found) == 0 {
		return progress(facts)
	}
	first := slices.MinFunc(found, compare).Finding
	first.Message = condition.Bound(first.Message)
	return first, true
}

func compare(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(urgency(a.Terminal), urgency(b.Terminal)),
		cmp.Compare(a.rank, b.rank),
		cmp.Compare(a.Reason, b.Reason),
		cmp.Compare(a.Message, b.Message),
		cmp.Compare(a.Next, b.Next),
		cmp.Compare(a.Pod, b.Pod),
	)
}

func urgency(terminal bool) int {
	if terminal {
		return 0
	}
	return 1
}

// DiagnosePod is Diagnose for one of the pods alone: what is wrong with it, and
// nothing of its workload.
func DiagnosePod(facts Facts, pod *corev1.Pod) (Finding, bool) {
	facts.Levers = facts.Levers.filled()
	found := ofPod(facts, pod)
	if len(found) == 0 {
		return Finding{}, false
	}
	first := slices.MinFunc(found, compare).Finding
	first.Message = condition.Bound(first.Message)
	return first, true
}

// ofPod collects a pod's faults. A pod that is ready or done has none.
func ofPod(facts Facts, pod *corev1.Pod) []candidate {
	found := lost(facts, pod)
	switch {
	case len(found) > 0:
	case pod.DeletionTimestamp != nil:
		found = leaving(facts, pod)
	case pod.Status.Phase == corev1.PodSucceeded, isReady(pod):
	case pod.Status.Phase == corev1.PodFailed:
		found = ended(facts, pod)
	case pod.Spec.NodeName == "":
		found = append(volumes(facts, pod), unscheduled(facts, pod)...)
	default:
		found = containers(facts, pod)
		if len(found) == 0 {
			found = append(mounts(facts, pod), volumes(facts, pod)...)
		}
		if len(found) == 0 {
			found = probes(facts, pod)
		}
	}
	if len(found) == 0 && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && !isReady(pod) {
		found = []candidate{starting(facts, pod)}
	}
	for i := range found {
		found[i].Pod = pod.Name
	}
	return found
}

// progress is what is said when nothing is wrong but not all is there yet.
func progress(facts Facts) (Finding, bool) {
	work := facts.Workload
	if work.Ready >= work.Replicas {
		return Finding{}, false
	}
	return Finding{
		Reason:  ReasonProgressing,
		Message: fmt.Sprintf("%d of %d replicas are ready", work.Ready, work.Replicas),
		Next:    facts.describe(),
	}, true
}

// deadline is the last resort: the workload itself gave up waiting.
func deadline(facts Facts) []candidate {
	for _, c := range facts.Workload.Conditions {
		if c.Type == "Progressing" && c.Reason == "ProgressDeadlineExceeded" {
			return []candidate{{Finding{
				Reason:  ReasonDeadlineExceeded,
				Message: fmt.Sprintf("only %d of %d replicas got ready in the time allowed for a rollout", facts.Workload.Ready, facts.Workload.Replicas),
				Next:    facts.describe(),
			}, rankDeadline}}
		}
	}
	return nil
}

// starting says what a pod without a fault is waiting for.
func starting(facts Facts, pod *corev1.Pod) candidate {
	message := "the pods are being created"
	next := facts.describe()
	switch {
	case pod.Spec.NodeName == "":
		message = "the pods wait for a node"
	case slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil }):
		message = "the pods run but aren't ready yet"
		next = facts.logs("", false)
	case facts.pulling(pod):
		message = "images are being pulled"
	}
	return candidate{Finding{Reason: ReasonStarting, Message: message, Next: next}, rankStarting}
}

// pulling says whether the latest that the kubelet told of a pod is that it
// pulls an image.
func (f Facts) pulling(pod *corev1.Pod) bool {
	events := f.eventsOf(pod, "Pulling", "Pulled", "Created", "Started")
	return len(events) > 0 && events[0].Reason == "Pulling"
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// eventsOf lists the events of a pod with one of the reasons, the latest first.
func (f Facts) eventsOf(pod *corev1.Pod, reasons ...string) []corev1.Event {
	return f.eventsFor(func(event *corev1.Event) bool {
		about := event.InvolvedObject
		return about.Name == pod.Name && (about.Kind == "Pod" || about.Kind == "") &&
			(about.UID == "" || about.UID == pod.UID) && slices.Contains(reasons, event.Reason)
	})
}

func (f Facts) eventsFor(wanted func(*corev1.Event) bool) []corev1.Event {
	var events []corev1.Event
	for i := range f.Events {
		if wanted(&f.Events[i]) {
			events = append(events, f.Events[i])
		}
	}
	slices.SortFunc(events, func(a, b corev1.Event) int {
		return cmp.Or(lastSeen(b).Compare(lastSeen(a)), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return events
}

func lastSeen(event corev1.Event) time.Time {
	latest := event.LastTimestamp.Time
	if at := event.EventTime.Time; at.After(latest) {
		latest = at
	}
	if event.Series != nil && event.Series.LastObservedTime.After(latest) {
		latest = event.Series.LastObservedTime.Time
	}
	return latest
}

// describe is the command that shows the workload.
func (f Facts) describe() string {
	return fmt.Sprintf("kubectl%s describe %s", f.inNamespace(), f.reference(" "))
}

// logs is the command that shows a container's log, or the log of its previous
// run.
func (f Facts) logs(container string, previous bool) string {
	command := fmt.Sprintf("kubectl%s logs %s", f.inNamespace(), f.reference("/"))
	if container != "" {
		command += " -c " + container
	}
	if previous {
		command += " --previous"
	}
	return command
}

func (f Facts) inNamespace() string {
	if f.Workload.Namespace == "" {
		return ""
	}
	return " -n " + f.Workload.Namespace
}

func (f Facts) reference(separator string) string {
	if f.Workload.Name == "" {
		return "pods"
	}
	kind := strings.ToLower(cmp.Or(f.Workload.Kind, "Deployment"))
	return kind + separator + f.Workload.Name
}
