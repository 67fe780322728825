package nvidiagpullm

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// driverGPU is NVIDIA's driver for dynamic resource allocation.
const driverGPU = "gpu.nvidia.com"

// maxDevices bounds the devices that a status names.
const maxDevices = 64

// readDevices reads which devices a pod's claims were given (KEP-3063, and
// KEP-5004 where the claim was made for an extended resource). A pod without
// claims costs nothing, and a cluster without such claims tells nothing.
func (r *Reconciler) readDevices(ctx context.Context, f *facts) error {
	if f.pod == nil {
		return nil
	}
	for _, name := range claimsOf(f.pod) {
		claim := &resourcev1.ResourceClaim{}
		err := r.Server.Get(ctx, types.NamespacedName{Namespace: f.pod.Namespace, Name: name}, claim)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return err
		}
		f.claimed = append(f.claimed, devicesOf(claim)...)
	}
	return nil
}

// claimsOf are the names of the ResourceClaims that a pod has.
func claimsOf(pod *corev1.Pod) []string {
	var names []string
	for _, claim := range pod.Spec.ResourceClaims {
		if claim.ResourceClaimName != nil {
			names = append(names, *claim.ResourceClaimName)
		}
	}
	// Those that were made for the pod, of a template or for an extended resource.
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.ResourceClaimName != nil && !slices.Contains(names, *status.ResourceClaimName) {
			names = append(names, *status.ResourceClaimName)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		names = append(names, extended.ResourceClaimName)
	}
	return names
}

// devicesOf are the GPUs that a claim was given, as POOL/DEVICE.
func devicesOf(claim *resourcev1.ResourceClaim) []string {
	if claim.Status.Allocation == nil {
		return nil
	}
	var devices []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver == driverGPU {
			devices = append(devices, result.Pool+"/"+result.Device)
		}
	}
	return devices
}

// gpusOf tells whether a pod has the GPUs that it asks for, and which, where the
// cluster tells: the kubelet of devices that a plugin allotted (KEP-4680, the pod
// status's allocatedResourcesStatus), or the pod's claims.
func gpusOf(pod *corev1.Pod, claimed []string) (bool, []string) {
	asked := len(claimed) > 0
	for _, container := range pod.Spec.Containers {
		gpus := container.Resources.Limits[nvidiagpullm.ResourceGPU]
		asked = asked || !gpus.IsZero()
	}
	devices := append([]string(nil), claimed...)
	for _, status := range pod.Status.ContainerStatuses {
		for _, allocated := range status.AllocatedResourcesStatus {
			if allocated.Name != nvidiagpullm.ResourceGPU {
				continue
			}
			for _, device := range allocated.Resources {
				devices = append(devices, string(device.ResourceID))
			}
		}
	}
	if len(devices) > maxDevices {
		devices = devices[:maxDevices]
	}
	return asked && pod.Spec.NodeName != "" && !isEnded(pod), devices
}
