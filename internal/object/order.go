package object

import "slices"

// The ranks of kinds, in the order in which they are applied; teardown goes the
// other way. Objects of one rank don't need each other to be accepted.
const (
	rankNamespace = iota
	rankDefinition
	rankPolicy
	rankAccount
	rankRole
	rankBinding
	rankConfig
	rankStorage
	rankWorkload
	rankService
	rankScaling
	rankWebhook
	rankCustom
	ranks
)

// ranked lists the kinds of the groups that Kubernetes itself serves. Every
// kind that isn't here is a custom resource, and comes last.
var ranked = map[string]map[string]int{
	"": {
		"Namespace":             rankNamespace,
		"ResourceQuota":         rankPolicy,
		"LimitRange":            rankPolicy,
		"ServiceAccount":        rankAccount,
		"Secret":                rankConfig,
		"ConfigMap":             rankConfig,
		"PersistentVolume":      rankStorage,
		"PersistentVolumeClaim": rankStorage,
		"Pod":                   rankWorkload,
		"ReplicationController": rankWorkload,
		"Service":               rankService,
		"Endpoints":             rankService,
	},
	"apiextensions.k8s.io":      {"CustomResourceDefinition": rankDefinition},
	"scheduling.k8s.io":         {"PriorityClass": rankPolicy},
	"node.k8s.io":               {"RuntimeClass": rankPolicy},
	"networking.k8s.io":         {"NetworkPolicy": rankPolicy, "IngressClass": rankPolicy, "Ingress": rankScaling},
	"rbac.authorization.k8s.io": {"Role": rankRole, "ClusterRole": rankRole, "RoleBinding": rankBinding, "ClusterRoleBinding": rankBinding},
	"storage.k8s.io":            {"StorageClass": rankStorage, "CSIDriver": rankStorage},
	"discovery.k8s.io":          {"EndpointSlice": rankService},
	"apps":                      {"Deployment": rankWorkload, "StatefulSet": rankWorkload, "DaemonSet": rankWorkload, "ReplicaSet": rankWorkload},
	"batch":                     {"Job": rankWorkload, "CronJob": rankWorkload},
	"policy":                    {"PodDisruptionBudget": rankScaling},
	"autoscaling":               {"HorizontalPodAutoscaler": rankScaling},
	"apiregistration.k8s.io":    {"APIService": rankWebhook},
	"admissionregistration.k8s.io": {
		"MutatingWebhookConfiguration":     rankWebhook,
		"ValidatingWebhookConfiguration":   rankWebhook,
		"ValidatingAdmissionPolicy":        rankWebhook,
		"ValidatingAdmissionPolicyBinding": rankWebhook,
	},
}

// Rank is the place of a kind in the order of applying, from 0: namespaces,
// custom resource definitions, policies, service accounts, roles, bindings,
// configuration, storage, workloads, services, budgets and scalers, webhooks,
// custom resources.
func (r Ref) Rank() int {
	if rank, known := ranked[r.Group][r.Kind]; known {
		return rank
	}
	return rankCustom
}

// IsFoundation reports whether other kinds can't even be written before this
// one is there: a namespace or a custom resource definition.
func (r Ref) IsFoundation() bool { return r.Rank() <= rankDefinition }

// IsDefinition reports whether the object defines a kind.
func (r Ref) IsDefinition() bool { return r.Rank() == rankDefinition }

// TeardownGroups splits references into groups, in the order in which they are
// to be gone: the reverse of applying, one group for each rank. What is in a
// later group may be what cleans up an earlier one (the operator of a custom
// resource), so each waits for the one before.
func TeardownGroups(refs []Ref) [][]Ref {
	sorted := slices.Clone(refs)
	Sort(sorted)
	slices.Reverse(sorted)
	groups := make([][]Ref, 0, ranks)
	for start := 0; start < len(sorted); {
		end := start + 1
		for end < len(sorted) && sorted[end].Rank() == sorted[start].Rank() {
			end++
		}
		groups = append(groups, sorted[start:end])
		start = end
	}
	return groups
}
