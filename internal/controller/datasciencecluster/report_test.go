package datasciencecluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/condition"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func someCluster(state componentsv1alpha1.ManagementState) *datascienceclusterv2.DataScienceCluster {
	return &datascienceclusterv2.DataScienceCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "default-dsc", Generation: 4},
		Spec: datascienceclusterv2.DataScienceClusterSpec{Components: datascienceclusterv2.Components{
			Llmd: &componentsv1alpha1.DSCLlmd{ManagementState: state},
		}},
	}
}

// someLlmd says of itself what an outcome says, at generation 2.
func someLlmd(outcome condition.Outcome) *componentsv1alpha1.Llmd {
	made := &componentsv1alpha1.Llmd{ObjectMeta: metav1.ObjectMeta{Name: componentsv1alpha1.LlmdName, Generation: 2}}
	condition.Report(&made.Status.Conditions, outcome, 2, now)
	made.Status.ModelService = &componentsv1alpha1.ChartStatus{ReleaseName: "llmd-modelservice", Version: "0.2.11"}
	return made
}

func TestReport(t *testing.T) {
	done := condition.Outcome{Verdict: condition.Done}
	ready := someLlmd(condition.Outcome{Verdict: condition.Done, Reason: "Ready", Message: "all are ready"})
	waits := someLlmd(condition.Outcome{Verdict: condition.Waiting, Reason: "Progressing", Message: "infra: waits"})
	stalled := someLlmd(condition.Outcome{Verdict: condition.Stopped, Reason: "RolledBack", Message: "infra: went back"})
	stale := ready.DeepCopy()
	stale.Generation = 3
	leaving := waits.DeepCopy()
	leaving.DeletionTimestamp = &now
	for name, test := range map[string]struct {
		state           componentsv1alpha1.ManagementState
		llmd            *componentsv1alpha1.Llmd
		outcome         condition.Outcome
		ready           bool
		component       metav1.ConditionStatus
		reason, message string
	}{
		"ready":      {componentsv1alpha1.Managed, ready, done, true, metav1.ConditionTrue, "Ready", "all are ready"},
		"waits":      {componentsv1alpha1.Managed, waits, done, false, metav1.ConditionFalse, "Progressing", "llmd: infra: waits"},
		"stalled":    {componentsv1alpha1.Managed, stalled, done, false, metav1.ConditionFalse, "RolledBack", "llmd: infra: went back"},
		"not looked": {componentsv1alpha1.Managed, stale, done, false, metav1.ConditionFalse, "Progressing", "llmd: its Llmd hasn't been looked at yet"},
		"being made": {componentsv1alpha1.Managed, nil, done, false, metav1.ConditionFalse, "Progressing", "llmd: the Llmd is being made"},
		"leaving":    {componentsv1alpha1.Removed, leaving, done, false, metav1.ConditionFalse, "Terminating", "llmd: it is being removed; infra: waits"},
		"removed":    {componentsv1alpha1.Removed, nil, done, true, metav1.ConditionFalse, "Removed", "llmd is removed; write managementState: Managed to have it"},
		"unsaid":     {"", nil, done, true, metav1.ConditionFalse, "Removed", "llmd is removed; write managementState: Managed to have it"},
		"not ours": {componentsv1alpha1.Managed, nil, condition.Classify(condition.Wait("OwnedByAnother", "somebody's")), false,
			metav1.ConditionFalse, "OwnedByAnother", "llmd: somebody's"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := someCluster(test.state)
			status := report(cluster, test.llmd, test.outcome, now)
			summary := condition.Find(status.Conditions, condition.Ready)
			component := condition.Find(status.Conditions, datascienceclusterv2.ConditionLlmdReady)
			if (summary.Status == metav1.ConditionTrue) != test.ready || summary.Reason != test.reason || summary.Message != test.message {
				t.Errorf("got %s %s: %s\nwant %v %s: %s", summary.Status, summary.Reason, summary.Message, test.ready, test.reason, test.message)
			}
			if component.Status != test.component {
				t.Errorf("LlmdReady is %s", component.Status)
			}
			if test.llmd != nil && status.Components.Llmd.ModelService == nil {
				t.Error("the releases aren't mirrored")
			}
			cluster.Status = status
			if diff := cmp.Diff(status, report(cluster, test.llmd, test.outcome, metav1.NewTime(now.Add(time.Hour)))); diff != "" {
				t.Errorf("the same world gives another status later:\n%s", diff)
			}
		})
	}
}

func TestUnknownComponents(t *testing.T) {
	cluster := someCluster(componentsv1alpha1.Removed)
	cluster.Spec.Components.Unknown = map[string]runtime.RawExtension{"workbenches": {}, "dashboard": {}}
	status := report(cluster, nil, condition.Outcome{Verdict: condition.Done}, now)
	warned := condition.Find(status.Conditions, datascienceclusterv2.ConditionUnknownComponents)
	const want = "Slipway runs no component dashboard, workbenches: they are kept as they are written and have no effect here; " +
		"run the operator that knows them, or remove them"
	if warned == nil || warned.Message != want {
		t.Fatalf("warned %+v", warned)
	}
	cluster.Status, cluster.Spec.Components.Unknown = status, nil
	status = report(cluster, nil, condition.Outcome{Verdict: condition.Done}, now)
	if condition.Find(status.Conditions, datascienceclusterv2.ConditionUnknownComponents) != nil {
		t.Error("it still warns")
	}
}
