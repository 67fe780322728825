package diagnosis

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Quota is what the API server says when a namespace is full: "exceeded quota:
// NAME, requested: cpu=2, used: cpu=3, limited: cpu=4" (its resourcequota
// plugin).
type quota struct {
	name                     string
	requested, used, limited map[string]string
}

var quotaText = regexp.MustCompile(`exceeded quota: ([^,\s]+), requested: (\S+), used: (\S+), limited: (\S+)`)

func parseQuota(message string) (quota, bool) {
	m := quotaText.FindStringSubmatch(message)
	if m == nil {
		return quota{}, false
	}
	return quota{m[1], amounts(m[2]), amounts(m[3]), amounts(m[4])}, true
}

// amounts reads "cpu=2,memory=4Gi".
func amounts(text string) map[string]string {
	found := map[string]string{}
	for pair := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		if name, amount, is := strings.Cut(pair, "="); is {
			found[name] = amount
		}
	}
	return found
}

// rejected says why the API server turns the workload's pods down, from the
// conditions of the workload and its replica sets, or from their events.
func rejected(facts Facts) []candidate {
	if len(live(facts.Pods)) >= int(facts.Workload.Replicas) {
		return nil // there are as many pods as wanted, so this has passed
	}
	var said []string
	for _, c := range facts.Workload.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == "True" && c.Message != "" {
			said = append(said, c.Message)
		}
	}
	if len(said) == 0 {
		for _, event := range facts.eventsFor(func(e *corev1.Event) bool { return e.Reason == "FailedCreate" && e.InvolvedObject.Kind != "Pod" }) {
			said = append(said, event.Message)
			break // the latest
		}
	}
	found := make([]candidate, 0, len(said))
	for _, message := range said {
		found = append(found, candidate{rejection(facts, message), rankRejected})
	}
	return found
}

func live(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	})
}

var (
	podSecurity    = regexp.MustCompile(`(?s)violates PodSecurity "([^"]+)": (.*)`)
	mustSpecify    = regexp.MustCompile(`failed quota: ([^:\s]+): must specify (.*)`)
	limitRange     = regexp.MustCompile(`(?:maximum|minimum) \S+ usage per (?:Container|Pod) is .*|\S+ max limit to request ratio per .*`)
	serviceAccount = regexp.MustCompile(`serviceaccount "([^"]+)" not found`)
	priorityClass  = regexp.MustCompile(`no PriorityClass with name (\S+) was found`)
	webhook        = regexp.MustCompile(`(?s)admission webhook "([^"]+)" denied the request: (.*)`)
	webhookDown    = regexp.MustCompile(`failed calling webhook "([^"]+)"`)
	forbidden      = regexp.MustCompile(`(?s)^(?:Error creating: )?(?:pods? "[^"]*" is forbidden: |Pod "[^"]*" is invalid: )`)
)

// rejection puts an admission plugin's refusal into words.
func rejection(facts Facts, said string) Finding {
	made := Finding{Reason: ReasonPodsRejected, Terminal: true, Next: facts.describe()}
	levers := facts.Levers
	said = forbidden.ReplaceAllString(said, "")
	if full, is := parseQuota(said); is {
		made.Reason, made.Message = ReasonQuotaExceeded, quotaMessage(facts, full)
		made.Next = fmt.Sprintf("kubectl%s describe resourcequota %s", facts.inNamespace(), full.name)
		return made
	}
	if m := mustSpecify.FindStringSubmatch(said); m != nil {
		made.Reason = ReasonQuotaExceeded
		made.Message = fmt.Sprintf("quota %s wants every pod to say its %s; set %s and %s", m[1], facts.quote(m[2]), levers.CPU, levers.Memory)
		made.Next = fmt.Sprintf("kubectl%s describe resourcequota %s", facts.inNamespace(), m[1])
		return made
	}
	if m := podSecurity.FindStringSubmatch(said); m != nil {
		made.Reason = ReasonPodSecurity
		made.Message = fmt.Sprintf("the namespace allows only pods of Pod Security %q, and these have: %s; keep to that level, or label the namespace for a lower one", m[1], facts.quote(m[2]))
		return made
	}
	if m := limitRange.FindString(said); m != "" {
		made.Reason = ReasonLimitRange
		made.Message = fmt.Sprintf("the namespace's LimitRange turns the pods down: %s; change %s or %s", facts.quote(m), levers.CPU, levers.Memory)
		made.Next = fmt.Sprintf("kubectl%s describe limitrange", facts.inNamespace())
		return made
	}
	made.Message = otherRejection(facts, said)
	return made
}

func otherRejection(facts Facts, said string) string {
	if m := serviceAccount.FindStringSubmatch(said); m != nil {
		return fmt.Sprintf("the pods can't be created: ServiceAccount %s doesn't exist; create it", m[1])
	}
	if m := priorityClass.FindStringSubmatch(said); m != nil {
		return fmt.Sprintf("the pods can't be created: PriorityClass %s doesn't exist; create it", m[1])
	}
	if m := webhook.FindStringSubmatch(said); m != nil {
		return fmt.Sprintf("admission webhook %s refuses the pods: %s", m[1], cmpOr(facts.quote(m[2]), "it gives no reason"))
	}
	if m := webhookDown.FindStringSubmatch(said); m != nil {
		return fmt.Sprintf("the pods can't be created because admission webhook %s doesn't answer; repair it, or remove its configuration", m[1])
	}
	return "the pods can't be created: " + cmpOr(facts.quote(said), "the API server gives no reason")
}

// quotaMessage names the resources of which too much was asked.
func quotaMessage(facts Facts, full quota) string {
	names := slices.Sorted(maps.Keys(full.requested))
	parts := make([]string, 0, maxNamed)
	for _, name := range names[:min(maxNamed, len(names))] {
		parts = append(parts, fmt.Sprintf("%s %s are allowed, %s are used, a pod asks for %s", full.limited[name], name, full.used[name], full.requested[name]))
	}
	return fmt.Sprintf("the namespace's quota %s is full: %s; raise the quota, or lower %s",
		full.name, strings.Join(parts, "; "), facts.quotaLevers(names))
}

// quotaLevers names what makes the pods ask for less of what is used up.
func (f Facts) quotaLevers(names []string) string {
	found := []string{f.Levers.Replicas}
	for _, name := range names {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "requests."), "limits.")
		if lever := f.lever(corev1.ResourceName(name)); name != "pods" && !strings.HasPrefix(name, "count/") && !slices.Contains(found, lever) {
			found = append(found, lever)
		}
	}
	return strings.Join(found, " or ")
}
