package bed

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/internal/object"
)

// Identity is of an object that an owner of a name wants.
func Identity(instance string) object.Identity {
	return object.Identity{Name: "server", Instance: instance, PartOf: "bed"}
}

// Meta names an object that an owner wants.
func Meta(namespace, name, instance string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: Identity(instance).Labels()}
}

// ConfigMap is the simplest thing to want.
func ConfigMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: Meta(namespace, name, "owner"),
		Data:       map[string]string{"value": value},
	}
}

// Account is a ServiceAccount.
func Account(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: Meta(namespace, name, "owner"),
	}
}

// Service leads to a Deployment's pods.
func Service(namespace, name string, port int32) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: Meta(namespace, name, "owner"),
		Spec: corev1.ServiceSpec{
			Selector: Identity("owner").Selector(),
			Ports:    []corev1.ServicePort{{Name: "http", Port: port, Protocol: corev1.ProtocolTCP}},
		},
	}
}

// Deployment of an image. Negative replicas leave them to someone else.
func Deployment(namespace, name, image string, replicas int32) *appsv1.Deployment {
	made := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: Meta(namespace, name, "owner"),
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: Identity("owner").Selector()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: Identity("owner").Selector()},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "server", Image: image,
					Env:   []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				}}},
			},
		},
	}
	if replicas >= 0 {
		made.Spec.Replicas = &replicas
	}
	return made
}

// Budget is a PodDisruptionBudget.
func Budget(namespace, name string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: Meta(namespace, name, "owner"),
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: Identity("owner").Selector()}},
	}
}

// Want turns typed objects into what an engine is given.
func Want(t testing.TB, objs ...runtime.Object) []*unstructured.Unstructured {
	t.Helper()
	wanted, err := object.FromTyped(objs...)
	if err != nil {
		t.Fatal(err)
	}
	return wanted
}
