package datasciencecluster

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/condition"
)

// Reasons of the kind's own.
const (
	reasonRemoved           = "Removed"
	reasonUnknownComponents = "UnknownComponents"
)

// maxNamed bounds how many components a message names.
const maxNamed = 10

// report mirrors the Llmd, nil when there is none, and says how the whole stands.
func report(cluster *datascienceclusterv2.DataScienceCluster, llmd *componentsv1alpha1.Llmd, outcome condition.Outcome, now metav1.Time) datascienceclusterv2.DataScienceClusterStatus {
	status := *cluster.Status.DeepCopy()
	status.ObservedGeneration = cluster.Generation
	status.Components.Llmd = mirror(cluster, llmd)
	if outcome.Verdict == condition.Done {
		outcome = stands(cluster, llmd)
	}
	if !outcome.Silent {
		condition.Set(&status.Conditions, componentCondition(outcome, cluster.Generation), now)
	}
	told := outcome
	if told.Verdict != condition.Done {
		told.Message = "llmd: " + told.Message
	}
	condition.Report(&status.Conditions, told, cluster.Generation, now)
	if names := unknown(cluster); len(names) > 0 {
		condition.Set(&status.Conditions, metav1.Condition{
			Type: datascienceclusterv2.ConditionUnknownComponents, Status: metav1.ConditionTrue, Reason: reasonUnknownComponents,
			Message: foreign(names), ObservedGeneration: cluster.Generation,
		}, now)
	} else {
		condition.Remove(&status.Conditions, datascienceclusterv2.ConditionUnknownComponents)
	}
	status.Phase = "NotReady"
	if condition.IsTrue(status.Conditions, condition.Ready) {
		status.Phase = "Ready"
	}
	return status
}

func mirror(cluster *datascienceclusterv2.DataScienceCluster, llmd *componentsv1alpha1.Llmd) *componentsv1alpha1.DSCLlmdStatus {
	if cluster.Spec.Components.Llmd == nil && llmd == nil {
		return nil
	}
	mirrored := &componentsv1alpha1.DSCLlmdStatus{ManagementState: componentsv1alpha1.Removed}
	if cluster.Spec.Components.Managed() {
		mirrored.ManagementState = componentsv1alpha1.Managed
	}
	if llmd != nil {
		mirrored.ChartsStatus = *llmd.Status.ChartsStatus.DeepCopy()
	}
	return mirrored
}

// stands is how llm-d stands, once the Llmd is as it shall be.
func stands(cluster *datascienceclusterv2.DataScienceCluster, llmd *componentsv1alpha1.Llmd) condition.Outcome {
	switch {
	case !cluster.Spec.Components.Managed() && llmd == nil:
		return condition.Outcome{Verdict: condition.Done, Reason: reasonRemoved,
			Message: "llmd is removed; write managementState: Managed to have it"}
	case llmd == nil:
		return condition.Outcome{Verdict: condition.Waiting, Reason: condition.ReasonProgressing, Message: "the Llmd is being made"}
	case llmd.DeletionTimestamp != nil || !cluster.Spec.Components.Managed():
		return condition.Outcome{Verdict: condition.Waiting, Reason: condition.ReasonTerminating, Message: terminating(llmd)}
	}
	ready := condition.Find(llmd.Status.Conditions, condition.Ready)
	switch {
	case ready == nil || ready.ObservedGeneration != llmd.Generation:
		return condition.Outcome{Verdict: condition.Waiting, Reason: condition.ReasonProgressing, Message: "its Llmd hasn't been looked at yet"}
	case ready.Status == metav1.ConditionTrue:
		return condition.Outcome{Verdict: condition.Done, Reason: ready.Reason, Message: ready.Message}
	case condition.IsTrue(llmd.Status.Conditions, condition.Stalled):
		return condition.Outcome{Verdict: condition.Stopped, Reason: ready.Reason, Message: ready.Message}
	}
	return condition.Outcome{Verdict: condition.Waiting, Reason: ready.Reason, Message: ready.Message}
}

func terminating(llmd *componentsv1alpha1.Llmd) string {
	if ready := condition.Find(llmd.Status.Conditions, condition.Ready); ready != nil && ready.Status == metav1.ConditionFalse {
		return "it is being removed; " + ready.Message
	}
	return "it is being removed"
}

func componentCondition(outcome condition.Outcome, generation int64) metav1.Condition {
	made := metav1.Condition{
		Type: datascienceclusterv2.ConditionLlmdReady, Status: metav1.ConditionFalse, Reason: outcome.Reason,
		Message: outcome.Message, ObservedGeneration: generation,
	}
	if outcome.Verdict == condition.Done && outcome.Reason != reasonRemoved {
		made.Status = metav1.ConditionTrue
	}
	return made
}

// foreign is the warning about components that Slipway doesn't run.
func foreign(names []string) string {
	more := ""
	if len(names) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamed)
		names = names[:maxNamed]
	}
	return fmt.Sprintf("Slipway runs no component %s%s: they are kept as they are written and have no effect here; run the operator that knows them, or remove them",
		strings.Join(names, ", "), more)
}
