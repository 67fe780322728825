package llmdeployment

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/part"
)

const (
	volumeCache  = "cache"
	volumeTmp    = "tmp"
	volumeModels = "models"
	volumeShared = "shared-memory"

	defaultMountPath = "/models"
)

// ClaimName is the claim that a deployment makes for its model's weights.
func ClaimName(deployment string) string { return object.Name(deployment, "models") }

// claim is nil where the model has no storage, or a claim that exists.
func claim(model *llmv1alpha1.LLMModel, meta part.Meta) (*corev1.PersistentVolumeClaim, error) {
	storage := model.Spec.Storage
	if storage == nil || storage.Size == nil {
		return nil, nil
	}
	size, err := quantityOf(model, "spec.storage.size", *storage.Size)
	if err != nil {
		return nil, err
	}
	mode := storage.AccessMode
	if mode == "" {
		mode = corev1.ReadWriteOnce
	}
	meta.Name = ClaimName(meta.Name)
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: meta.ObjectMeta(),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{mode},
			StorageClassName: storage.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}, nil
}

// mounts are the places that a container may write to: a restricted one has no
// others.
func mounts(model *llmv1alpha1.LLMModel) []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{
		{Name: volumeCache, MountPath: cacheDirectory},
		{Name: volumeTmp, MountPath: "/tmp"},
	}
	if model.Spec.Resources.GPU > 0 {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeShared, MountPath: "/dev/shm"})
	}
	if storage := model.Spec.Storage; storage != nil {
		path := storage.MountPath
		if path == "" {
			path = defaultMountPath
		}
		mounts = append(mounts, corev1.VolumeMount{
			Name: volumeModels, MountPath: path, ReadOnly: storage.ClaimName != "",
		})
	}
	return mounts
}

func volumes(model *llmv1alpha1.LLMModel, deployment string) []corev1.Volume {
	volumes := []corev1.Volume{
		emptyDir(volumeCache, corev1.StorageMediumDefault, nil),
		emptyDir(volumeTmp, corev1.StorageMediumDefault, nil),
	}
	if model.Spec.Resources.GPU > 0 {
		// NCCL's shared memory; the runtime's default of 64 MiB fails with two GPUs.
		volumes = append(volumes, emptyDir(volumeShared, corev1.StorageMediumMemory, resource.NewQuantity(2<<30, resource.BinarySI)))
	}
	if storage := model.Spec.Storage; storage != nil {
		claim := storage.ClaimName
		if claim == "" {
			claim = ClaimName(deployment)
		}
		volumes = append(volumes, corev1.Volume{
			Name: volumeModels,
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
					ClaimName: claim, ReadOnly: storage.ClaimName != "",
				},
			},
		})
	}
	return volumes
}

func emptyDir(name string, medium corev1.StorageMedium, limit *resource.Quantity) corev1.Volume {
	return corev1.Volume{
		Name:         name,
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium, SizeLimit: limit}},
	}
}
