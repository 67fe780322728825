package readiness

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rule decides for one kind. Deletion, a lagging generation and the standard
// conditions have been dealt with before.
type rule func(object *unstructured.Unstructured, seen []observed) Result

// ruleOf is the list of the kinds that have a rule of their own.
func ruleOf(kind schema.GroupKind) rule {
	switch kind {
	case schema.GroupKind{Kind: "Pod"}:
		return pod
	case schema.GroupKind{Kind: "Service"}:
		return service
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		return claim
	case schema.GroupKind{Kind: "Namespace"}:
		return namespace
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return deployment
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return statefulSet
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		return replicaSet
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"},
		schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return func(object *unstructured.Unstructured, _ []observed) Result { return byKstatus(object) }
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return job
	case schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:
		return autoscaler
	case schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "Gateway"}:
		return gateway
	case schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"},
		schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "GRPCRoute"}:
		return attached
	case schema.GroupKind{Group: "inference.networking.k8s.io", Kind: "InferencePool"}:
		return pool
	case schema.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"},
		schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		return func(*unstructured.Unstructured, []observed) Result { return Result{Status: Ready, Reason: "Exists"} }
	}
	return nil
}

// pod decides without kstatus, which reads the clock for pods.
func pod(object *unstructured.Unstructured, seen []observed) Result {
	switch phase := text(object, "status", "phase"); phase {
	case "Succeeded":
		return Result{Ready, "Completed", ""}
	case "Failed":
		return Result{Failed, or(text(object, "status", "reason"), "PodFailed"), or(text(object, "status", "message"), "its containers ended with an error")}
	case "Running":
		if c, is := find(seen, "Ready"); is && c.status == "True" {
			return Result{Status: Ready, Reason: "Running"}
		}
		return Result{InProgress, "NotReady", "runs but isn't ready"}
	case "Unknown":
		return Result{Unknown, "NodeLost", "its node doesn't answer"}
	default:
		if c, is := find(seen, "PodScheduled"); is && c.status == "False" && c.reason == "Unschedulable" {
			return Result{InProgress, c.reason, "no node has room for it"}
		}
		return Result{InProgress, "Pending", "hasn't started yet"}
	}
}

func service(object *unstructured.Unstructured, _ []observed) Result {
	if text(object, "spec", "type") != "LoadBalancer" {
		return Result{Status: Ready, Reason: "Exists"}
	}
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "loadBalancer", "ingress")
	if addresses, _ := value.([]any); len(addresses) > 0 {
		return Result{Status: Ready, Reason: "Exists"}
	}
	return Result{InProgress, "LoadBalancerPending", "no load balancer has given it an address; where the cluster has none, use type ClusterIP"}
}

func claim(object *unstructured.Unstructured, _ []observed) Result {
	switch phase := text(object, "status", "phase"); phase {
	case "Bound":
		return Result{Status: Ready, Reason: phase}
	case "Lost":
		return Result{Failed, "ClaimLost", "its volume is gone; restore the PersistentVolume or make a new claim"}
	default:
		return Result{InProgress, "ClaimPending", "isn't bound to a volume yet"}
	}
}

// EvaluateClaim is Evaluate for a PersistentVolumeClaim whose StorageClass is
// known. A claim of a class that binds on first use is as ready as it can be
// until a pod that uses it has a node.
func EvaluateClaim(object *unstructured.Unstructured, bindsOnFirstUse bool) Result {
	result := Evaluate(object)
	const chosen = "volume.kubernetes.io/selected-node" // set by the scheduler
	if result.Reason == "ClaimPending" && bindsOnFirstUse && object.GetAnnotations()[chosen] == "" {
		return Result{Ready, "WaitForFirstConsumer", "binds when a pod uses it"}
	}
	return result
}

func namespace(object *unstructured.Unstructured, _ []observed) Result {
	if phase := text(object, "status", "phase"); phase == "Terminating" {
		return Result{Terminating, phase, "is being deleted"}
	}
	return Result{Status: Ready, Reason: "Exists"}
}

func deployment(object *unstructured.Unstructured, seen []observed) Result {
	if c, is := find(seen, "ReplicaFailure"); is && c.status == "True" {
		return Result{Failed, or(c.reason, "ReplicaFailure"), "its pods can't be created"}
	}
	result := byKstatus(object)
	switch {
	case result.Reason == "ProgressDeadlineExceeded":
		result.Message = replicas(object) + "; no progress within its deadline"
	case result.Status == InProgress:
		result.Message = replicas(object)
	}
	return result
}

