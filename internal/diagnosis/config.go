package diagnosis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var (
	// `secret "x" not found`, `configmaps "x" not found` (client-go's status errors
	// name the resource, older kubelets the kind).
	missingSource = regexp.MustCompile(`\b(secret|configmap)s? "([^"]+)" not found`)
	// `couldn't find key K in Secret ns/x` (kubelet_pods.go).
	missingKey = regexp.MustCompile(`couldn't find key (\S+) in (Secret|ConfigMap) (?:[^/\s]+/)?(\S+)`)
	// `references non-existent config key: K` (volumes).
	missingVolumeKey = regexp.MustCompile(`references non-existent (config|secret) key: ([^\s,;]+)`)
	// `container has runAsNonRoot and image has non-numeric user (nobody), …`.
	namedUser = regexp.MustCompile(`non-numeric user \(([^)]*)\)`)
	rootUser  = regexp.MustCompile(`image will run as root|runAsUser breaks non-root policy|runAsNonRoot`)
)

// config names the fault of a container that can't be made from its spec.
func config(facts Facts, _ *corev1.Pod, spec corev1.Container, waiting *corev1.ContainerStateWaiting) []candidate {
	switch waiting.Reason {
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError", "PreStartHookError", "PostStartHookError":
	default:
		return nil
	}
	reason, message := configFault(facts, spec, waiting)
	return []candidate{{Finding{Reason: reason, Message: message, Next: facts.describe(), Terminal: !mayPass(waiting.Message)}, rankContainer}}
}

// mayPass says of a fault that it is the node's own slowness: caches that aren't
// filled yet, a runtime under load.
func mayPass(said string) bool {
	return slices.ContainsFunc([]string{"failed to sync", "deadline exceeded", "is reserved for", "not registered"}, func(pattern string) bool {
		return strings.Contains(said, pattern)
	})
}

func configFault(facts Facts, spec corev1.Container, waiting *corev1.ContainerStateWaiting) (reason, message string) {
	if fault, found := missing(facts, waiting.Message); found {
		return ReasonMissingConfig, fault
	}
	if user := namedUser.FindStringSubmatch(waiting.Message); user != nil {
		return ReasonRunsAsRoot, fmt.Sprintf("image %s runs as user %s, which can't be told from root by its name; %s, or use an image with a numeric non-root user",
			spec.Image, facts.quote(user[1]), facts.Levers.PodSecurity)
	}
	if rootUser.MatchString(waiting.Message) {
		return ReasonRunsAsRoot, fmt.Sprintf("image %s runs as root, which the pod doesn't allow; %s, or use an image with a numeric non-root user",
			spec.Image, facts.Levers.PodSecurity)
	}
	said := facts.quote(runtimeFault(waiting.Message))
	message = fmt.Sprintf("container %s can't be created", spec.Name)
	if said != "" {
		message += ": " + said
	}
	if wayOut := facts.hint("", &corev1.ContainerStateTerminated{ExitCode: 1, Message: waiting.Message}); wayOut != "its log says why" {
		message += "; " + wayOut
	}
	if waiting.Reason == "CreateContainerConfigError" {
		return ReasonContainerConfig, message
	}
	return ReasonCannotStart, message
}

// missing names a Secret, a ConfigMap or a key of them that isn't there.
func missing(facts Facts, text string) (string, bool) {
	kinds := map[string]string{"secret": "Secret", "configmap": "ConfigMap", "config": "ConfigMap"}
	if m := missingKey.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s %s has no key %s; add it, or correct %s", m[2], m[3], m[1], facts.Levers.Configuration), true
	}
	if m := missingSource.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s %s doesn't exist; create it, or correct %s", kinds[m[1]], m[2], facts.Levers.Configuration), true
	}
	if m := missingVolumeKey.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("a volume's %s has no key %s; add it, or correct %s", kinds[m[1]], m[2], facts.Levers.Configuration), true
	}
	return "", false
}
