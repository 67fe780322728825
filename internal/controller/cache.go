package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/controller/llmd"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// maxEventMessage bounds the text that is kept of an event, in bytes.
const maxEventMessage = 512

// CacheOptions limit what is held in memory to what is Slipway's own: objects
// with its label, with no more of each than someone reads. That holds for every
// kind that isn't named here, those of optional APIs among them. A kind that
// nobody watches is never cached by accident: reading it fails instead. A cache
// wants every kind that it is told of to be served: Slipway's own are those that the
// named controllers read, or all if none is named.
func CacheOptions(controllers ...string) cache.Options {
	every := labels.Everything()
	options := cache.Options{
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{object.LabelManagedBy: object.ManagedBy}),
		DefaultTransform:     keepOwnFields,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:  {Transform: slimPod},
			&corev1.Node{}: {Label: every, Transform: slimNode},
			&corev1.Event{}: {
				Label:     every,
				Field:     fields.OneTermNotEqualSelector("type", corev1.EventTypeNormal),
				Transform: slimEvent,
			},
			reconcile.Definition(): {Label: every, Transform: onlyName},
			llmd.ReleaseRecords():  {Label: labels.SelectorFromSet(llmd.ReleaseRecordLabels()), Transform: onlyLabels},
		},
		ReaderFailOnMissingInformer: true,
	}
	own := map[client.Object]cache.ByObject{
		&llmv1alpha1.LLMModel{}:                    {Label: every, Transform: cache.TransformStripManagedFields()},
		&llmv1alpha1.LLMDeployment{}:               {Label: every, Transform: cache.TransformStripManagedFields()},
		&simv1alpha1.SimulatorDeployment{}:         {Label: every, Transform: cache.TransformStripManagedFields()},
		&infrav1.NvidiaGpuLlm{}:                    {Label: every, Transform: cache.TransformStripManagedFields()},
		&componentsv1alpha1.Llmd{}:                 {Label: every},
		&datascienceclusterv2.DataScienceCluster{}: {Label: every, Transform: cache.TransformStripManagedFields()},
		&platformv1alpha1.PlatformStack{}:          {Label: every, Transform: cache.TransformStripManagedFields()},
	}
	for kind, limits := range own {
		if reads(controllers, kind) {
			options.ByObject[kind] = limits
		}
	}
	return options
}

// index adds the look-ups that controllers make in the cache. An index also
// starts the informer of its kind.
func index(mgr ctrl.Manager, controllers []string) error {
	ctx := context.Background()
	for _, each := range []struct {
		kind  client.Object
		field string
		value client.IndexerFunc
	}{
		{&llmv1alpha1.LLMDeployment{}, reconcile.IndexModelRef, func(o client.Object) []string {
			return []string{o.(*llmv1alpha1.LLMDeployment).Spec.ModelRef}
		}},
		{&infrav1.NvidiaGpuLlm{}, reconcile.IndexLLMName, func(o client.Object) []string {
			resource := o.(*infrav1.NvidiaGpuLlm)
			return []string{reconcile.LLMName(nvidiagpullm.Namespace(resource), resource.Spec.LLMName)}
		}},
	} {
		if !reads(controllers, each.kind) {
			continue
		}
		if err := mgr.GetFieldIndexer().IndexField(ctx, each.kind, each.field, each.value); err != nil {
			return err
		}
	}
	err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Event{}, reconcile.IndexEventObject, func(o client.Object) []string {
		return []string{string(o.(*corev1.Event).InvolvedObject.UID)}
	})
	if err != nil {
		return err
	}
	return cacheEvidence(ctx, mgr)
}

// cacheEvidence starts the informers that a diagnosis reads from, whichever
// controllers run: one that runs alone may watch less, and a read of what isn't
// cached fails.
func cacheEvidence(ctx context.Context, mgr ctrl.Manager) error {
	for _, read := range []client.Object{&corev1.Pod{}, &corev1.Event{}, &corev1.Node{}, &corev1.PersistentVolumeClaim{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, read); err != nil {
			return err
		}
	}
	return nil
}

// keepOwnFields drops what other managers own: the apply engine asks only for
// ours.
func keepOwnFields(in any) (any, error) {
	if o, ok := in.(client.Object); ok {
		var own []metav1.ManagedFieldsEntry
		for _, entry := range o.GetManagedFields() {
			if entry.Manager == object.ManagedBy && entry.Operation == metav1.ManagedFieldsOperationApply {
				own = append(own, entry)
			}
		}
		o.SetManagedFields(own)
	}
	return in, nil
}

// onlyName keeps of a definition that it is there, and in which version.
func onlyName(in any) (any, error) {
	if o, ok := in.(*metav1.PartialObjectMetadata); ok {
		o.Labels, o.Annotations, o.ManagedFields, o.OwnerReferences, o.Finalizers = nil, nil, nil, nil, nil
	}
	return in, nil
}

// onlyLabels keeps of a Secret's metadata what tells which release it belongs to.
func onlyLabels(in any) (any, error) {
	if o, ok := in.(*metav1.PartialObjectMetadata); ok {
		o.Annotations, o.ManagedFields, o.OwnerReferences, o.Finalizers = nil, nil, nil, nil
	}
	return in, nil
}

// slimPod keeps what a diagnosis reads, and of a pod that we apply ourselves also
// what the apply engine asks for.
func slimPod(in any) (any, error) {
	if pod, ok := in.(*corev1.Pod); ok {
		if pod.Labels[object.LabelName] == nvidiagpullm.LabelNameValue {
			return keepOwnFields(in)
		}
		pod.ManagedFields = nil
		pod.Annotations = nil
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Env = nil
			pod.Spec.Containers[i].VolumeMounts = nil
		}
		pod.Spec.Affinity = nil
		pod.Status.PodIPs, pod.Status.HostIPs = nil, nil
	}
	return in, nil
}

// slimNode keeps what a diagnosis reads.
func slimNode(in any) (any, error) {
	if node, ok := in.(*corev1.Node); ok {
		node.ManagedFields = nil
		node.Annotations = nil
		node.Status.Images = nil
		node.Status.VolumesAttached, node.Status.VolumesInUse = nil, nil
	}
	return in, nil
}

// slimEvent keeps what a diagnosis reads.
func slimEvent(in any) (any, error) {
	event, ok := in.(*corev1.Event)
	if !ok {
		return in, nil
	}
	message := event.Message
	if len(message) > maxEventMessage {
		message = message[:maxEventMessage]
	}
	return &corev1.Event{
		TypeMeta: event.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: event.Namespace, Name: event.Name, UID: event.UID, ResourceVersion: event.ResourceVersion,
			CreationTimestamp: event.CreationTimestamp,
		},
		InvolvedObject: event.InvolvedObject,
		Reason:         event.Reason,
		Message:        message,
		Type:           event.Type,
		Count:          event.Count,
		FirstTimestamp: event.FirstTimestamp, LastTimestamp: event.LastTimestamp, EventTime: event.EventTime,
	}, nil
}
