package nvidiagpullm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// askTimeout bounds a question to a server while a reconcile waits for it.
const askTimeout = 3 * time.Second

// facts are all that a reconcile knows.
type facts struct {
	resource *infrav1.NvidiaGpuLlm
	// rivals are the other resources with the same name in the same namespace,
	// oldest first.
	rivals []*infrav1.NvidiaGpuLlm
	// refused says why the pod's namespace doesn't let the resource act in it.
	refused error
	pod     *corev1.Pod // nil: there is none
	claimed []string    // devices of the pod's claims
	room    string      // that the claim has, as far as it is bound
	nodes   []diagnosis.Node
	answers []nvidiagpullm.Answer
	server  server
	job     *job // that runs
	ended   *job // that has ended, and is dropped when all is written down
	// finished tells that the work of a pod that shall complete is done.
	finished bool
	finding  *diagnosis.Finding
	now      time.Time
	retryAt  time.Time // of a step that failed
}

// gather reads the resource, its rivals, its pod, what the pod's server says, and
// the answers that are there. It returns nil when the resource is gone.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*facts, error) {
	resource := &infrav1.NvidiaGpuLlm{}
	if err := r.Client.Get(ctx, key, resource); err != nil {
		if apierrors.IsNotFound(err) {
			r.jobs.stop(key)
			r.failures.forget(key)
			r.heard.forget(key)
			r.damaged.forget(key)
			r.confirmed.forget(key)
			r.dropped.forget(key)
			r.memory.Forget(key)
		}
		return nil, client.IgnoreNotFound(err)
	}
	f := &facts{resource: r.memory.Latest(resource), now: r.Now()}
	for _, read := range []func(context.Context, *facts) error{
		r.readRivals, r.readConsent, r.readPod, r.readDevices, r.readNodes, r.readAnswers,
	} {
		if err := read(ctx, f); err != nil || f.refused != nil {
			return f, err
		}
	}
	f.server = r.ask(ctx, f.pod)
	return f, nil
}

func (r *Reconciler) readRivals(ctx context.Context, f *facts) error {
	var list infrav1.NvidiaGpuLlmList
	name := reconcile.LLMName(nvidiagpullm.Namespace(f.resource), f.resource.Spec.LLMName)
	if err := r.Client.List(ctx, &list, client.MatchingFields{reconcile.IndexLLMName: name}); err != nil {
		return err
	}
	for i := range list.Items {
		if other := &list.Items[i]; other.UID != f.resource.UID && other.DeletionTimestamp == nil {
			f.rivals = append(f.rivals, other)
		}
	}
	slices.SortFunc(f.rivals, older)
	return nil
}

// older orders resources by their age, and by name where that is the same.
func older(a, b *infrav1.NvidiaGpuLlm) int {
	if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
		return order
	}
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}

// readPod finds the pod of the name. One that isn't ours is in no cache, and only
// a status asks for it.
func (r *Reconciler) readPod(ctx context.Context, f *facts) error {
	key := types.NamespacedName{Namespace: nvidiagpullm.Namespace(f.resource), Name: f.resource.Spec.LLMName}
	pod := &corev1.Pod{}
	err := r.Client.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) && f.resource.Spec.Action == infrav1.ActionStatus {
		err = r.Server.Get(ctx, key, pod)
	}
	if err == nil {
		f.pod = pod
	}
	return client.IgnoreNotFound(err)
}

// readNodes is for who waits for GPUs, and for a pod on a node that may be dead.
func (r *Reconciler) readNodes(ctx context.Context, f *facts) error {
	if f.resource.Spec.Action != infrav1.ActionInstall {
		return nil
	}
	looking := f.pod == nil && nvidiagpullm.GPUs(f.resource) > 0
	if !looking && (f.pod == nil || f.pod.DeletionTimestamp == nil) {
		return nil
	}
	var err error
	f.nodes, err = r.Evidence.Nodes(ctx, looking)
	return err
}

func (r *Reconciler) readAnswers(ctx context.Context, f *facts) error {
	files := &corev1.ConfigMap{}
	err := r.Client.Get(ctx, types.NamespacedName{
		Namespace: nvidiagpullm.Namespace(f.resource), Name: nvidiagpullm.AnswersName(f.resource),
	}, files)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	f.answers = r.heard.latest(client.ObjectKeyFromObject(f.resource), nvidiagpullm.Run(f.resource),
		nvidiagpullm.AnswersOf(f.resource, files.Data))
	// The pod may have ended while nobody looked.
	f.finished = f.pod != nil && f.pod.Status.Phase == corev1.PodSucceeded && !nvidiagpullm.KeepsAlive(f.resource) &&
		len(f.answers) > 0 && len(f.answers) == len(f.resource.Spec.Prompts)
	return nil
}

