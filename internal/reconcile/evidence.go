package reconcile

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/diagnosis"
)

// Look-ups in the cache, set up in one place for all controllers.
const (
	// IndexEventObject finds the events of an object, by its UID.
	IndexEventObject = "involvedObject.uid"
	// IndexLLMName finds the NvidiaGpuLlms of a pod, by LLMName.
	IndexLLMName = "llmName"
	// IndexModelRef finds the LLMDeployments of an LLMModel, by its name.
	IndexModelRef = "spec.modelRef"
)

// LLMName is the key of IndexLLMName.
func LLMName(namespace, llmName string) string { return namespace + "/" + llmName }

// maxClasses bounds the list of StorageClasses; a cluster has a handful.
const maxClasses = 200

// Bounds of reading all pods of a cluster, to know what is free on its nodes.
const (
	podPage  = 500
	podPages = 40
	// occupancyAge is how old that knowledge may be: a hundred resources that wait
	// for a GPU read the pods once.
	occupancyAge = 5 * time.Second
)

// Evidence reads what a diagnosis needs. It is safe for concurrent use.
type Evidence struct {
	// Cached reads pods, events, nodes and claims from informers.
	Cached client.Reader
	// Server reads what is too rare to be cached.
	Server client.Reader
	Now    func() time.Time

	mu       sync.Mutex
	occupied []corev1.Pod
	readAt   time.Time
}

// Gather reads the facts about a workload whose pods carry the given labels.
func (e *Evidence) Gather(ctx context.Context, workload *unstructured.Unstructured, selector map[string]string) (diagnosis.Facts, error) {
	facts := diagnosis.Facts{Workload: workloadFacts(workload), Now: e.Now()}
	namespace := workload.GetNamespace()
	var pods corev1.PodList
	if err := e.Cached.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(selector)); err != nil {
		return facts, err
	}
	facts.Pods = pods.Items
	var claims corev1.PersistentVolumeClaimList
	if err := e.Cached.List(ctx, &claims, client.InNamespace(namespace), client.MatchingLabels(selector)); err != nil {
		return facts, err
	}
	facts.Claims = claims.Items
	if err := e.events(ctx, &facts, namespace); err != nil {
		return facts, err
	}
	if err := e.nodes(ctx, &facts); err != nil {
		return facts, err
	}
	return facts, e.classes(ctx, &facts)
}

// OfPod reads the facts about a pod that no workload controls. selector finds it
// and its claims.
func (e *Evidence) OfPod(ctx context.Context, pod *corev1.Pod, selector map[string]string) (diagnosis.Facts, error) {
	workload := &unstructured.Unstructured{Object: map[string]any{"kind": "Pod"}}
	workload.SetNamespace(pod.Namespace)
	workload.SetName(pod.Name)
	return e.Gather(ctx, workload, selector)
}

// Nodes reads the nodes, with what is free on them where free is true and the
// cluster isn't too large to know.
func (e *Evidence) Nodes(ctx context.Context, free bool) ([]diagnosis.Node, error) {
	var nodes corev1.NodeList
	if err := e.Cached.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var occupied []corev1.Pod
	if free {
		var err error
		if occupied, err = e.occupancy(ctx); err != nil {
			return nil, err
		}
	}
	return diagnosis.NodesOf(nodes.Items, occupied), nil
}

func (e *Evidence) events(ctx context.Context, facts *diagnosis.Facts, namespace string) error {
	var about []types.UID
	for i := range facts.Pods {
		about = append(about, facts.Pods[i].UID)
	}
	for i := range facts.Claims {
		about = append(about, facts.Claims[i].UID)
	}
	for _, uid := range about {
		var events corev1.EventList
		err := e.Cached.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{IndexEventObject: string(uid)})
		if err != nil {
			return err
		}
		facts.Events = append(facts.Events, events.Items...)
	}
	return nil
}

// nodes come with what is free on them only when the scheduler has found no place
// for a pod: one that it hasn't come to yet is no reason to read all others.
func (e *Evidence) nodes(ctx context.Context, facts *diagnosis.Facts) error {
	homeless := slices.ContainsFunc(facts.Pods, func(p corev1.Pod) bool { return unscheduled(&p) })
	var err error
	facts.Nodes, err = e.Nodes(ctx, homeless)
	return err
}

// occupancy is the pods that hold resources of nodes, nil when there are too
// many to read.
func (e *Evidence) occupancy(ctx context.Context) ([]corev1.Pod, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Now().Sub(e.readAt) < occupancyAge {
		return e.occupied, nil
	}
	held, next := []corev1.Pod{}, ""
	for range podPages {
		var page corev1.PodList
		err := e.Server.List(ctx, &page, client.Limit(podPage), client.Continue(next),
			client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("spec.nodeName", "")})
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			pod := &page.Items[i]
			held = append(held, corev1.Pod{Spec: pod.Spec, Status: corev1.PodStatus{Phase: pod.Status.Phase}})
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	if next != "" {
		held = nil
	}
	e.occupied, e.readAt = held, e.Now()
	return held, nil
}

// classes are read only when a claim waits for one.
func (e *Evidence) classes(ctx context.Context, facts *diagnosis.Facts) error {
	for i := range facts.Claims {
		if facts.Claims[i].Status.Phase == corev1.ClaimBound {
			continue
		}
		var classes storagev1.StorageClassList
		if err := e.Server.List(ctx, &classes, client.Limit(maxClasses)); err != nil {
			return err
		}
		facts.Classes, facts.ClassesKnown = classes.Items, classes.Continue == ""
		return nil
	}
	return nil
}

func workloadFacts(workload *unstructured.Unstructured) diagnosis.Workload {
	facts := diagnosis.Workload{
		Kind:      workload.GetKind(),
		Namespace: workload.GetNamespace(),
		Name:      workload.GetName(),
		Replicas:  number(workload, 1, "spec", "replicas"),
		Ready:     number(workload, 0, "status", "readyReplicas"),
	}
	conditions, _, _ := unstructured.NestedSlice(workload.Object, "status", "conditions")
	for _, each := range conditions {
		if c, ok := each.(map[string]any); ok {
			facts.Conditions = append(facts.Conditions, diagnosis.Condition{
				Type: text(c, "type"), Status: text(c, "status"), Reason: text(c, "reason"), Message: text(c, "message"),
			})
		}
	}
	return facts
}

func number(object *unstructured.Unstructured, absent int32, path ...string) int32 {
	n, found, err := unstructured.NestedInt64(object.Object, path...)
	if err != nil || !found {
		return absent
	}
	return int32(n) //nolint:gosec // the API's own int32
}

func text(object map[string]any, field string) string {
	value, _ := object[field].(string)
	return value
}
