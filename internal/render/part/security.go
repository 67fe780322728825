package part

import (
	corev1 "k8s.io/api/core/v1"
)

// RestrictedPod is the pod's half of the restricted Pod Security Standard
// (kubernetes.io/docs/concepts/security/pod-security-standards). Volumes belong
// to the same user, so that the container can write to them.
func RestrictedPod() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:        new(true),
		RunAsUser:           new(UserID),
		RunAsGroup:          new(UserID),
		FSGroup:             new(UserID),
		FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// RestrictedContainer is the container's half, with a read-only root file system
// on top of what the standard asks for.
func RestrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// BaselinePod keeps the seccomp profile and leaves the user to the image.
func BaselinePod() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// BaselineContainer leaves the root file system writable and the capabilities at
// the runtime's defaults, which the baseline Pod Security Standard allows.
func BaselineContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}
}