// ask asks a pod's server what it has. A server that doesn't answer is no error:
// it may be starting.
func (r *Reconciler) ask(ctx context.Context, pod *corev1.Pod) server {
	if pod == nil || pod.Status.PodIP == "" || pod.DeletionTimestamp != nil || !isRunning(pod) {
		return server{}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	dialled := r.Dial(pod)
	stored, err := dialled.Tags(ctx)
	if err != nil {
		return server{}
	}
	loaded, err := dialled.Loaded(ctx)
	if err != nil {
		return server{}
	}
	answer := server{answers: true}
	for _, each := range stored {
		answer.stored = append(answer.stored, each.Name)
	}
	for _, each := range loaded {
		answer.loaded = append(answer.loaded, each.Name)
	}
	return answer
}

func isRunning(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			return true
		}
	}
	return false
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// completed tells whether a pod that shall complete has done its work.
func (f *facts) completed() bool {
	return !nvidiagpullm.KeepsAlive(f.resource) && f.resource.Status.CompletedRun == nvidiagpullm.Run(f.resource)
}

// needsFinalizer tells whether something lies where the garbage collector doesn't
// reach.
func (f *facts) needsFinalizer() bool {
	spec := f.resource.Spec
	return nvidiagpullm.Namespace(f.resource) != f.resource.Namespace ||
		spec.PersistentStorage && spec.StorageRetentionPolicy == infrav1.RetentionDelete
}

// installedByOther tells whether another resource keeps the pod of the name.
func (f *facts) installedByOther() bool {
	return slices.ContainsFunc(f.rivals, func(other *infrav1.NvidiaGpuLlm) bool {
		return other.Spec.Action == infrav1.ActionInstall
	})
}

// rivalInstall is what to wait for when an older resource installs the name.
func (f *facts) rivalInstall() error {
	for _, other := range f.rivals {
		if other.Spec.Action == infrav1.ActionInstall && older(other, f.resource) < 0 {
			return condition.Wait(reasonContested,
				"pod %s in namespace %s is installed by NvidiaGpuLlm %s; write another spec.llmName, or delete that one",
				f.resource.Spec.LLMName, nvidiagpullm.Namespace(f.resource), other.Name)
		}
	}
	return nil
}

// lackingGPUs is what to wait for when the GPUs can't be had now. Only a pod that
// isn't there yet waits so: one that is has its GPUs, or the scheduler's word.
func (f *facts) lackingGPUs() error {
	wanted := int64(nvidiagpullm.GPUs(f.resource))
	if f.pod != nil || wanted == 0 || f.completed() {
		return nil
	}
	var there, most, free int64
	for _, node := range f.nodes {
		if !node.Ready || node.Unschedulable {
			continue
		}
		capacity := node.Allocatable[nvidiagpullm.ResourceGPU]
		left := capacity
		if node.Free != nil {
			left = node.Free[nvidiagpullm.ResourceGPU]
		}
		there += capacity.Value()
		free += left.Value()
		most = max(most, left.Value())
	}
	switch {
	case there == 0:
		return condition.Wait(reasonNoGPUs,
			"no node has %s; install NVIDIA's device plugin, add a node with GPUs, or set spec.gpuCount: 0 to run on the CPU", nvidiagpullm.ResourceGPU)
	case most < wanted:
		return condition.Wait(reasonNoGPUs,
			"%s and no node has that many free: %d of %d are free in the cluster, at most %d on one node; free some, add nodes, or lower spec.gpuCount",
			asked(wanted), free, there, most)
	}
	return nil
}

func asked(gpus int64) string {
	if gpus == 1 {
		return "1 GPU is asked for"
	}
	return fmt.Sprintf("%d GPUs are asked for", gpus)
}

// diagnose finds what keeps the pod from running.
func (r *Reconciler) diagnose(ctx context.Context, f *facts) error {
	if f.resource.Spec.Action != infrav1.ActionInstall || f.pod == nil || f.server.answers || f.completed() || isEnded(f.pod) {
		return nil
	}
	evidence, err := r.Evidence.OfPod(ctx, f.pod, nvidiagpullm.Selector(f.resource.Spec.LLMName))
	if err != nil {
		return err
	}
	evidence.Levers = nvidiagpullm.Levers()
	if finding, is := diagnosis.Diagnose(evidence); is && finding.Reason != diagnosis.ReasonStarting && finding.Reason != diagnosis.ReasonProgressing {
		f.finding = &finding
	}
	return nil
}

// again is when to look again at the latest.
func (f *facts) again(result apply.Result) time.Duration {
	after := result.Again
	sooner := func(d time.Duration) {
		if after == 0 || d < after {
			after = d
		}
	}
	if f.refused != nil {
		sooner(lookForConsent)
		return after
	}
	if !f.retryAt.IsZero() {
		sooner(max(f.retryAt.Sub(f.now), time.Millisecond))
	}
	switch {
	case f.ended != nil:
		sooner(time.Millisecond) // the next step
	case f.resource.Spec.Action == infrav1.ActionStatus:
		sooner(lookAtServer)
	case f.resource.Spec.Action == infrav1.ActionUninstall:
	case f.pod == nil && !f.completed():
		sooner(lookForGPUs)
	case f.pod != nil && isRunning(f.pod) && !f.server.answers:
		sooner(lookAtStart)
	case f.pod != nil && !isEnded(f.pod):
		sooner(lookAtServer)
	}
	return after
}
