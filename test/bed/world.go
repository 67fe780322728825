package bed

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/object"
)

// watched are the kinds that a picture of the world shows.
var watched = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	batchv1.SchemeGroupVersion.WithKind("Job"),
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
}

// Watched gives the kinds that a picture of the world shows.
func Watched() []schema.GroupVersionKind { return watched }

// World is what a namespace holds, by "Kind/name": every field that two runs of
// the same story must agree on, the fields' managers included.
type World map[string]any

// Picture shows a namespace's world, custom kinds with their status too where
// they are given. The namespace's name, the owner's UID and the digests of
// ConfigMaps are replaced, so that worlds of different runs compare.
func Picture(t testing.TB, c client.Client, namespace string, owner client.Object, custom ...schema.GroupVersionKind) World {
	t.Helper()
	world := World{}
	words := map[string]string{namespace: "NAMESPACE"}
	if uid := string(owner.GetUID()); uid != "" {
		words[uid] = "OWNER"
	}
	for _, each := range List(t.Context(), t, c, corev1.SchemeGroupVersion.WithKind("ConfigMap"), namespace) {
		data, _, _ := unstructured.NestedStringMap(each.Object, "data")
		words[object.Hash(data).String()] = "DIGEST of " + each.GetName()
	}
	for _, gvk := range slices.Concat(watched, custom) {
		for _, each := range List(t.Context(), t, c, gvk, namespace) {
			if isCluster(each) {
				continue
			}
			if slices.Contains(custom, gvk) {
				timeless(each)
			} else {
				delete(each.Object, "status") // the cluster's own controllers write it
			}
			world[each.GetKind()+"/"+each.GetName()] = plain(t, each, words)
		}
	}
	return world
}

// List lists one kind in a namespace, from the server.
func List(ctx context.Context, t testing.TB, c client.Client, gvk schema.GroupVersionKind, namespace string) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// isCluster reports whether an object is none of the owner's: one that the cluster
// itself puts into each namespace, or a record of Helm's, which has times in it.
func isCluster(obj unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(obj.Object, "type")
	return obj.GetName() == "kube-root-ca.crt" || obj.GetKind() == "ServiceAccount" && obj.GetName() == "default" ||
		obj.GetKind() == "Secret" && kind == "helm.sh/release.v1"
}

// plain is an object without what differs from run to run: versions, times,
// addresses, and some words.
func plain(t testing.TB, obj unstructured.Unstructured, words map[string]string) any {
	t.Helper()
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	for _, field := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(obj.Object, "spec", field)
	}
	obj.SetManagedFields(slices.DeleteFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return !strings.HasPrefix(entry.Manager, object.ManagedBy)
	}))
	managed, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields")
	for _, entry := range managed {
		delete(entry.(map[string]any), "time")
	}
	if managed != nil {
		_ = unstructured.SetNestedSlice(obj.Object, managed, "metadata", "managedFields")
	}
	raw, err := json.Marshal(obj.Object)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for word, instead := range words {
		text = strings.ReplaceAll(text, word, instead)
	}
	var content any
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	return content
}

// timeless takes the times off an object's conditions.
func timeless(obj unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, each := range conditions {
		delete(each.(map[string]any), "lastTransitionTime")
	}
	if conditions != nil {
		_ = unstructured.SetNestedSlice(obj.Object, conditions, "status", "conditions")
	}
}
