package part

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PullPolicy is Kubernetes' default for an image. It is set once, when a container
// is made, and then stays whatever image comes later; what is rendered follows.
func PullPolicy(image string) corev1.PullPolicy {
	name, _, digested := strings.Cut(image[strings.LastIndex(image, "/")+1:], "@")
	_, tag, tagged := strings.Cut(name, ":")
	if tag == "latest" || !tagged && !digested {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
