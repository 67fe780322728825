package olm

import (
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What OLM tells an operator about where it runs.
const (
	annotationTargets   = "olm.targetNamespaces"
	annotationNamespace = "olm.operatorNamespace"
	annotationExamples  = "alm-examples"
	envCondition        = "OPERATOR_CONDITION_NAME"
)

// Where OLM mounts the certificate of a webhook: the first is what operators that
// serve an API of their own read, the second what kubebuilder's do.
const (
	apiCertVolume = "apiservice-cert"
	apiCertDir    = "/apiserver.local.config/certificates"
	certVolume    = "webhook-cert"
	certDir       = "/tmp/k8s-webhook-server/serving-certs"
)

// deployments are the operator's own, with what OLM adds.
func (r render) deployments() []runtime.Object {
	made := make([]runtime.Object, 0, len(r.strategy().DeploymentSpecs))
	for _, each := range r.strategy().DeploymentSpecs {
		spec := *each.Spec.DeepCopy()
		spec.RevisionHistoryLimit = new(int32(1))
		spec.Template.Annotations = r.annotations(spec.Template.Annotations)
		for i := range spec.Template.Spec.Containers {
			r.tellCondition(&spec.Template.Spec.Containers[i])
		}
		if r.serves(each.Name) {
			mountCertificate(&spec.Template.Spec, CertificateSecret(serviceOf(each.Name)))
		}
		made = append(made, &appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: each.Name, Labels: each.Label},
			Spec:       spec,
		})
	}
	return made
}

// annotations are the pod template's, over them those of the ClusterServiceVersion,
// and where the operator is and what it watches.
func (r render) annotations(own map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, own)
	maps.Copy(all, r.bundle.CSV.Annotations)
	delete(all, annotationExamples)
	all[annotationTargets] = strings.Join(r.targets, ",")
	all[annotationNamespace] = r.namespace
	return all
}

func (r render) tellCondition(container *corev1.Container) {
	if slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == envCondition }) {
		return
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: envCondition, Value: r.bundle.CSV.Name})
}

// serves reports whether a deployment serves webhooks.
func (r render) serves(deployment string) bool {
	return slices.ContainsFunc(r.bundle.CSV.Spec.WebhookDefinitions, func(w v1alpha1.WebhookDescription) bool {
		return w.DeploymentName == deployment
	})
}

// mountCertificate puts a Secret where operators look for it, in place of what
// the bundle has under the volumes' names.
func mountCertificate(pod *corev1.PodSpec, secret string) {
	mount := func(volume, dir string, items []corev1.KeyToPath) {
		pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: items},
		}})
		for i := range pod.Containers {
			container := &pod.Containers[i]
			container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == volume || m.MountPath == dir
			})
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: dir})
		}
	}
	mount(apiCertVolume, apiCertDir, []corev1.KeyToPath{{Key: "tls.crt", Path: "apiserver.crt"}, {Key: "tls.key", Path: "apiserver.key"}})
	mount(certVolume, certDir, []corev1.KeyToPath{{Key: "tls.crt", Path: "tls.crt"}, {Key: "tls.key", Path: "tls.key"}})
}
