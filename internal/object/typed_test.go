package object

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFromTypedKeepsOnlyWhatWasSet: no status, no timestamps, no nulls, none of
// the structs that Go always writes; but what means something when it is empty.
func TestFromTypedKeepsOnlyWhatWasSet(t *testing.T) {
	set := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "i"}},
				Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "w"}}},
		},
	}
	made, err := FromTyped(set)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{"namespace": "a", "name": "x"},
		"spec": map[string]any{
			"selector":    map[string]any{},
			"serviceName": "",
			"template": map[string]any{"spec": map[string]any{
				"containers": []any{map[string]any{"name": "c", "image": "i"}},
				"volumes":    []any{map[string]any{"name": "v", "emptyDir": map[string]any{}}},
			}},
			"volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": "w"}, "spec": map[string]any{}}},
		},
	}
	spec := made[0].Object["spec"].(map[string]any)
	if spec["serviceName"] == nil {
		delete(want["spec"].(map[string]any), "serviceName")
	}
	if diff := cmp.Diff(want, made[0].Object); diff != "" {
		t.Error(diff)
	}
}

func TestFromTypedKeepsDataOfAnyName(t *testing.T) {
	data := map[string]string{"status": "x", "creationTimestamp": "y", "resources": ""}
	made, err := FromTyped(&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: data,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"status": "x", "creationTimestamp": "y", "resources": ""}
	if diff := cmp.Diff(want, made[0].Object["data"]); diff != "" {
		t.Error(diff)
	}
}

func TestFromTypedLeavesOutWhatIsNotWanted(t *testing.T) {
	var none *policyv1.PodDisruptionBudget
	made, err := FromTyped(none, nil, &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}},
	})
	if err != nil || len(made) != 1 {
		t.Fatalf("got %d objects (%v), want 1", len(made), err)
	}
	spec := made[0].Object["spec"].(map[string]any)
	if diff := cmp.Diff([]any{map[string]any{}}, spec["ingress"]); diff != "" {
		t.Errorf("a rule that allows everything got lost:\n%s", diff)
	}
}

func TestFromTypedNamesTheTypeWithoutKind(t *testing.T) {
	_, err := FromTyped(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
	if err == nil || !strings.Contains(err.Error(), "*v1.Secret") || !strings.Contains(err.Error(), "no kind") {
		t.Errorf("got %v", err)
	}
}
