package install

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Serves reports whether an operator is installed and all its replicas are
// ready. What can't be read counts as no.
func (i *Installer) Serves(ctx context.Context) bool {
	found, err := i.kube.AppsV1().Deployments(i.namespace).Get(ctx, Release, metav1.GetOptions{})
	return err == nil && found.Spec.Replicas != nil && found.Status.ObservedGeneration == found.Generation &&
		found.Status.ReadyReplicas >= *found.Spec.Replicas && *found.Spec.Replicas > 0
}
