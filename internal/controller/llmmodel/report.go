package llmmodel

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
)

// named is how many users a message names before it counts the rest.
const named = 5

// report is the status of a model that the given deployments use.
func report(model *llmv1alpha1.LLMModel, users []string, now metav1.Time) llmv1alpha1.LLMModelStatus {
	status := *model.Status.DeepCopy()
	status.ObservedGeneration = model.Generation
	status.Deployments = int32(len(users))
	status.Phase = llmv1alpha1.PhaseReady
	outcome := condition.Outcome{
		Verdict: condition.Done,
		Reason:  condition.ReasonReady,
		Message: "no LLMDeployment refers to this model yet; one with spec.modelRef: " + model.Name + " serves it",
	}
	if len(users) > 0 {
		outcome.Message = "used by " + deployments(users)
	}
	if model.DeletionTimestamp != nil {
		status.Phase = llmv1alpha1.PhaseTerminating
		outcome = condition.Outcome{
			Verdict: condition.Waiting,
			Reason:  condition.ReasonDeletionBlocked,
			Message: fmt.Sprintf("deletion waits for %s; delete them or change their spec.modelRef", deployments(users)),
		}
	}
	condition.Report(&status.Conditions, outcome, model.Generation, now)
	return status
}

func deployments(users []string) string {
	if len(users) == 1 {
		return "LLMDeployment " + users[0]
	}
	if len(users) <= named {
		return fmt.Sprintf("%d LLMDeployments: %s", len(users), strings.Join(users, ", "))
	}
	return fmt.Sprintf("%d LLMDeployments: %s and %d more",
		len(users), strings.Join(users[:named], ", "), len(users)-named)
}
