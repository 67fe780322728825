package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pullFault is why an image can't be pulled.
type pullFault struct {
	reason string
	fault  string
	// wayOut says what to do; %s is the registry.
	wayOut   func(Facts, *corev1.Pod, string) string
	passing  bool // may pass without the user
	patterns []string
}

// pullFaults tells faults apart by what containerd, CRI-O and registries say.
// The first that matches counts: what failed on the network before what was
// refused, because a refused token reads like a refused image.
var pullFaults = []pullFault{
	{
		reason: ReasonRegistryUnreachable, fault: "its registry's certificate isn't trusted", wayOut: checkRegistry,
		patterns: []string{"x509:", "tls: failed to verify certificate", "http: server gave http response to https client"},
	},
	{
		reason: ReasonRegistryUnreachable, fault: "its registry can't be reached", wayOut: checkRegistry, passing: true,
		patterns: []string{
			"no such host", "i/o timeout", "connection refused", "connection reset", "tls handshake timeout", "network is unreachable",
			"no route to host", "deadline exceeded", "server misbehaving", "client.timeout", "temporary failure in name resolution",
			"registry is unavailable", "registryunavailable", "unexpected eof", "proxyconnect",
		},
	},
	{
		reason: ReasonImagePullFailed, fault: "its registry refuses more pulls for now (rate limit)", wayOut: addPullSecret, passing: true,
		patterns: []string{"toomanyrequests", "too many requests", "429"},
	},
	{
		reason: ReasonImageUnauthorized, fault: "access denied, or there is no such repository", wayOut: checkNameOrPullSecret,
		patterns: []string{"pull access denied", "repository does not exist or may require"},
	},
	{
		reason: ReasonImageUnauthorized, fault: "unauthorized", wayOut: addPullSecret,
		patterns: []string{
			"401 unauthorized", "unauthorized", "403 forbidden", "authorization failed", "insufficient_scope", "failed to authorize",
			"no basic auth credentials", "authentication required", "access denied", "denied:", "invalid username/password",
		},
	},
	{
		reason: ReasonImageNotFound, fault: "it has no build for the node's CPU architecture", wayOut: changeImage,
		patterns: []string{"no match for platform", "no matching manifest", "no image found in image index for architecture"},
	},
	{
		reason: ReasonImageNotFound, fault: "not found", wayOut: changeImage,
		patterns: []string{"not found", "manifest unknown", "name unknown", "404"},
	},
	{
		reason: ReasonImagePullFailed, fault: "the node's disk is full", wayOut: freeDisk,
		patterns: []string{"no space left on device"},
	},
	{
		reason: ReasonImagePullFailed, fault: "its signature isn't accepted", wayOut: changeImage,
		patterns: []string{"signature validation failed", "signaturevalidationfailed"},
	},
	{
		reason: ReasonRegistryUnreachable, fault: "its registry answers with an error", wayOut: checkRegistry, passing: true,
		patterns: []string{"500 internal server error", "502 bad gateway", "503 service unavailable", "504 gateway"},
	},
}

// image names the fault of a container that waits for its image.
func image(facts Facts, pod *corev1.Pod, container corev1.Container, waiting *corev1.ContainerStateWaiting) []candidate {
	made := func(reason, message string, terminal bool) []candidate {
		return []candidate{{Finding{Reason: reason, Message: message, Next: facts.describe(), Terminal: terminal}, rankContainer}}
	}
	name := container.Image
	facts.Levers.Image = facts.Levers.imageOf(container.Name)
	switch waiting.Reason {
	case "InvalidImageName":
		return made(ReasonInvalidImageName, fmt.Sprintf("image %q isn't a valid image name; correct %s", name, facts.Levers.Image), true)
	case "ErrImageNeverPull":
		return made(ReasonImageNotPresent, fmt.Sprintf("image %s isn't on the node and its pull policy is Never; load it onto the nodes or change %s", name, facts.Levers.Image), true)
	case "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
	default:
		return nil
	}
	said := facts.pullError(pod, name, waiting)
	fault, known := classifyPull(said)
	if !known {
		message := fmt.Sprintf("image %s can't be pulled", name)
		if cause := facts.quote(afterImage(said, name)); cause != "" {
			message += ": " + cause
		}
		return made(ReasonImagePullFailed, message+"; "+changeImage(facts, pod, registryOf(name)), false)
	}
	wayOut := fault.wayOut(facts, pod, registryOf(name))
	return made(fault.reason, fmt.Sprintf("image %s can't be pulled: %s; %s", name, fault.fault, wayOut), !fault.passing)
}