func replicaSet(object *unstructured.Unstructured, seen []observed) Result {
	if c, is := find(seen, "ReplicaFailure"); is && c.status == "True" {
		return Result{Failed, or(c.reason, "ReplicaFailure"), "its pods can't be created"}
	}
	result := byKstatus(object)
	if result.Status == InProgress {
		result.Message = replicas(object)
	}
	return result
}

// statefulSet adds to kstatus the readiness of pods that are updated by hand.
func statefulSet(object *unstructured.Unstructured, _ []observed) Result {
	result := byKstatus(object)
	wanted, ready := number(object, 1, "spec", "replicas"), number(object, 0, "status", "readyReplicas")
	if result.Status == Ready && ready < wanted {
		result = Result{Status: InProgress, Reason: "LessReady"}
	}
	if result.Status == InProgress {
		result.Message = replicas(object)
	}
	return result
}

// replicas says how many of a workload's pods are ready, and updated when that
// is what it waits for.
func replicas(object *unstructured.Unstructured) string {
	wanted, ready := number(object, 1, "spec", "replicas"), number(object, 0, "status", "readyReplicas")
	updated := number(object, wanted, "status", "updatedReplicas")
	total := number(object, 0, "status", "replicas")
	switch {
	case ready < wanted:
		return fmt.Sprintf("%d of %d replicas are ready", ready, wanted)
	case updated < wanted:
		return fmt.Sprintf("%d of %d replicas are updated", updated, wanted)
	case total > wanted:
		return fmt.Sprintf("%d old replicas have still to end", total-wanted)
	default:
		return fmt.Sprintf("%d replicas are ready but not available yet", wanted)
	}
}

// job differs from kstatus in that a running job isn't ready yet.
func job(object *unstructured.Unstructured, seen []observed) Result {
	for _, kind := range []string{"Complete", "SuccessCriteriaMet"} {
		if c, is := find(seen, kind); is && c.status == "True" {
			return Result{Status: Ready, Reason: "Complete"}
		}
	}
	for _, kind := range []string{"Failed", "FailureTarget"} {
		if c, is := find(seen, kind); is && c.status == "True" {
			return Result{Failed, or(c.reason, "JobFailed"), c.message}
		}
	}
	if c, is := find(seen, "Suspended"); is && c.status == "True" {
		return Result{InProgress, "Suspended", "is suspended"}
	}
	return Result{InProgress, "Running", "hasn't finished yet"}
}

// autoscaler is ready when it can scale; scaling that was switched off by zero
// replicas is no fault.
func autoscaler(_ *unstructured.Unstructured, seen []observed) Result {
	for _, kind := range []string{"AbleToScale", "ScalingActive"} {
		if c, is := find(seen, kind); is && c.status == "False" && c.reason != "ScalingDisabled" {
			return Result{InProgress, c.reason, c.message}
		}
	}
	return Result{Status: Ready, Reason: "Exists"}
}

// gateway follows the Gateway API: Accepted says that the spec is good,
// Programmed that traffic flows.
func gateway(_ *unstructured.Unstructured, seen []observed) Result {
	if c, is := find(seen, "Accepted"); is && c.status == "False" {
		return Result{Failed, c.reason, c.message}
	}
	c, is := find(seen, "Programmed")
	switch {
	case is && c.status == "True":
		return Result{Status: Ready, Reason: "Programmed"}
	case is && c.message != "":
		return Result{InProgress, c.reason, c.message}
	default:
		return Result{InProgress, "NotProgrammed", "no gateway controller has programmed it; check that its gatewayClassName exists"}
	}
}

// attached is for kinds that report to each of their parents (routes to their
// gateways): each must accept it and find what it refers to.
func attached(object *unstructured.Unstructured, _ []observed) Result {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "parents")
	parents, _ := value.([]any)
	accepted := 0
	for _, parent := range parents {
		fields, _ := parent.(map[string]any)
		seen := conditionsIn(fields["conditions"])
		for _, kind := range []string{"Accepted", "ResolvedRefs"} {
			if c, is := find(seen, kind); is && c.status == "False" {
				return Result{Failed, c.reason, c.message}
			}
		}
		if c, is := find(seen, "Accepted"); is && c.status == "True" {
			accepted++
		}
	}
	if accepted == 0 {
		return Result{InProgress, "NotAttached", "no gateway has accepted it yet"}
	}
	return Result{Status: Ready, Reason: "Accepted"}
}

// pool is like attached, but needs no gateway to be of use.
func pool(object *unstructured.Unstructured, seen []observed) Result {
	if result := attached(object, seen); result.Status == Failed {
		return result
	}
	return Result{Status: Ready, Reason: "Exists"}
}

func or(value, absent string) string {
	if value != "" {
		return value
	}
	return absent
}
