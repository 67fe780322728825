package nvidiagpullm

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
)

// TestDevices: which GPUs a pod has is told as soon as the cluster tells, by the
// kubelet or by a claim. The API server keeps both as a real cluster's does; the
// kubelet and the driver that write them are played here, because no simulated GPU
// has an id.
func TestDevices(t *testing.T) {
	ns := namespace(t)
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gpus"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com", Count: 1, AllocationMode: "ExactCount"},
		}}}},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gpu-llm-pod"},
		Spec: corev1.PodSpec{
			NodeName:       "elsewhere",
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimName: new("gpus")}},
			Containers: []corev1.Container{{
				Name: "c", Image: "example.com/c",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": quantity.MustParse("1")}},
			}},
		},
	}
	create(t, claim, pod)
	given := claim.DeepCopy()
	given.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.nvidia.com", Pool: "elsewhere", Device: "gpu-3"}},
	}}
	running := pod.DeepCopy()
	running.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "c", AllocatedResourcesStatus: []corev1.ResourceStatus{{
			Name: "nvidia.com/gpu", Resources: []corev1.ResourceHealth{{ResourceID: "GPU-1f6d", Health: corev1.ResourceHealthStatusHealthy}},
		}},
	}}
	if err := kube.Status().Patch(t.Context(), given, client.MergeFrom(claim)); err != nil {
		t.Fatal(err)
	}
	if err := kube.Status().Patch(t.Context(), running, client.MergeFrom(pod)); err != nil {
		t.Fatal(err)
	}
	create(t, resource(ns, "check-status", infrav1.ActionStatus))
	told := await(t, ns, "check-status", func(d *infrav1.NvidiaGpuLlm) string {
		if !d.Status.GPUAssigned {
			return "no GPU is told: " + d.Status.Message
		}
		return ""
	})
	if want := []string{"elsewhere/gpu-3", "GPU-1f6d"}; !slices.Equal(told.Status.GPUDevices, want) {
		t.Errorf("the devices are %v, want %v", told.Status.GPUDevices, want)
	}
}
