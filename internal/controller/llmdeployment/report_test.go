package llmdeployment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	metav1alpha1 "github.com/slipway-dev/slipway/api/meta/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/diagnosis"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func someFacts(replicas int32) *facts {
	return &facts{
		deployment: &llmv1alpha1.LLMDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "chat", Generation: 3},
			Spec:       llmv1alpha1.LLMDeploymentSpec{ModelRef: "gpt", Replicas: replicas, Port: 8080},
		},
		model: &llmv1alpha1.LLMModel{Spec: llmv1alpha1.LLMModelSpec{ModelName: "GPT"}},
	}
}

// workload is a Deployment of generation 2 with a status.
func workload(t *testing.T, replicas, status string) apply.Result {
	t.Helper()
	object := &unstructured.Unstructured{}
	text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: chat, generation: 2}\n" +
		"spec: {replicas: " + replicas + "}\nstatus: " + status + "\n"
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	// As the API's decoder reads numbers.
	for field, value := range object.Object["status"].(map[string]any) {
		if number, is := value.(float64); is {
			object.Object["status"].(map[string]any)[field] = int64(number)
		}
	}
	object.Object["spec"].(map[string]any)["replicas"] = int64(object.Object["spec"].(map[string]any)["replicas"].(float64))
	object.SetGeneration(2)
	return apply.Result{Live: []*unstructured.Unstructured{object}}
}

const (
	serving = "{observedGeneration: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2, " +
		"conditions: [{type: Available, status: 'True'}, {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}"
	rolling = "{observedGeneration: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 1}"
	empty   = "{observedGeneration: 2, conditions: [{type: Available, status: 'True'}, {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}"
)

func TestReport(t *testing.T) {
	done := condition.Outcome{Verdict: condition.Done}
	for name, test := range map[string]struct {
		facts   *facts
		result  apply.Result
		outcome condition.Outcome
		finding *diagnosis.Finding
		phase   llmv1alpha1.Phase
		reason  string
		message string
	}{
		"serving":      {someFacts(2), workload(t, "2", serving), done, nil, llmv1alpha1.PhaseReady, reasonServing, "2 replicas of GPT ready"},
		"one serving":  {someFacts(1), workload(t, "1", "{observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}]}"), done, nil, llmv1alpha1.PhaseReady, reasonServing, "1 replica of GPT ready"},
		"stopped":      {someFacts(0), workload(t, "0", empty), done, nil, llmv1alpha1.PhaseReady, reasonScaledToZero, "spec.replicas is 0, so nothing serves; raise it to serve GPT"},
		"nothing made": {someFacts(2), apply.Result{}, done, nil, llmv1alpha1.PhasePending, condition.ReasonProgressing, "waiting for 2 replicas to become ready"},
		"rolling":      {someFacts(2), workload(t, "2", rolling), done, nil, llmv1alpha1.PhasePending, condition.ReasonProgressing, "waiting for 2 replicas to become ready"},
		"each step is the same sentence": {someFacts(2), workload(t, "2", rolling), done,
			&diagnosis.Finding{Reason: diagnosis.ReasonStarting, Message: "images are being pulled"},
			llmv1alpha1.PhasePending, condition.ReasonProgressing, "waiting for 2 replicas to become ready"},
		"a fault for the user": {someFacts(2), workload(t, "2", rolling), done,
			&diagnosis.Finding{Reason: diagnosis.ReasonImageNotFound, Message: "no such image", Terminal: true},
			llmv1alpha1.PhaseFailed, diagnosis.ReasonImageNotFound, "no such image"},
		"a fault that may pass": {someFacts(2), workload(t, "2", rolling), done,
			&diagnosis.Finding{Reason: diagnosis.ReasonInsufficientGPU, Message: "no GPU is free"},
			llmv1alpha1.PhasePending, diagnosis.ReasonInsufficientGPU, "no GPU is free"},
		"a refused spec": {someFacts(2), apply.Result{}, condition.Classify(condition.Stop("InvalidSpec", "write 2")), nil,
			llmv1alpha1.PhaseFailed, "InvalidSpec", "write 2"},
	} {
		t.Run(name, func(t *testing.T) {
			status := report(test.facts, test.result, test.outcome, test.finding, now)
			ready := condition.Find(status.Conditions, condition.Ready)
			if status.Phase != test.phase || ready.Reason != test.reason || ready.Message != test.message {
				t.Errorf("got %s, %s: %s\nwant %s, %s: %s", status.Phase, ready.Reason, ready.Message, test.phase, test.reason, test.message)
			}
			if status.ObservedGeneration != 3 || ready.ObservedGeneration != 3 {
				t.Errorf("observed generations %d and %d, want 3", status.ObservedGeneration, ready.ObservedGeneration)
			}
			test.facts.deployment.Status = status
			if diff := cmp.Diff(status, report(test.facts, test.result, test.outcome, test.finding, metav1.NewTime(now.Add(time.Hour)))); diff != "" {
				t.Errorf("the same world gives another status later:\n%s", diff)
			}
		})
	}
}

func TestReportOfAMissingModel(t *testing.T) {
	facts := someFacts(2)
	facts.model = nil
	err := facts.modelMissing()
	if !condition.IsWait(err) {
		t.Fatalf("a missing model is %v, want something to wait for", err)
	}
	status := report(facts, apply.Result{}, condition.Classify(err), nil, now)
	if found := condition.Find(status.Conditions, llmv1alpha1.ConditionModelFound); found.Status != metav1.ConditionFalse {
		t.Errorf("ModelFound is %s", found.Status)
	}
	if status.Phase != llmv1alpha1.PhasePending {
		t.Errorf("phase %s, want Pending", status.Phase)
	}
}

// TestADyingModel: whoever runs it goes on, a newcomer waits.
func TestADyingModel(t *testing.T) {
	facts := someFacts(2)
	facts.model.DeletionTimestamp = &now
	if err := facts.modelMissing(); !condition.IsWait(err) {
		t.Errorf("a newcomer gets %v, want to wait", err)
	}
	facts.deployment.Status.Inventory = append(facts.deployment.Status.Inventory, metav1alpha1.InventoryEntry{Version: "v1", Kind: "Service", Namespace: "team", Name: "chat"})
	if err := facts.modelMissing(); err != nil {
		t.Errorf("who runs it gets %v", err)
	}
}
