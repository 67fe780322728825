package diagnosis

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// probeFailure is what an Unhealthy event says: "Readiness probe failed: HTTP
// probe failed with statuscode: 503".
type probeFailure struct {
	kind   string // Readiness, Liveness or Startup
	status int    // of HTTP, or 0
	fault  string // refused, timeout, reset, or "" where only said knows
	said   string
}

var (
	probeEvent  = regexp.MustCompile(`(?s)^(Readiness|Liveness|Startup) probe (?:failed|errored[^:]*): (.*)$`)
	probeStatus = regexp.MustCompile(`statuscode: (\d{3})\b`)
)

// parseProbe reads an Unhealthy event's message.
func parseProbe(message string) (probeFailure, bool) {
	m := probeEvent.FindStringSubmatch(message)
	if m == nil {
		return probeFailure{}, false
	}
	failure := probeFailure{kind: m[1], said: m[2]}
	if status := probeStatus.FindStringSubmatch(m[2]); status != nil {
		failure.status, _ = strconv.Atoi(status[1])
	}
	said := strings.ToLower(m[2])
	for _, each := range []struct{ fault, pattern string }{
		{"refused", "connection refused"}, {"timeout", "client.timeout"}, {"timeout", "deadline exceeded"},
		{"timeout", "i/o timeout"}, {"timeout", "timed out"}, {"reset", "connection reset"}, {"reset", "eof"},
	} {
		if failure.fault == "" && strings.Contains(said, each.pattern) {
			failure.fault = each.fault
		}
	}
	return failure, true
}

// probes says why a pod runs and isn't ready, from its latest Unhealthy event.
func probes(facts Facts, pod *corev1.Pod) []candidate {
	for _, event := range facts.eventsOf(pod, "Unhealthy") {
		failure, is := parseProbe(event.Message)
		if !is {
			continue
		}
		spec := probed(pod, event.InvolvedObject.FieldPath, failure.kind)
		if spec == nil || containerReady(pod, spec.Name) {
			continue
		}
		return []candidate{unhealthy(facts, pod, *spec, failure)}
	}
	return nil
}

func containerReady(pod *corev1.Pod, name string) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == name {
			return status.Ready
		}
	}
	return false
}

// probed finds the container that an event speaks of ("spec.containers{model}"),
// or the only one with such a probe.
func probed(pod *corev1.Pod, fieldPath, kind string) *corev1.Container {
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		if fieldPath == "" && probeOf(*spec, kind) != nil || strings.HasSuffix(fieldPath, "{"+spec.Name+"}") {
			return spec
		}
	}
	return nil
}

func probeOf(spec corev1.Container, kind string) *corev1.Probe {
	switch kind {
	case "Readiness":
		return spec.ReadinessProbe
	case "Liveness":
		return spec.LivenessProbe
	default:
		return spec.StartupProbe
	}
}

// unhealthy says how a probe fails. A server that doesn't listen yet is still
// starting until a probe has killed it once.
func unhealthy(facts Facts, pod *corev1.Pod, spec corev1.Container, failure probeFailure) candidate {
	where := target(probeOf(spec, failure.kind), spec)
	made := candidate{Finding{Reason: ReasonProbeFailed, Next: facts.logs(spec.Name, false), Terminal: true}, rankProbe}
	subject := fmt.Sprintf("container %s", spec.Name)
	levers := facts.Levers
	switch {
	case failure.status == 503 || failure.status == 429:
		made.Reason, made.Terminal, made.rank = ReasonNotAnswering, false, rankStarting
		made.Message = fmt.Sprintf("%s answers HTTP %d at %s: it is loading or overloaded", subject, failure.status, where)
	case failure.status == 404 || failure.status == 405:
		made.Message = fmt.Sprintf("%s answers HTTP %d at %s, where it is probed; %s must fit the server that the image runs", subject, failure.status, where, levers.Engine)
	case failure.status == 401 || failure.status == 403:
		made.Message = fmt.Sprintf("%s asks for credentials (HTTP %d) at %s, where it is probed; let it answer there without, or change %s", subject, failure.status, where, levers.Engine)
	case failure.status != 0:
		made.Message = fmt.Sprintf("%s answers HTTP %d at %s, where it is probed; its log says why", subject, failure.status, where)
	case failure.fault != "" && !startedOver(pod, spec.Name) && failure.kind != "Liveness":
		made.Reason, made.Terminal, made.rank = ReasonNotAnswering, false, rankStarting
		made.Message = fmt.Sprintf("%s doesn't answer at %s yet (%s): it is still loading, or listens elsewhere; %s must be what the engine listens on", subject, where, failure.words(), levers.Port)
	case failure.fault != "":
		made.Message = fmt.Sprintf("%s doesn't answer at %s (%s); %s must be what the engine listens on", subject, where, failure.words(), levers.Port)
	default:
		made.Message = fmt.Sprintf("the %s probe of %s fails", strings.ToLower(failure.kind), subject)
		if said := facts.quote(lastLine(failure.said)); said != "" {
			made.Message += ": " + said
		}
	}
	return made
}

