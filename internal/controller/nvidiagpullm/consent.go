package nvidiagpullm

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// readConsent finds whether the pod's namespace lets the resource act in it, and
// drops the rivals that it doesn't let: they have no say there. It asks the API
// server and not a cache, since consent that was taken back is no consent.
func (r *Reconciler) readConsent(ctx context.Context, f *facts) error {
	target := nvidiagpullm.Namespace(f.resource)
	foreign := f.resource.Namespace != target
	for _, other := range f.rivals {
		foreign = foreign || other.Namespace != target
	}
	if !foreign {
		return nil
	}
	namespace := &corev1.Namespace{}
	err := r.Server.Get(ctx, types.NamespacedName{Name: target}, namespace)
	if apierrors.IsNotFound(err) {
		f.refused = condition.Wait(reasonNotAllowed, "there is no namespace %s; create it, or create this resource without spec.namespace", target)
		return nil
	}
	if err != nil {
		return err
	}
	f.weigh(namespace)
	return nil
}

// weigh takes a namespace's word on who may act in it. It is pure.
func (f *facts) weigh(namespace *corev1.Namespace) {
	var heard []*infrav1.NvidiaGpuLlm
	for _, other := range f.rivals {
		if nvidiagpullm.Allows(namespace, other.Namespace) {
			heard = append(heard, other)
		}
	}
	f.rivals = heard
	if from := f.resource.Namespace; !nvidiagpullm.Allows(namespace, from) {
		f.refused = condition.Wait(reasonNotAllowed,
			"namespace %s doesn't let NvidiaGpuLlms of namespace %s act in it; whoever administers it writes %s among the names in its annotation %s",
			namespace.Name, from, from, nvidiagpullm.AnnotationAllowFrom)
	}
}
