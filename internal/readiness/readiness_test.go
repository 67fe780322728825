package readiness

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/condition"
)

func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestEvaluate(t *testing.T) {
	for _, test := range []struct {
		name, manifest string
		want           Result
	}{
		{"config map", `{apiVersion: v1, kind: ConfigMap}`, Result{Ready, "Exists", ""}},
		{"deleted", `{apiVersion: v1, kind: ConfigMap, metadata: {deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [b, a]}}`,
			Result{Terminating, "Terminating", "is being deleted; it waits for a, b"}},
		{"deployment that no controller has seen", `{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 1}, spec: {replicas: 2}}`,
			Result{InProgress, "LessReplicas", "0 of 2 replicas are ready"}},
		{"deployment with a newer spec", `{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, spec: {replicas: 1}, status: {observedGeneration: 1, replicas: 1, readyReplicas: 1}}`,
			Result{InProgress, "GenerationNotObserved", "its controller hasn't looked at the latest change yet"}},
		{"deployment half ready", `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2}, status: {replicas: 2, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 1}}`,
			Result{InProgress, "LessAvailable", "1 of 2 replicas are ready"}},
		{"deployment rolling", `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2}, status: {replicas: 3, updatedReplicas: 1, readyReplicas: 2, availableReplicas: 2}}`,
			Result{InProgress, "LessUpdated", "1 of 2 replicas are updated"}},
		{"deployment with old pods", `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2}, status: {replicas: 3, updatedReplicas: 2, readyReplicas: 3, availableReplicas: 3}}`,
			Result{InProgress, "ExtraPods", "1 old replicas have still to end"}},
		{"deployment over its deadline", `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1, progressDeadlineSeconds: 600}, status: {replicas: 1, updatedReplicas: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: 'ReplicaSet "chat-6b7" has timed out progressing.'}]}}`,
			Result{Failed, "ProgressDeadlineExceeded", "0 of 1 replicas are ready; no progress within its deadline"}},
		{"deployment without room in its quota", `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}, status: {conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: 'pods "chat-6b7-xyz" is forbidden'}]}}`,
			Result{Failed, "FailedCreate", "its pods can't be created"}},
		{"deployment ready", `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1, progressDeadlineSeconds: 600}, status: {replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]}}`,
			Result{Ready, "Ready", ""}},
		{"stateful set updated by hand", `{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 2, updateStrategy: {type: OnDelete}}, status: {replicas: 2, readyReplicas: 1}}`,
			Result{InProgress, "LessReady", "1 of 2 replicas are ready"}},
		{"replica set that can't create", `{apiVersion: apps/v1, kind: ReplicaSet, status: {conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate}]}}`,
			Result{Failed, "FailedCreate", "its pods can't be created"}},
		{"running pod", `{apiVersion: v1, kind: Pod, status: {phase: Running, conditions: [{type: Ready, status: "False"}]}}`,
			Result{InProgress, "NotReady", "runs but isn't ready"}},
		{"ready pod", `{apiVersion: v1, kind: Pod, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`, Result{Ready, "Running", ""}},
		{"evicted pod", `{apiVersion: v1, kind: Pod, status: {phase: Failed, reason: Evicted, message: "The node was low on resource: memory."}}`,
			Result{Failed, "Evicted", "The node was low on resource: memory."}},
		{"unschedulable pod", `{apiVersion: v1, kind: Pod, status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}}`,
			Result{InProgress, "Unschedulable", "no node has room for it"}},
		{"new pod", `{apiVersion: v1, kind: Pod}`, Result{InProgress, "Pending", "hasn't started yet"}},
		{"load balancer without an address", `{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}}`,
			Result{InProgress, "LoadBalancerPending", "no load balancer has given it an address; where the cluster has none, use type ClusterIP"}},
		{"load balancer", `{apiVersion: v1, kind: Service, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}`, Result{Ready, "Exists", ""}},
		{"pending claim", `{apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Pending}}`, Result{InProgress, "ClaimPending", "isn't bound to a volume yet"}},
		{"lost claim", `{apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Lost}}`,
			Result{Failed, "ClaimLost", "its volume is gone; restore the PersistentVolume or make a new claim"}},
		{"CRD with a taken name", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, status: {conditions: [{type: NamesAccepted, status: "False", reason: ShortNamesConflict, message: '"llm" is already in use'}]}}`,
			Result{Failed, "ShortNamesConflict", `"llm" is already in use`}},
		{"CRD being installed", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}`, Result{InProgress, "Installing", "Install in progress"}},
		{"CRD", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, status: {conditions: [{type: Established, status: "True"}]}}`, Result{Ready, "Ready", ""}},
		{"running job", `{apiVersion: batch/v1, kind: Job, status: {active: 1, startTime: "2026-01-01T00:00:00Z"}}`, Result{InProgress, "Running", "hasn't finished yet"}},
		{"failed job", `{apiVersion: batch/v1, kind: Job, status: {failed: 7, conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: Job has reached the specified backoff limit}]}}`,
			Result{Failed, "BackoffLimitExceeded", "Job has reached the specified backoff limit"}},
		{"done job", `{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Complete, status: "True"}]}}`, Result{Ready, "Complete", ""}},
		{"autoscaler without metrics", `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, status: {conditions: [{type: AbleToScale, status: "True"}, {type: ScalingActive, status: "False", reason: FailedGetResourceMetric, message: no metrics}]}}`,
			Result{InProgress, "FailedGetResourceMetric", "no metrics"}},
		{"autoscaler at zero", `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, status: {conditions: [{type: ScalingActive, status: "False", reason: ScalingDisabled}]}}`, Result{Ready, "Exists", ""}},
		{"gateway of an unknown class", `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway}`,
			Result{InProgress, "NotProgrammed", "no gateway controller has programmed it; check that its gatewayClassName exists"}},
		{"gateway refused", `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, status: {conditions: [{type: Accepted, status: "False", reason: InvalidParameters, message: bad}]}}`,
			Result{Failed, "InvalidParameters", "bad"}},
		{"gateway", `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, status: {conditions: [{type: Accepted, status: "True"}, {type: Programmed, status: "True"}]}}`, Result{Ready, "Programmed", ""}},
		{"route without a backend", `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, status: {parents: [{conditions: [{type: Accepted, status: "True"}, {type: ResolvedRefs, status: "False", reason: BackendNotFound, message: no Service chat}]}]}}`,
			Result{Failed, "BackendNotFound", "no Service chat"}},
		{"route nobody accepted", `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute}`, Result{InProgress, "NotAttached", "no gateway has accepted it yet"}},
		{"pool without a gateway", `{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool}`, Result{Ready, "Exists", ""}},
		{"template of KServe", `{apiVersion: serving.kserve.io/v1alpha2, kind: LLMInferenceServiceConfig, metadata: {generation: 1}}`, Result{Ready, "Exists", ""}},
		{"service of KServe", `{apiVersion: serving.kserve.io/v1alpha2, kind: LLMInferenceService, metadata: {generation: 1}}`,
			Result{InProgress, "NoStatus", "its controller hasn't reported yet; check that it runs"}},
		{"our kind that no controller has seen", `{apiVersion: llm.example.com/v1alpha1, kind: LLMDeployment, metadata: {generation: 1}}`,
			Result{InProgress, "NoStatus", "its controller hasn't reported yet; check that it runs"}},
		{"our kind of an older generation", `{apiVersion: llm.example.com/v1alpha1, kind: LLMDeployment, metadata: {generation: 2}, status: {conditions: [{type: Ready, status: "True", observedGeneration: 1}]}}`,
			Result{InProgress, "GenerationNotObserved", "its controller hasn't looked at the latest change yet"}},
		{"our kind stalled", `{apiVersion: llm.example.com/v1alpha1, kind: LLMDeployment, status: {conditions: [{type: Ready, status: "False", reason: X}, {type: Stalled, status: "True", reason: ImagePullFailed, message: "image a can't be pulled"}]}}`,
			Result{Failed, "ImagePullFailed", "image a can't be pulled"}},
		{"our kind reconciling", `{apiVersion: llm.example.com/v1alpha1, kind: LLMDeployment, status: {conditions: [{type: Reconciling, status: "True", reason: Progressing, message: "1 of 2"}]}}`,
			Result{InProgress, "Progressing", "1 of 2"}},
		{"workers that aren't available", `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, status: {conditions: [{type: Available, status: "False", reason: GroupsNotReady, message: groups are progressing}]}}`,
			Result{InProgress, "GroupsNotReady", "groups are progressing"}},
		{"API service", `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, status: {conditions: [{type: Available, status: "False", reason: ServiceNotFound, message: gone}]}}`,
			Result{InProgress, "ServiceNotFound", "gone"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Evaluate(object(t, test.manifest))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := Evaluate(nil); got.Status != Missing {
		t.Errorf("nil is %v", got)
	}
}

func TestClaimOfAClassThatBindsOnFirstUse(t *testing.T) {
	claim := object(t, `{apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Pending}}`)
	if got := EvaluateClaim(claim, false); got.Status != InProgress {
		t.Errorf("got %v", got)
	}
	if got := EvaluateClaim(claim, true); got.Status != Ready {
		t.Errorf("got %v", got)
	}
	claim.SetAnnotations(map[string]string{"volume.kubernetes.io/selected-node": "n1"})
	if got := EvaluateClaim(claim, true); got.Status != InProgress {
		t.Errorf("with a node, got %v", got)
	}
}

func TestRollUp(t *testing.T) {
	item := func(name string, status Status, message string) Item {
		return Item{name, Result{status, string(status), message}}
	}
	for _, test := range []struct {
		name  string
		items []Item
		want  Result
	}{
		{"nothing", nil, Result{Ready, "Ready", ""}},
		{"all ready", []Item{item("a", Ready, "x")}, Result{Ready, "Ready", ""}},
		{"the worst first", []Item{item("a", InProgress, "waits"), item("b", Failed, "broke"), item("c", Ready, "")}, Result{Failed, "Failed", "b: broke; a: waits"}},
		{"no message", []Item{item("a", Missing, "")}, Result{Missing, "Missing", "a: Missing"}},
		{"many", []Item{item("e", InProgress, "5"), item("d", InProgress, "4"), item("c", InProgress, "3"), item("b", InProgress, "2"), item("a", InProgress, "1")},
			Result{InProgress, "InProgress", "a: 1; b: 2; c: 3; and 2 more"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, RollUp(test.items)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRollUpIgnoresOrderAndStaysBounded(t *testing.T) {
	items := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Item {
		return Item{
			Name: rapid.StringMatching(`[a-c]{1,2}`).Draw(t, "name"),
			Result: Result{
				Status:  rapid.SampledFrom([]Status{Ready, InProgress, Terminating, Unknown, Missing, Failed}).Draw(t, "status"),
				Message: strings.Repeat(rapid.StringN(0, 5, -1).Draw(t, "message"), rapid.IntRange(0, 500).Draw(t, "times")),
			},
		}
	}))
	rapid.Check(t, func(t *rapid.T) {
		chosen := items.Draw(t, "items")
		first := RollUp(chosen)
		if second := RollUp(rapid.Permutation(chosen).Draw(t, "shuffled")); first != second {
			t.Fatalf("order matters: %v, %v", first, second)
		}
		if len(first.Message) > condition.MaxMessage {
			t.Fatalf("a message of %d bytes", len(first.Message))
		}
		for _, each := range chosen {
			if badness(each.Status) > badness(first.Status) {
				t.Fatalf("%s is worse than %s", each.Status, first.Status)
			}
		}
	})
}

// FuzzEvaluate: whatever an API server hands out, the answer is one of the
// statuses, with a reason and a bounded message, and never a panic.
func FuzzEvaluate(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","status":{"conditions":[{"type":1}],"replicas":"x"}}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","status":{"containerStatuses":[null],"phase":"Running"}}`))
	f.Add([]byte(`{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","status":{"parents":[1]}}`))
	f.Add([]byte(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"generation":"a"},"status":[]}`))
	f.Add([]byte(`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"generation":1.5},"status":{"observedGeneration":[]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var fields map[string]any
		if json.Unmarshal(raw, &fields) != nil {
			t.Skip("not an object")
		}
		got := Evaluate(&unstructured.Unstructured{Object: fields})
		if badness(got.Status) < 0 || got.Reason == "" || len(got.Message) > condition.MaxMessage || !utf8.ValidString(got.Message) {
			t.Errorf("got %+v", got)
		}
	})
}
