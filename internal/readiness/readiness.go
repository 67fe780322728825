// Package readiness says of one object whether it is ready, still on its way or
// failed, and sums up many. It is kstatus (sigs.k8s.io/cli-utils, in Flux's
// fork) plus what kstatus leaves out. It looks at nothing but the object that
// it is given: never at a cluster, a clock or another object. Why a pod isn't
// ready is for package diagnosis.
package readiness

import (
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/condition"
)

// Status is how far an object is.
type Status string

// The statuses, from the best to the worst.
const (
	Ready       Status = "Ready"
	InProgress  Status = "InProgress"
	Terminating Status = "Terminating"
	Unknown     Status = "Unknown" // its status can't be read
	Missing     Status = "Missing" // it isn't there
	Failed      Status = "Failed"  // it won't get ready unless someone acts
)

// Result is the readiness of an object. Reason is CamelCase. Message is a
// deterministic sentence (empty when there is nothing to add), at most
// condition.MaxMessage bytes.
type Result struct {
	Status  Status
	Reason  string
	Message string
}

// Evaluate tells an object's readiness from its content; nil is a missing
// object. A kind that is neither known nor reports conditions is ready as soon
// as it exists.
func Evaluate(object *unstructured.Unstructured) Result {
	result := evaluate(object)
	result.Message = condition.Bound(strings.Join(strings.Fields(result.Message), " "))
	if result.Reason == "" {
		result.Reason = string(result.Status)
	}
	return result
}

func evaluate(object *unstructured.Unstructured) Result {
	if object == nil || object.Object == nil {
		return Result{Missing, "NotFound", "doesn't exist"}
	}
	if object.GetDeletionTimestamp() != nil {
		return terminating(object)
	}
	seen := observe(object)
	if lag, is := lagging(object, seen); is {
		return lag
	}
	if result, is := reconciling(seen); is {
		return result
	}
	if rule := ruleOf(object.GroupVersionKind().GroupKind()); rule != nil {
		return rule(object, seen)
	}
	return bySummary(object, seen)
}

func terminating(object *unstructured.Unstructured) Result {
	message := "is being deleted"
	if held := object.GetFinalizers(); len(held) > 0 {
		message += "; it waits for " + list(held, 3)
	}
	return Result{Terminating, condition.ReasonTerminating, message}
}

// lagging says whether the status speaks of an older spec than there is now.
func lagging(object *unstructured.Unstructured, seen []observed) (Result, bool) {
	generation := object.GetGeneration()
	lag := Result{InProgress, "GenerationNotObserved", "its controller hasn't looked at the latest change yet"}
	if generation == 0 {
		return Result{}, false
	}
	if at, found, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); err == nil && found {
		return lag, at != generation
	}
	for _, c := range seen {
		if c.kind == condition.Ready && c.generation != 0 && c.generation < generation {
			return lag, true
		}
	}
	return Result{}, false
}

// reconciling applies kstatus' standard conditions, which decide for every kind
// that sets them.
func reconciling(seen []observed) (Result, bool) {
	if c, is := find(seen, condition.Stalled); is && c.status == "True" {
		return Result{Failed, c.reason, c.message}, true
	}
	if c, is := find(seen, condition.Reconciling); is && c.status == "True" {
		return Result{InProgress, c.reason, c.message}, true
	}
	return Result{}, false
}

// bySummary goes by the condition that sums up a kind we know nothing else of.
func bySummary(object *unstructured.Unstructured, seen []observed) Result {
	for _, summary := range []string{condition.Ready, "Available"} {
		c, is := find(seen, summary)
		switch {
		case !is:
			continue
		case c.status == "True":
			return Result{Status: Ready, Reason: c.reason, Message: c.message}
		default:
			return Result{InProgress, c.reason, c.message}
		}
	}
	if reportsReady(object.GroupVersionKind().GroupKind()) {
		return Result{InProgress, "NoStatus", "its controller hasn't reported yet; check that it runs"}
	}
	return Result{Status: Ready, Reason: "Exists"}
}

// reportsReady names the kinds that always get a Ready condition, so that
// having none means that no controller has looked at them.
func reportsReady(kind schema.GroupKind) bool {
	switch kind.Group {
	case "llm.example.com", "sim.llm-d.io", "infra.example.com", "platform.slipway.dev",
		"components.platform.opendatahub.io", "datasciencecluster.opendatahub.io",
		"cert-manager.io":
		return true
	case "serving.kserve.io": // Its others, such as LLMInferenceServiceConfig, are read only.
		return kind.Kind == "InferenceService" || kind.Kind == "LLMInferenceService" || kind.Kind == "InferenceGraph"
	}
	return kind == schema.GroupKind{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}
}

// byKstatus asks kstatus for the built-in kinds that it knows well.
func byKstatus(object *unstructured.Unstructured) Result {
	computed, err := status.Compute(object)
	if err != nil {
		return unreadable(err)
	}
	result := Result{Status: InProgress, Message: computed.Message}
	if len(computed.Conditions) > 0 {
		result.Reason = computed.Conditions[0].Reason
	}
	switch computed.Status {
	case status.CurrentStatus:
		result.Status, result.Message = Ready, ""
	case status.FailedStatus:
		result.Status = Failed
	case status.TerminatingStatus:
		result.Status = Terminating
	case status.NotFoundStatus:
		result.Status = Missing
	case status.UnknownStatus:
		result.Status = Unknown
	}
	return result
}

func unreadable(err error) Result {
	return Result{Unknown, "UnreadableStatus", fmt.Sprintf("its status can't be read: %v", err)}
}

// observed is a condition as the object has it.
type observed struct {
	kind, status, reason, message string
	generation                    int64
}

// observe reads status.conditions, and leaves out what isn't a condition.
func observe(object *unstructured.Unstructured) []observed {
	found, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "conditions")
	return conditionsIn(found)
}

func conditionsIn(value any) []observed {
	entries, _ := value.([]any)
	var seen []observed
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		kind, _ := fields["type"].(string)
		if kind == "" {
			continue
		}
		c := observed{kind: kind}
		c.status, _ = fields["status"].(string)
		c.reason, _ = fields["reason"].(string)
		c.message, _ = fields["message"].(string)
		c.generation, _ = fields["observedGeneration"].(int64)
		seen = append(seen, c)
	}
	return seen
}

func find(seen []observed, kind string) (observed, bool) {
	for _, c := range seen {
		if c.kind == kind {
			return c, true
		}
	}
	return observed{}, false
}

func text(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	found, _ := value.(string)
	return found
}

func number(object *unstructured.Unstructured, absent int64, path ...string) int64 {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	switch found := value.(type) {
	case int64:
		return found
	case int:
		return int64(found)
	case float64:
		return int64(found)
	}
	return absent
}
