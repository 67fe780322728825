package diagnosis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// defaultClass marks the StorageClass of claims that name none.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

var (
	missingClaim = regexp.MustCompile(`persistentvolumeclaim "([^"]+)" not found`)
	missingClass = regexp.MustCompile(`storageclass(?:\.storage\.k8s\.io)?s? "([^"]+)" not found`)
	mountVolume  = regexp.MustCompile(`(?s)(?:MountVolume|AttachVolume)\.[A-Za-z]+ failed for volume "[^"]*" : (.*)`)
)

// volumes says which of a pod's claims keep it from running.
func volumes(facts Facts, pod *corev1.Pod) []candidate {
	var found []candidate
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		name := volume.PersistentVolumeClaim.ClaimName
		at := slices.IndexFunc(facts.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
		if at < 0 {
			if schedulerMisses(pod, name) {
				found = append(found, storage(facts, ReasonClaimMissing, name, fmt.Sprintf("PersistentVolumeClaim %s doesn't exist; create it, or change %s", name, facts.Levers.Storage)))
			}
			continue
		}
		if reason, message := claim(facts, &facts.Claims[at]); message != "" {
			found = append(found, storage(facts, reason, name, message))
		}
	}
	return found
}

func storage(facts Facts, reason, name, message string) candidate {
	next := fmt.Sprintf("kubectl%s describe pvc %s", facts.inNamespace(), name)
	switch reason {
	case ReasonMissingStorageClass:
		next = "kubectl get storageclass"
	case ReasonClaimMissing:
		next = fmt.Sprintf("kubectl%s get pvc", facts.inNamespace())
	}
	return candidate{Finding{Reason: reason, Message: message, Next: next, Terminal: reason != ReasonClaimPending}, rankStorage}
}

// schedulerMisses says whether the scheduler looked for a claim in vain.
func schedulerMisses(pod *corev1.Pod, claim string) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			m := missingClaim.FindStringSubmatch(c.Message)
			return m != nil && m[1] == claim
		}
	}
	return false
}

// claim says why a claim isn't bound; an empty message when that is no fault.
func claim(facts Facts, claim *corev1.PersistentVolumeClaim) (reason, message string) {
	switch claim.Status.Phase {
	case corev1.ClaimBound:
		return "", ""
	case corev1.ClaimLost:
		return ReasonClaimMissing, fmt.Sprintf("the volume of PersistentVolumeClaim %s is gone; restore it or make a new claim", claim.Name)
	}
	class, named := classOf(facts, claim)
	switch {
	case class == nil && named != "" && facts.ClassesKnown, named != "" && facts.classMissed(claim, named):
		return ReasonMissingStorageClass, fmt.Sprintf("StorageClass %s of PersistentVolumeClaim %s doesn't exist%s; create it, or change %s", named, claim.Name, classes(facts), facts.Levers.Storage)
	case class == nil && named == "" && facts.ClassesKnown && claim.Spec.StorageClassName == nil:
		return ReasonMissingStorageClass, fmt.Sprintf("PersistentVolumeClaim %s names no StorageClass and the cluster has no default one%s; name one in %s", claim.Name, classes(facts), facts.Levers.Storage)
	case class != nil && waitsForPod(class) && claim.Annotations["volume.kubernetes.io/selected-node"] == "" && len(facts.claimEvents(claim)) == 0:
		return "", "" // it binds when the pod has a node, so the pod's own fault counts
	}
	message = fmt.Sprintf("PersistentVolumeClaim %s isn't bound to a volume yet", claim.Name)
	if events := facts.claimEvents(claim); len(events) > 0 {
		if said := facts.quote(events[0].Message); said != "" {
			message += ": " + said
		}
	} else if class != nil {
		message += fmt.Sprintf("; check the provisioner of StorageClass %s", class.Name)
	}
	return ReasonClaimPending, message
}

func waitsForPod(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// classOf finds a claim's class, and its name if it names one.
func classOf(facts Facts, claim *corev1.PersistentVolumeClaim) (class *storagev1.StorageClass, named string) {
	if claim.Spec.StorageClassName != nil {
		named = *claim.Spec.StorageClassName
	}
	at := slices.IndexFunc(facts.Classes, func(c storagev1.StorageClass) bool {
		return c.Name == named || named == "" && claim.Spec.StorageClassName == nil && c.Annotations[defaultClass] == "true"
	})
	if at < 0 {
		return nil, named
	}
	return &facts.Classes[at], named
}

// classes lists the classes that there are.
func classes(facts Facts) string {
	if len(facts.Classes) == 0 {
		return ""
	}
	names := make([]string, 0, len(facts.Classes))
	for i := range facts.Classes {
		names = append(names, facts.Classes[i].Name)
	}
	slices.Sort(names)
	return " (there is " + strings.Join(names[:min(maxNamed, len(names))], ", ") + ")"
}

// claimEvents lists what provisioners say went wrong with a claim.
func (f Facts) claimEvents(claim *corev1.PersistentVolumeClaim) []corev1.Event {
	return f.eventsFor(func(event *corev1.Event) bool {
		about := event.InvolvedObject
		return about.Kind == "PersistentVolumeClaim" && about.Name == claim.Name && event.Reason == "ProvisioningFailed"
	})
}

func (f Facts) classMissed(claim *corev1.PersistentVolumeClaim, class string) bool {
	for _, event := range f.claimEvents(claim) {
		if m := missingClass.FindStringSubmatch(event.Message); m != nil && m[1] == class {
			return true
		}
	}
	return false
}

// mounts says which volume a pod on a node can't have, and why its sandbox
// can't be made.
func mounts(facts Facts, pod *corev1.Pod) []candidate {
	if slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Waiting == nil }) {
		return nil // its containers run, so whatever failed has passed
	}
	// Images are pulled once volumes and sandbox are there.
	for _, event := range facts.eventsOf(pod, "FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "Pulling", "Pulled") {
		if event.Reason == "Pulling" || event.Reason == "Pulled" {
			return nil
		}
		if strings.HasPrefix(event.Message, "Unable to attach or mount volumes") {
			continue // only lists the volumes; another event has the cause
		}
		made := Finding{Reason: ReasonMountFailed, Next: facts.describe()}
		if fault, is := missing(facts, event.Message); is {
			made.Reason, made.Message, made.Terminal = ReasonMissingConfig, fault, true
			return []candidate{{made, rankStorage}}
		}
		said := event.Message
		if m := mountVolume.FindStringSubmatch(said); m != nil {
			said = m[1]
		}
		switch {
		case strings.Contains(said, "Multi-Attach error"):
			made.Message = "a volume is still attached to another node; it moves when the pod there has ended"
		case event.Reason == "FailedCreatePodSandBox":
			made.Reason = ReasonSandboxFailed
			made.Message = "the node can't set up the pods: " + facts.quote(runtimeFault(afterSandbox(said)))
		default:
			made.Message = "a volume can't be mounted: " + facts.quote(said)
		}
		return []candidate{{made, rankStorage}}
	}
	return nil
}

// afterSandbox drops the runtime's opening words, which hold the sandbox's id.
func afterSandbox(said string) string {
	for _, marker := range []string{"failed to setup network for sandbox", "failed to create pod sandbox: ", "Failed to create pod sandbox: "} {
		if _, after, found := strings.Cut(said, marker); found {
			if strings.HasPrefix(marker, "failed to setup network") {
				return "no network: " + after
			}
			return after
		}
	}
	return said
}
