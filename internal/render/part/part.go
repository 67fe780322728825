// Package part holds the builders that several kinds share: security contexts,
// probes, Services, disruption budgets, service accounts. Each function makes
// one object or one piece of one from plain values. It does no I/O and knows no
// kind of Slipway's.
package part

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UserID is the user and group of a restricted container: the "nonroot" user of
// distroless images, by now the habit of the field.
const UserID int64 = 65532

// Meta names an object that is made for a resource.
type Meta struct {
	Namespace string
	Name      string
	// Labels of the object.
	Labels map[string]string
	// Selector is the subset of labels that finds the resource's pods. It must
	// never change for one resource: a Deployment's selector is immutable.
	Selector map[string]string
}

// ObjectMeta is the metadata of an object.
func (m Meta) ObjectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels}
}

// ServiceAccount is an account without a token: what serves a model has no
// business with the API server.
func ServiceAccount(meta Meta) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   meta.ObjectMeta(),
		AutomountServiceAccountToken: new(false),
	}
}

// Service is a ClusterIP Service with one HTTP port that leads to the
// containers' port of the name "http".
func Service(meta Meta, port int32) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta.ObjectMeta(),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: meta.Selector,
			Ports: []corev1.ServicePort{{
				Name:        "http",
				Protocol:    corev1.ProtocolTCP,
				AppProtocol: new("http"),
				Port:        port,
				TargetPort:  intstr.FromString("http"),
			}},
		},
	}
}

// DisruptionBudget lets a node be drained one pod at a time. It is nil below two
// replicas, where a budget could only block the drain.
func DisruptionBudget(meta Meta, replicas int32) *policyv1.PodDisruptionBudget {
	if replicas < 2 {
		return nil
	}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: meta.ObjectMeta(),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: meta.Selector},
			// A pod that isn't ready serves nobody; letting it go is what unblocks the
			// drain of a broken deployment.
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}

// AnnotationConfig on a pod template carries the digest of what the pods read
// only at their start, so that a change of it rolls them.
const AnnotationConfig = "slipway.dev/config"

// ConfigMap holds text files by their names.
func ConfigMap(meta Meta, files map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta.ObjectMeta(),
		Data:       files,
	}
}
