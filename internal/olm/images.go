package olm

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What begins the names of variables, and of annotations of its pod, that tell an
// operator which images to run. The latter is Istio's operator's, which reads them
// through the downward API.
const (
	relatedPrefix     = "RELATED_IMAGE_"
	relatedAnnotation = "images."
)

// Images are all that the operator needs: its own, those that it is told of, and
// those that the bundle lists, sorted, each once. A cluster without a network
// must hold them.
func (b *Bundle) Images() []string {
	var images []string
	for _, each := range b.CSV.Spec.RelatedImages {
		images = append(images, each.Image)
	}
	for _, deployment := range b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for name, image := range deployment.Spec.Template.Annotations {
			if strings.HasPrefix(name, relatedAnnotation) {
				images = append(images, image)
			}
		}
		pod := deployment.Spec.Template.Spec
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			images = append(images, container.Image)
			images = append(images, related(container.Env)...)
		}
	}
	slices.Sort(images)
	images = slices.Compact(images)
	return slices.DeleteFunc(images, func(image string) bool { return image == "" })
}

func related(env []corev1.EnvVar) []string {
	var images []string
	for _, each := range env {
		if strings.HasPrefix(each.Name, relatedPrefix) {
			images = append(images, each.Value)
		}
	}
	return images
}
