package llm

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
)

func isReady(d *llmv1alpha1.LLMDeployment) string {
	if d.Status.ObservedGeneration == d.Generation && condition.IsTrue(d.Status.Conditions, condition.Ready) {
		return ""
	}
	return message(d)
}

func message(d *llmv1alpha1.LLMDeployment) string {
	if ready := condition.Find(d.Status.Conditions, condition.Ready); ready != nil {
		return ready.Reason + ": " + ready.Message
	}
	return "no Ready condition"
}

// says waits for a Ready condition that is false for a reason and with a text.
func says(reason, text string) func(*llmv1alpha1.LLMDeployment) string {
	return func(d *llmv1alpha1.LLMDeployment) string {
		ready := condition.Find(d.Status.Conditions, condition.Ready)
		if ready != nil && ready.Reason == reason && strings.Contains(ready.Message, text) {
			return ""
		}
		return message(d)
	}
}

func TestServesWhatWasApplied(t *testing.T) {
	ns := namespace(t)
	create(t, model(ns), deployment(ns))
	got := bed.Await(t, kube, deployment(ns), &llmv1alpha1.LLMDeploymentList{}, isReady)
	if got.Status.Phase != llmv1alpha1.PhaseReady || got.Status.ReadyReplicas != 2 {
		t.Errorf("status is %+v", got.Status)
	}
	if want := "http://chat-service." + ns + ".svc:8080"; got.Status.URL != want {
		t.Errorf("URL %q, want %q", got.Status.URL, want)
	}
	if len(got.Status.Inventory) != 4 {
		t.Errorf("inventory %v, want 4 objects", got.Status.Inventory)
	}
	key := client.ObjectKeyFromObject(got)
	for _, child := range []client.Object{
		&corev1.ServiceAccount{}, &corev1.Service{}, &appsv1.Deployment{}, &policyv1.PodDisruptionBudget{},
	} {
		if err := kube.Get(t.Context(), key, child); err != nil {
			t.Error(err)
		} else if owners := child.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != got.UID {
			t.Errorf("%T has owners %v", child, owners)
		}
	}
}

func TestWaitsForItsModel(t *testing.T) {
	ns := namespace(t)
	create(t, deployment(ns))
	waiting := bed.Await(t, kube, deployment(ns), &llmv1alpha1.LLMDeploymentList{}, says("ModelNotFound", "create it, or change spec.modelRef"))
	if waiting.Status.Phase != llmv1alpha1.PhasePending {
		t.Errorf("phase %s, want Pending", waiting.Status.Phase)
	}
	create(t, model(ns))
	bed.Await(t, kube, deployment(ns), &llmv1alpha1.LLMDeploymentList{}, isReady)
}

func TestModelOutlivesItsDeployments(t *testing.T) {
	ns := namespace(t)
	create(t, model(ns), deployment(ns))
	bed.Await(t, kube, deployment(ns), &llmv1alpha1.LLMDeploymentList{}, isReady)
	bed.Await(t, kube, model(ns), &llmv1alpha1.LLMModelList{}, func(m *llmv1alpha1.LLMModel) string {
		if m.Status.Deployments == 1 && len(m.Finalizers) == 1 {
			return ""
		}
		return "not protected"
	})
	if err := kube.Delete(t.Context(), model(ns)); err != nil {
		t.Fatal(err)
	}
	bed.Await(t, kube, model(ns), &llmv1alpha1.LLMModelList{}, func(m *llmv1alpha1.LLMModel) string {
		ready := condition.Find(m.Status.Conditions, condition.Ready)
		if m.Status.Phase == llmv1alpha1.PhaseTerminating && strings.Contains(ready.Message, "deletion waits for LLMDeployment chat-service") {
			return ""
		}
		return ready.Message
	})
	bed.Await(t, kube, deployment(ns), &llmv1alpha1.LLMDeploymentList{}, isReady) // undisturbed
	if err := kube.Delete(t.Context(), deployment(ns)); err != nil {
		t.Fatal(err)
	}
	bed.AwaitGone(t, kube, model(ns), &llmv1alpha1.LLMModelList{})
}

func TestModelEditRolls(t *testing.T) {
	ns := namespace(t)
	edited := model(ns)
	create(t, edited, deployment(ns))
	bed.Await(t, kube, deployment(ns), &llmv1alpha1.LLMDeploymentList{}, isReady)
	edited.Spec.Image = "your-registry/gpt-small:v2"
	if err := update(t, edited); err != nil {
		t.Fatal(err)
	}
	workload := &appsv1.Deployment{}
	workload.Namespace, workload.Name = ns, "chat-service"
	bed.Await(t, kube, workload, &appsv1.DeploymentList{}, func(d *appsv1.Deployment) string {
		if image := d.Spec.Template.Spec.Containers[0].Image; image != "your-registry/gpt-small:v2" {
			return "image is " + image
		}
		if d.Status.UpdatedReplicas != 2 || d.Status.Replicas != 2 {
			return "rolling"
		}
		return ""
	})
	bed.Await(t, kube, deployment(ns), &llmv1alpha1.LLMDeploymentList{}, isReady)
}

// update writes a spec again and again while the operator writes the same
// object's metadata.
func update(t *testing.T, edited *llmv1alpha1.LLMModel) error {
	t.Helper()
	fresh := &llmv1alpha1.LLMModel{}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(edited), fresh); err != nil {
		return err
	}
	patch := client.MergeFrom(fresh.DeepCopy())
	fresh.Spec = edited.Spec
	return kube.Patch(t.Context(), fresh, patch)
}

func TestScaleSubresource(t *testing.T) {
	ns := namespace(t)
	create(t, model(ns), deployment(ns))
	bed.Await(t, kube, deployment(ns), &llmv1alpha1.LLMDeploymentList{}, isReady)
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
	if err := kube.SubResource("scale").Update(t.Context(), deployment(ns), client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	scaled := bed.Await(t, kube, deployment(ns), &llmv1alpha1.LLMDeploymentList{}, func(d *llmv1alpha1.LLMDeployment) string {
		if d.Spec.Replicas == 1 && d.Status.Replicas == 1 && len(d.Status.Inventory) == 3 {
			return isReady(d)
		}
		return "not scaled"
	})
	budget := &policyv1.PodDisruptionBudget{}
	budget.Namespace, budget.Name = ns, "chat-service"
	bed.AwaitGone(t, kube, budget, &policyv1.PodDisruptionBudgetList{})
	if scaled.Status.Selector == "" {
		t.Error("no selector for the scale subresource")
	}
}
