package llmdeployment

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/render/llmdeployment"
)

const (
	reasonModelFound   = "ModelFound"
	reasonServing      = "Serving"
	reasonScaledToZero = "ScaledToZero"
)

// report is the status that follows from what was found, what was done and what
// is live. The inventory in it is the one that the facts hold.
func report(facts *facts, result apply.Result, outcome condition.Outcome, finding *diagnosis.Finding, now metav1.Time) llmv1alpha1.LLMDeploymentStatus {
	deployment := facts.deployment
	status := *deployment.Status.DeepCopy()
	status.ObservedGeneration = deployment.Generation
	status.URL = llmdeployment.URL(deployment)
	status.Selector = labels.SelectorFromSet(llmdeployment.Selector(deployment.Name)).String()
	if workload := workloadOf(result); workload != nil {
		status.Replicas = count(workload, "replicas")
		status.ReadyReplicas = count(workload, "readyReplicas")
		status.AvailableReplicas = count(workload, "availableReplicas")
	}
	condition.Set(&status.Conditions, modelFound(facts), now)
	if outcome.Verdict == condition.Done {
		outcome = progress(facts, result, finding)
	}
	condition.Report(&status.Conditions, outcome, deployment.Generation, now)
	status.Phase = phaseOf(status.Conditions)
	return status
}

// starting is the status before anything was made, written together with the
// inventory so that both cost one request.
func starting(facts *facts, now metav1.Time) llmv1alpha1.LLMDeploymentStatus {
	return report(facts, apply.Result{}, condition.Outcome{Verdict: condition.Done}, nil, now)
}

// progress tells how far the pods are, once everything is applied.
func progress(facts *facts, result apply.Result, finding *diagnosis.Finding) condition.Outcome {
	replicas := facts.deployment.Spec.Replicas
	workload := workloadOf(result)
	switch {
	case workload != nil && isServing(workload) && replicas == 0:
		return condition.Outcome{Verdict: condition.Done, Reason: reasonScaledToZero,
			Message: "spec.replicas is 0, so nothing serves; raise it to serve " + facts.model.Spec.ModelName}
	case workload != nil && isServing(workload):
		return condition.Outcome{Verdict: condition.Done, Reason: reasonServing,
			Message: fmt.Sprintf("%s of %s ready", plural(replicas), facts.model.Spec.ModelName)}
	case finding == nil || isProgress(finding):
		// One sentence for the whole way, so that a rollout in good order writes
		// little; `slipway status` shows each pod's step.
		return condition.Outcome{Verdict: condition.Waiting, Reason: condition.ReasonProgressing,
			Message: fmt.Sprintf("waiting for %s to become ready", plural(replicas))}
	case finding.Terminal:
		return condition.Outcome{Verdict: condition.Stopped, Reason: finding.Reason, Message: finding.Message}
	default:
		return condition.Outcome{Verdict: condition.Waiting, Reason: finding.Reason, Message: finding.Message}
	}
}

func modelFound(facts *facts) metav1.Condition {
	found := metav1.Condition{
		Type: llmv1alpha1.ConditionModelFound, Status: metav1.ConditionTrue, Reason: reasonModelFound,
		ObservedGeneration: facts.deployment.Generation,
		Message:            "LLMModel " + facts.deployment.Spec.ModelRef + " exists",
	}
	if facts.model == nil {
		found.Status, found.Reason = metav1.ConditionFalse, reasonModelNotFound
		found.Message = "LLMModel " + facts.deployment.Spec.ModelRef + " doesn't exist"
	}
	return found
}

func phaseOf(conditions []metav1.Condition) llmv1alpha1.Phase {
	switch {
	case condition.IsTrue(conditions, condition.Ready):
		return llmv1alpha1.PhaseReady
	case condition.IsTrue(conditions, condition.Stalled):
		return llmv1alpha1.PhaseFailed
	default:
		return llmv1alpha1.PhasePending
	}
}

func isProgress(finding *diagnosis.Finding) bool {
	return finding.Reason == diagnosis.ReasonStarting || finding.Reason == diagnosis.ReasonProgressing
}

// workloadOf is the live Deployment among what was applied, or nil.
func workloadOf(result apply.Result) *unstructured.Unstructured {
	for _, live := range result.Live {
		if live.GetKind() == "Deployment" {
			return live
		}
	}
	return nil
}

func isServing(workload *unstructured.Unstructured) bool {
	return readiness.Evaluate(workload).Status == readiness.Ready
}

func count(workload *unstructured.Unstructured, field string) int32 {
	n, _, _ := unstructured.NestedInt64(workload.Object, "status", field)
	return int32(n) //nolint:gosec // the API's own int32
}

func plural(replicas int32) string {
	if replicas == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", replicas)
}
