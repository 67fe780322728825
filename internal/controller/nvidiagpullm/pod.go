package nvidiagpullm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// forceAfter is how long a pod may be on its way out, beyond its grace, on a node
// that doesn't answer, before its name is freed by force. Its volume is only
// attached elsewhere when Kubernetes thinks it safe.
const forceAfter = 30 * time.Second

// clearPod removes a pod that stands in the way of the one that is wanted: one
// that has ended before its work was done, or hangs on a dead node. A pod that
// was removed is made again when its end is seen.
func (r *Reconciler) clearPod(ctx context.Context, f *facts) error {
	switch {
	case f.pod == nil || f.pod.Labels[object.LabelManagedBy] != object.ManagedBy:
		return nil
	case f.pod.DeletionTimestamp != nil && f.onDeadNode() && f.now.After(f.pod.DeletionTimestamp.Add(forceAfter)):
		return r.removePod(ctx, f.pod, client.GracePeriodSeconds(0))
	case f.pod.DeletionTimestamp != nil:
		return condition.Wait(condition.ReasonProgressing, "pod %s is on its way out; it is made again as soon as it is gone", f.pod.Name)
	case isEnded(f.pod) && !f.completed() && !f.finished:
		if err := r.removePod(ctx, f.pod); err != nil {
			return err
		}
		return condition.Wait(condition.ReasonProgressing, "pod %s ended before its time; it is made again", f.pod.Name)
	}
	return nil
}

func (r *Reconciler) removePod(ctx context.Context, pod *corev1.Pod, options ...client.DeleteOption) error {
	uid := pod.UID
	options = append(options, client.Preconditions{UID: &uid})
	err := r.Client.Delete(ctx, pod.DeepCopy(), options...)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("remove pod %s: %w", pod.Name, err)
}

// onDeadNode tells whether the pod's node is gone or doesn't answer.
func (f *facts) onDeadNode() bool {
	for _, node := range f.nodes {
		if node.Name == f.pod.Spec.NodeName {
			return !node.Ready
		}
	}
	return f.pod.Spec.NodeName != ""
}

// claim makes the claim, or makes it larger. It belongs to nobody, so that it can
// outlive the resource.
func (r *Reconciler) claim(ctx context.Context, f *facts) error {
	wanted, err := nvidiagpullm.Claim(f.resource)
	if err != nil || wanted == nil {
		return err
	}
	live := &corev1.PersistentVolumeClaim{}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, wanted)
		if apierrors.IsAlreadyExists(err) {
			return condition.Stop(condition.ReasonOwnedByAnother,
				"PersistentVolumeClaim %s exists and wasn't made for a NvidiaGpuLlm; delete it, or put the label %s=%s on it",
				wanted.Name, object.LabelManagedBy, object.ManagedBy)
		}
		return err
	}
	if err != nil {
		return err
	}
	if room := live.Status.Capacity[corev1.ResourceStorage]; live.Status.Phase == corev1.ClaimBound {
		f.room = room.String()
	}
	has, wants := live.Spec.Resources.Requests[corev1.ResourceStorage], wanted.Spec.Resources.Requests[corev1.ResourceStorage]
	if wants.Cmp(has) <= 0 {
		return nil // what was kept from a larger time stays as it is
	}
	larger := live.DeepCopy()
	larger.Spec.Resources.Requests[corev1.ResourceStorage] = wants
	err = r.Client.Patch(ctx, larger, client.MergeFrom(live))
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return condition.Stop(reasonCannotExpand,
			"PersistentVolumeClaim %s has %s and its StorageClass doesn't let it grow; set allowVolumeExpansion on the class, or delete this NvidiaGpuLlm and create it again with storageSize: %s",
			live.Name, has.String(), has.String())
	}
	return err
}

func (r *Reconciler) deleteClaim(ctx context.Context, f *facts) error {
	claim := &corev1.PersistentVolumeClaim{}
	key := types.NamespacedName{Namespace: nvidiagpullm.Namespace(f.resource), Name: nvidiagpullm.ClaimName(f.resource)}
	if err := r.Client.Get(ctx, key, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if claim.Labels[object.LabelName] != nvidiagpullm.LabelNameValue {
		return nil // another kind's, of the same name
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, claim))
}

// uninstall removes what an installation of the name made, also when the
// resource that installed it is gone. While one is there, the two disagree, and
// it is left to the user.
func (r *Reconciler) uninstall(ctx context.Context, f *facts, record *record) (apply.Result, error) {
	for _, other := range f.rivals {
		if other.Spec.Action == infrav1.ActionInstall {
			return apply.Result{}, condition.Wait(reasonContested,
				"NvidiaGpuLlm %s installs pod %s; delete it, or set its spec.action to uninstall, and delete this one",
				other.Name, f.resource.Spec.LLMName)
		}
	}
	r.jobs.stop(client.ObjectKeyFromObject(f.resource))
	result, err := r.Engine.Apply(ctx, apply.Owner{Object: record.Object}, record, nil)
	if err != nil {
		return result, err
	}
	return result, r.removeLeft(ctx, f)
}

// removeLeft removes what carries the labels of the name, whoever's it was.
func (r *Reconciler) removeLeft(ctx context.Context, f *facts) error {
	namespace := nvidiagpullm.Namespace(f.resource)
	selector := client.MatchingLabels(nvidiagpullm.Selector(f.resource.Spec.LLMName))
	left := 0
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}} {
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), selector); err != nil {
			return err
		}
		for _, each := range itemsOf(list) {
			left++
			if each.GetDeletionTimestamp() != nil {
				continue
			}
			if err := r.Client.Delete(ctx, each); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	if left > 0 {
		return condition.Wait(condition.ReasonProgressing, "removing what was made for %s", f.resource.Spec.LLMName)
	}
	if f.resource.Spec.StorageRetentionPolicy == infrav1.RetentionDelete {
		return r.deleteClaim(ctx, f)
	}
	return nil
}

func itemsOf(list client.ObjectList) []client.Object {
	var items []client.Object
	switch typed := list.(type) {
	case *corev1.PodList:
		for i := range typed.Items {
			items = append(items, &typed.Items[i])
		}
	case *corev1.ServiceList:
		for i := range typed.Items {
			items = append(items, &typed.Items[i])
		}
	case *corev1.ConfigMapList:
		for i := range typed.Items {
			items = append(items, &typed.Items[i])
		}
	}
	return items
}
