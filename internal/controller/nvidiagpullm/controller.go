// Package nvidiagpullm runs NvidiaGpuLlms: it keeps the pod of a name, fetches
// and loads its model over Ollama's API, runs its prompts once, and says how all
// of that goes.
package nvidiagpullm

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// Finalizer is on a resource as long as something of it lies where the garbage
// collector doesn't reach: in another namespace, or a claim that goes with it.
const Finalizer = "infra.example.com/slipway"

// When to look again where no watch tells of the change.
const (
	lookAtServer = 30 * time.Second // a model that was unloaded, a runner that was killed
	lookAtStart  = time.Second      // a server that has just been started
	lookForGPUs  = 10 * time.Second // pods of others that end
	// A namespace that comes to allow it. Namespaces aren't watched for the few that
	// are asked for.
	lookForConsent = 10 * time.Second
)

// Reconciler runs NvidiaGpuLlms.
type Reconciler struct {
	Client   client.Client // reads from the cache
	Server   client.Reader // reads from the API server
	Evidence *reconcile.Evidence
	Engine   *apply.Engine
	Events   events.EventRecorder
	Now      func() time.Time
	// Dial makes a client of the Ollama server of a pod.
	Dial func(pod *corev1.Pod) Ollama

	jobs     jobs
	heard    heard
	failures failures
	// damaged are those whose server can't read its store any more.
	damaged notes
	// confirmed is the model that a pod's server told us it has loaded: it lists
	// one that it still loads, too. dropped is the one that it was told to drop.
	confirmed notes
	dropped   notes
	memory    reconcile.Memory[*infrav1.NvidiaGpuLlm]
}

// +kubebuilder:rbac:groups=infra.example.com,resources=nvidiagpullms,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infra.example.com,resources=nvidiagpullms/status,verbs=update;patch
// +kubebuilder:rbac:groups=infra.example.com,resources=nvidiagpullms/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods;services;configmaps;persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes;events,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaims,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile keeps what the resource's action names, and says how it goes.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	facts, err := r.gather(ctx, req.NamespacedName)
	if err != nil || facts == nil {
		return ctrl.Result{}, err
	}
	if facts.resource.DeletionTimestamp != nil {
		return reconcile.End(condition.Classify(r.release(ctx, facts)), 0)
	}
	record := r.record(facts)
	result, err := r.act(ctx, facts, record)
	facts.resource = record.Object
	if gatherErr := r.diagnose(ctx, facts); gatherErr != nil {
		return ctrl.Result{}, gatherErr
	}
	outcome := condition.Classify(err)
	status := report(facts, outcome, metav1.NewTime(r.Now()))
	pass := reconcile.Pass{Progressed: result.Wrote()}
	if err := record.Write(ctx, status); err != nil {
		return pass.End(condition.Classify(err), 0)
	}
	if facts.ended != nil {
		r.jobs.drop(req.NamespacedName, facts.ended) // it is all written down
	}
	return pass.End(outcome, facts.again(result))
}

func (r *Reconciler) act(ctx context.Context, facts *facts, record *record) (apply.Result, error) {
	if facts.refused != nil {
		r.jobs.stop(client.ObjectKeyFromObject(facts.resource))
		return apply.Result{}, facts.refused
	}
	switch facts.resource.Spec.Action {
	case infrav1.ActionStatus:
		r.jobs.stop(client.ObjectKeyFromObject(facts.resource)) // it may have installed before
		return apply.Result{}, nil
	case infrav1.ActionUninstall:
		return r.uninstall(ctx, facts, record)
	default:
		return r.install(ctx, facts, record)
	}
}

// install keeps the pod and what belongs to it, and drives its server on.
func (r *Reconciler) install(ctx context.Context, facts *facts, record *record) (apply.Result, error) {
	if err := facts.rivalInstall(); err != nil {
		return apply.Result{}, err
	}
	r.collect(facts)
	r.doubt(facts)
	if err := r.protect(ctx, facts, record); err != nil {
		return apply.Result{}, err
	}
	if err := r.claim(ctx, facts); err != nil {
		return apply.Result{}, err
	}
	if err := r.clearPod(ctx, facts); err != nil {
		return apply.Result{}, err
	}
	lacking := facts.lackingGPUs()
	wanted, err := nvidiagpullm.Objects(nvidiagpullm.Input{
		Resource: record.Object, Answers: facts.answers,
		WithoutPod: facts.pod == nil && (lacking != nil || facts.completed()),
		Prunes:     r.prunes(facts),
	})
	if err != nil {
		return apply.Result{}, err
	}
	result, err := r.Engine.Apply(ctx, apply.Owner{Object: record.Object}, record, wanted)
	if err == nil {
		err = lacking
	}
	if err == nil {
		err = r.drive(facts)
	}
	return result, err
}

// protect puts the finalizer on a resource that needs it, and takes it off one
// that doesn't.
func (r *Reconciler) protect(ctx context.Context, facts *facts, record *record) error {
	needed := facts.needsFinalizer()
	current := record.Object
	if needed == controllerutil.ContainsFinalizer(current, Finalizer) {
		return nil
	}
	changed := current.DeepCopy()
	if needed {
		controllerutil.AddFinalizer(changed, Finalizer)
	} else {
		controllerutil.RemoveFinalizer(changed, Finalizer)
	}
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	record.Object = changed
	r.memory.Remember(changed)
	return nil
}

// release lets a resource go: what the garbage collector can't reach is told to
// end, and not waited for, so that a node or a namespace that is gone holds
// nothing up.
func (r *Reconciler) release(ctx context.Context, facts *facts) error {
	r.jobs.stop(client.ObjectKeyFromObject(facts.resource))
	if !controllerutil.ContainsFinalizer(facts.resource, Finalizer) {
		return nil
	}
	record := r.record(facts)
	if _, err := r.Engine.Delete(ctx, apply.Owner{Object: facts.resource}, record); err != nil && !condition.IsWait(err) {
		return err
	}
	// What it made goes, consent or not. The claim may be another's by now.
	if facts.resource.Spec.StorageRetentionPolicy == infrav1.RetentionDelete && facts.refused == nil && !facts.installedByOther() {
		if err := r.deleteClaim(ctx, facts); err != nil {
			return err
		}
	}
	freed := facts.resource.DeepCopy()
	controllerutil.RemoveFinalizer(freed, Finalizer)
	return client.IgnoreNotFound(r.Client.Patch(ctx, freed, client.MergeFrom(facts.resource)))
}
