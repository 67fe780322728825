package llmd

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// ReleaseRecords is an empty Secret of which only the metadata is read: what to
// watch in order to learn that a Helm release changed. A cache must hold only
// those with the labels of ReleaseRecordLabels.
func ReleaseRecords() *metav1.PartialObjectMetadata {
	made := &metav1.PartialObjectMetadata{}
	made.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return made
}

// ReleaseRecordLabels are on every Secret that holds a Helm release.
func ReleaseRecordLabels() map[string]string { return map[string]string{"owner": "helm"} }

// labelRelease is where Helm writes a release's name on its Secrets.
const labelRelease = "name"

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, charts *registry.Client) error {
	live, err := newLive(mgr)
	if err != nil {
		return err
	}
	// Releases and their objects are read from the server where no watch holds them.
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	changed := make(chan event.GenericEvent, 1)
	r := &Reconciler{
		Client: mgr.GetClient(),
		Charts: charts,
		Runner: helmrelease.New(helmrelease.Options{
			Config: mgr.GetConfig(), Client: direct, Cache: live, Log: slog.DiscardHandler,
		}),
		Engine: apply.New(apply.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Cache: live}),
		Events: mgr.GetEventRecorder("slipway"),
		Evidence: &reconcile.Evidence{
			Cached: reconcile.ForeignPods{Reader: mgr.GetClient(), Server: mgr.GetAPIReader()}, Server: mgr.GetAPIReader(), Now: time.Now,
		},
		Now:     time.Now,
		served:  &reconcile.Served{Server: mgr.GetAPIReader(), Kinds: llmd.Optional()},
		sources: &sources{manager: mgr, changed: changed},
		live:    live,
		charts:  lru.New(maxCharts),
	}
	if err := mgr.Add(r.sources); err != nil {
		return err
	}
	enqueue := handler.EnqueueRequestsFromMapFunc
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named("llmd").
		For(&componentsv1alpha1.Llmd{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WatchesMetadata(ReleaseRecords(), enqueue(r.recorded)).
		WatchesMetadata(reconcile.Definition(), enqueue(r.those), builder.WithPredicates(predicate.NewPredicateFuncs(r.definitionChanged))).
		WatchesRawSource(source.Channel(changed, enqueue(r.those))).
		WithLogConstructor(func(*ctrlreconcile.Request) logr.Logger { return mgr.GetLogger().WithValues("controller", "llmd") }).
		Build(r)
	live.controller, live.resources = built, r.those
	return err
}

// those finds the one Llmd that there may be.
func (r *Reconciler) those(context.Context, client.Object) []ctrlreconcile.Request {
	return []ctrlreconcile.Request{{NamespacedName: types.NamespacedName{Name: componentsv1alpha1.LlmdName}}}
}

// recorded finds the Llmd of a stored release; those of others concern nobody.
func (r *Reconciler) recorded(ctx context.Context, record client.Object) []ctrlreconcile.Request {
	resource := &componentsv1alpha1.Llmd{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: componentsv1alpha1.LlmdName}, resource, client.UnsafeDisableDeepCopy); err != nil {
		return nil // there is none
	}
	name, namespace := record.GetLabels()[labelRelease], record.GetNamespace()
	ours := slices.ContainsFunc(r.memory.Peek(resource).Status.Releases, func(e componentsv1alpha1.ReleaseEntry) bool {
		return e.Name == name && e.Namespace == namespace
	})
	if !ours {
		return nil
	}
	return r.those(ctx, record)
}

// definitionChanged lets through whatever the cluster comes to serve or ceases to:
// a chart may wait for any kind.
func (r *Reconciler) definitionChanged(definition client.Object) bool {
	r.served.Changed(definition.GetName())
	if definition.GetDeletionTimestamp() != nil {
		r.live.forget(context.Background(), definition.GetName())
	}
	return true
}