func (p probeFailure) words() string {
	switch p.fault {
	case "refused":
		return "connection refused"
	case "reset":
		return "connection closed"
	default:
		return "no answer in time"
	}
}

func startedOver(pod *corev1.Pod, container string) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			return status.RestartCount > 0
		}
	}
	return false
}

// killedByProbe says that a container ended because the kubelet killed it for a
// failing probe. Its event tells ("Container model failed startup probe, will be
// restarted"); where that hasn't come yet or is forgotten, so does how long the
// container lived.
func killedByProbe(facts Facts, pod *corev1.Pod, spec corev1.Container, ended *corev1.ContainerStateTerminated) (candidate, bool) {
	kind := ""
	for _, event := range facts.eventsOf(pod, "Killing") {
		if strings.HasPrefix(event.Message, "Container "+spec.Name+" failed liveness") {
			kind = "Liveness"
		} else if strings.HasPrefix(event.Message, "Container "+spec.Name+" failed startup") {
			kind = "Startup"
		}
		if kind != "" {
			break
		}
	}
	if kind == "" && livedItsStartup(pod, spec, ended) {
		kind = "Startup"
	}
	if kind == "" {
		return candidate{}, false
	}
	how := ""
	for _, unhealthy := range facts.eventsOf(pod, "Unhealthy") {
		if failure, is := parseProbe(unhealthy.Message); is && failure.kind == kind {
			how = failure.summary()
			break
		}
	}
	message := fmt.Sprintf("container %s is restarted again and again because it doesn't answer at %s%s; %s must be what the engine listens on",
		spec.Name, target(probeOf(spec, kind), spec), how, facts.Levers.Port)
	if kind == "Startup" {
		message += ", and loading may need a longer " + facts.Levers.StartupTimeout
	}
	return candidate{Finding{Reason: ReasonProbeFailed, Message: message, Next: facts.logs(spec.Name, true), Terminal: true}, rankProbe}, true
}

// livedItsStartup reports whether a container lived just as long as its startup
// probe lets one live that never answers: failureThreshold probes, and then the
// time to end.
func livedItsStartup(pod *corev1.Pod, spec corev1.Container, ended *corev1.ContainerStateTerminated) bool {
	probe := spec.StartupProbe
	if probe == nil || ended.StartedAt.IsZero() || ended.FinishedAt.IsZero() {
		return false
	}
	const slack = 10 // seconds, for a node under load
	lived := int64(ended.FinishedAt.Sub(ended.StartedAt.Time).Seconds())
	start, tries := int64(probe.InitialDelaySeconds), int64(probe.FailureThreshold)
	least := start + (tries-1)*int64(probe.PeriodSeconds)
	most := start + tries*int64(max(probe.PeriodSeconds, probe.TimeoutSeconds)) + slack
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		most += *grace
	}
	return tries > 0 && lived >= least && lived <= most
}

func (p probeFailure) summary() string {
	switch {
	case p.status != 0:
		return fmt.Sprintf(" (HTTP %d)", p.status)
	case p.fault != "":
		return " (" + p.words() + ")"
	default:
		return ""
	}
}

// target is where a probe asks, as ":8080/health"; a port that has a name is
// looked up in the container.
func target(probe *corev1.Probe, spec corev1.Container) string {
	switch {
	case probe == nil:
		return "its probe"
	case probe.HTTPGet != nil:
		path := probe.HTTPGet.Path
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		return ":" + portOf(probe.HTTPGet.Port.String(), spec) + path
	case probe.TCPSocket != nil:
		return ":" + portOf(probe.TCPSocket.Port.String(), spec)
	case probe.GRPC != nil:
		return ":" + strconv.Itoa(int(probe.GRPC.Port)) + " (gRPC)"
	default:
		return "its probe's command"
	}
}

func portOf(port string, spec corev1.Container) string {
	for _, each := range spec.Ports {
		if each.Name == port {
			return strconv.Itoa(int(each.ContainerPort))
		}
	}
	return port
}