// pullError finds what went wrong: in the container's status, or, where that
// only says that the kubelet backs off, in the latest event.
func (f Facts) pullError(pod *corev1.Pod, image string, waiting *corev1.ContainerStateWaiting) string {
	said := afterImage(waiting.Message, image)
	if said != "" || waiting.Reason == "ErrImagePull" {
		return cmpOr(said, waiting.Message)
	}
	for _, event := range f.eventsOf(pod, "Failed") {
		if strings.HasPrefix(event.Message, "Failed to pull image") && strings.Contains(event.Message, image) {
			return afterImage(event.Message, image)
		}
	}
	return ""
}

// afterImage is the cause in what the kubelet and containerd say of an image:
// the text after its last quoted name. Their own words before it repeat the name,
// and a name may read like a fault.
func afterImage(message, image string) string {
	if at := strings.LastIndex(message, image); image != "" && at >= 0 {
		message = message[at+len(image):]
	}
	message = strings.TrimLeft(message, `": \`)
	return message
}

// classifyPull tells what a pull's error means.
func classifyPull(said string) (pullFault, bool) {
	said = strings.ToLower(said)
	for _, fault := range pullFaults {
		if slices.ContainsFunc(fault.patterns, func(pattern string) bool { return strings.Contains(said, pattern) }) {
			return fault, true
		}
	}
	return pullFault{}, false
}

func checkRegistry(facts Facts, _ *corev1.Pod, registry string) string {
	return fmt.Sprintf("check that the nodes reach and trust %s, or change %s", registry, facts.Levers.Image)
}

func changeImage(facts Facts, _ *corev1.Pod, _ string) string {
	return "correct " + facts.Levers.Image
}

func freeDisk(Facts, *corev1.Pod, string) string {
	return "free space on the node or give it a larger disk"
}

func checkNameOrPullSecret(facts Facts, pod *corev1.Pod, registry string) string {
	return fmt.Sprintf("correct %s, or %s", facts.Levers.Image, addPullSecret(facts, pod, registry))
}

// addPullSecret asks for credentials, or, where the pod has some, to check them.
func addPullSecret(facts Facts, pod *corev1.Pod, registry string) string {
	names := make([]string, 0, len(pod.Spec.ImagePullSecrets))
	for _, each := range pod.Spec.ImagePullSecrets {
		names = append(names, each.Name)
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return fmt.Sprintf("name a Secret with credentials for %s in %s", registry, facts.Levers.PullSecrets)
	case len(facts.eventsOf(pod, "FailedToRetrieveImagePullSecret")) > 0:
		return fmt.Sprintf("create the missing pull Secret (%s names %s)", facts.Levers.PullSecrets, strings.Join(names, ", "))
	default:
		return fmt.Sprintf("check the credentials for %s in Secret %s", registry, strings.Join(names, ", "))
	}
}

// registryOf is the host in an image's name, by the rule of Docker's reference
// grammar: the first part is a host if it holds a dot or a colon or is
// localhost.
func registryOf(image string) string {
	host, _, found := strings.Cut(image, "/")
	if found && (strings.ContainsAny(host, ".:") || host == "localhost") {
		return host
	}
	return "docker.io"
}

func cmpOr(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
