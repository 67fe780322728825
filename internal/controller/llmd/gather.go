package llmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// facts are all that a reconcile knows before it acts.
type facts struct {
	llmd     *componentsv1alpha1.Llmd
	sources  map[llmd.Source]llmd.Data
	versions []string // of the optional kinds, as they are served
}

func (f *facts) input() llmd.Input { return llmd.Input{Llmd: f.llmd, Sources: f.sources} }

// gather reads the resource and what it refers to. It returns nil when the
// resource is gone.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*facts, error) {
	resource := &componentsv1alpha1.Llmd{}
	if err := r.Client.Get(ctx, key, resource); err != nil {
		r.memory.Forget(key)
		r.sources.follow(nil)
		return nil, client.IgnoreNotFound(err)
	}
	found := &facts{llmd: r.memory.Latest(resource)}
	wanted := llmd.Sources(found.llmd)
	r.sources.follow(wanted)
	var err error
	if found.sources, err = r.sources.read(ctx, wanted); err != nil {
		return nil, err
	}
	if found.versions, err = r.served.Versions(ctx); err != nil {
		return nil, fmt.Errorf("find out which optional APIs are served: %w", err)
	}
	return found, nil
}

// record is the one writer of a resource's status.
type record = reconcile.Record[*componentsv1alpha1.Llmd, componentsv1alpha1.LlmdStatus]

func (r *Reconciler) record(facts *facts) *record {
	return &record{
		Writer: r.Client, Events: r.Events, Memory: &r.memory, Object: facts.llmd,
		Parts: func(l *componentsv1alpha1.Llmd) reconcile.StatusParts[componentsv1alpha1.LlmdStatus] {
			return reconcile.StatusParts[componentsv1alpha1.LlmdStatus]{
				Status: &l.Status, ObservedGeneration: l.Status.ObservedGeneration,
				Conditions: l.Status.Conditions, Inventory: &l.Status.Inventory,
			}
		},
		Starting: func() componentsv1alpha1.LlmdStatus { return starting(facts, metav1.NewTime(r.Now())) },
	}
}

// prepare writes down what is about to be made, before it is: the finalizer, and
// where the releases are. It returns nil when there is nothing to do: the
// resource is on its way out, and nobody waits for us.
func (r *Reconciler) prepare(ctx context.Context, facts *facts, wanted []llmd.Release) (*record, error) {
	has := controllerutil.ContainsFinalizer(facts.llmd, Finalizer)
	if facts.llmd.DeletionTimestamp != nil && !has {
		return nil, nil //nolint:nilnil // nothing to do
	}
	if !has {
		if err := r.patch(ctx, facts.llmd, func(l *componentsv1alpha1.Llmd) { controllerutil.AddFinalizer(l, Finalizer) }, func(l *componentsv1alpha1.Llmd) { facts.llmd = l }); err != nil {
			return nil, err
		}
	}
	record := r.record(facts)
	named := llmd.Record(facts.llmd.Status.Releases, wanted)
	if !slices.Equal(named, facts.llmd.Status.Releases) {
		status := *facts.llmd.Status.DeepCopy()
		if status.ObservedGeneration == 0 {
			status = starting(facts, metav1.NewTime(r.Now()))
		}
		status.Releases = named
		if err := record.Write(ctx, status); err != nil {
			return nil, err
		}
	}
	facts.llmd = record.Object
	return record, nil
}

// patch changes the resource's metadata, unless someone else wrote meanwhile.
func (r *Reconciler) patch(ctx context.Context, current *componentsv1alpha1.Llmd, change, keep func(*componentsv1alpha1.Llmd)) error {
	changed := current.DeepCopy()
	change(changed)
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	r.memory.Remember(changed)
	keep(changed)
	return nil
}

// teardownDeadline is how long a deletion waits for releases to be uninstalled. A
// release that can't be (a hook that never ends, an API server that refuses) must
// not keep its namespace, or a cluster's end, for ever.
const teardownDeadline = 30 * time.Minute

func (r *Reconciler) tooLate(llmd *componentsv1alpha1.Llmd) bool {
	return r.Now().Sub(llmd.DeletionTimestamp.Time) >= teardownDeadline
}

// letGo lets a deleted resource go, and says which releases it leaves behind.
func (r *Reconciler) letGo(ctx context.Context, current *componentsv1alpha1.Llmd, behind []componentsv1alpha1.ReleaseEntry) error {
	for _, left := range behind {
		r.Events.Eventf(current, nil, corev1.EventTypeWarning, "ReleaseLeftBehind", "Delete",
			"release %s in namespace %s couldn't be uninstalled in %s and is left; remove it with helm uninstall", left.Name, left.Namespace, teardownDeadline)
	}
	err := r.patch(ctx, current, func(l *componentsv1alpha1.Llmd) { controllerutil.RemoveFinalizer(l, Finalizer) }, func(*componentsv1alpha1.Llmd) {})
	r.memory.Forget(client.ObjectKeyFromObject(current))
	return client.IgnoreNotFound(err)
}

// beside makes what isn't of a chart: the alerts, once there is something to watch.
func (r *Reconciler) beside(ctx context.Context, facts *facts, record *record, done *result) error {
	objects, err := llmd.Objects(facts.llmd, facts.versions)
	if err != nil || facts.llmd.DeletionTimestamp != nil {
		return err // on its way out: owner references do the rest
	}
	if len(objects) > 0 && !done.lives(objects[0].GetNamespace()) {
		objects = nil
	}
	if len(objects) == 0 && len(facts.llmd.Status.Inventory) == 0 {
		return nil
	}
	made, err := r.Engine.Apply(ctx, apply.Owner{Object: record.Object}, record, objects)
	done.besides(made)
	if err == nil {
		err = r.live.follow(ctx, made.Live)
	}
	return err
}
