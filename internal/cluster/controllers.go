package cluster

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/slipway-dev/slipway/internal/cluster/config"
)

// Pauses of a controller whose work failed.
const (
	firstRetry = 100 * time.Millisecond
	maxRetry   = 30 * time.Second
)

// runControllers does the work of the cluster's own controllers until ctx ends:
// it advertises GPUs and provides volumes.
func (s *supervision) runControllers(ctx context.Context) {
	factory := informers.NewSharedInformerFactory(s.client, 0)
	core := factory.Core().V1()
	nodes, claims, volumes := core.Nodes(), core.PersistentVolumeClaims(), core.PersistentVolumes()
	loops := map[cache.SharedIndexInformer]func(context.Context, cache.ObjectName) error{
		claims.Informer(): func(ctx context.Context, name cache.ObjectName) error {
			claim, err := claims.Lister().PersistentVolumeClaims(name.Namespace).Get(name.Name)
			return ifFound(err, func() error { return s.provide(ctx, claim) })
		},
		volumes.Informer(): func(ctx context.Context, name cache.ObjectName) error {
			volume, err := volumes.Lister().Get(name.Name)
			return ifFound(err, func() error { return s.reclaim(ctx, volume) })
		},
	}
	if s.spec.GPUs > 0 {
		loops[nodes.Informer()] = func(ctx context.Context, name cache.ObjectName) error {
			node, err := nodes.Lister().Get(name.Name)
			return ifFound(err, func() error { return s.advertiseGPUs(ctx, node) })
		}
	}
	for informer, work := range loops {
		if err := runLoop(ctx, informer, work); err != nil {
			fmt.Fprintf(os.Stderr, "start a controller: %v\n", err)
		}
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
}

// ifFound does the work on an object that still exists.
func ifFound(err error, work func() error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return work()
}

// runLoop calls work for each object that changes, one at a time, and again
// after a pause if it fails, until ctx ends.
func runLoop(ctx context.Context, informer cache.SharedIndexInformer, work func(context.Context, cache.ObjectName) error) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, maxRetry))
	add := func(object any) {
		if name, err := cache.ObjectToName(object); err == nil {
			queue.Add(name)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, changed any) { add(changed) },
	})
	if err != nil {
		return fmt.Errorf("watch objects: %w", err)
	}
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	go func() {
		for {
			name, end := queue.Get()
			if end {
				return
			}
			if err := work(ctx, name); err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
				queue.AddRateLimited(name)
			} else {
				queue.Forget(name)
			}
			queue.Done(name)
		}
	}()
	return nil
}

// advertiseGPUs makes a real node offer GPUs that it doesn't have, as the
// Kubernetes documentation's "Advertise Extended Resources for a Node" does. A
// kubelet that starts sets the number to zero, which comes here as a change.
func (s *supervision) advertiseGPUs(ctx context.Context, node *corev1.Node) error {
	if node.Labels[simulatedLabel] != "" {
		return nil
	}
	capacity, allocatable := node.Status.Capacity[GPUResource], node.Status.Allocatable[GPUResource]
	if capacity.Value() == int64(s.spec.GPUs) && allocatable.Value() == int64(s.spec.GPUs) {
		return nil
	}
	patch := fmt.Appendf(nil, `{"status":{"capacity":{%q:"%d"},"allocatable":{%q:"%d"}}}`,
		GPUResource, s.spec.GPUs, GPUResource, s.spec.GPUs)
	_, err := s.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("advertise GPUs: %w", err)
	}
	return nil
}

// Annotations of dynamic provisioning (Kubernetes' design proposal "Dynamic
// Provisioning and Storage Classes").
const (
	claimProvisioner  = "volume.kubernetes.io/storage-provisioner"
	volumeProvisioner = "pv.kubernetes.io/provisioned-by"
)

// provide makes the volume for a claim that asks for one: a folder that every
// node sees at the same path, so that pods may use it wherever they run.
func (s *supervision) provide(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Annotations[claimProvisioner] != config.Provisioner || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	if err := makeShared(s.folder.volumes() + "/" + name); err != nil {
		return err
	}
	kind := corev1.HostPathDirectory
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{volumeProvisioner: config.Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      claim.Spec.Resources.Requests,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: config.NodeVolumes + "/" + name, Type: &kind},
			},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}
	if claim.Spec.StorageClassName != nil {
		volume.Spec.StorageClassName = *claim.Spec.StorageClassName
	}
	_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the volume: %w", err)
	}
	return nil
}

// makeShared makes a folder that pods of any user write to.
func makeShared(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("make a volume's folder: %w", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // whatever the umask says
		return fmt.Errorf("open a volume's folder to all users: %w", err)
	}
	return nil
}

// reclaim removes a volume whose claim is gone, with its data.
func (s *supervision) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	if volume.Annotations[volumeProvisioner] != config.Provisioner || volume.Status.Phase != corev1.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	// The name is our own, made from a UID: it holds no path separator.
	if err := os.RemoveAll(s.folder.volumes() + "/" + volume.Name); err != nil {
		return fmt.Errorf("remove a volume's folder: %w", err)
	}
	err := s.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(volume.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the volume: %w", err)
	}
	return nil
}
