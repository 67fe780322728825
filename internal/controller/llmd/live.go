package llmd

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/llmd"
)

// live watches what releases consist of, of whatever kind: objects with the
// labels that every release of ours puts on them. A kind is watched from when an
// object of it is first seen, and until its definition goes.
type live struct {
	cache.Cache
	// records reads the metadata of the Secrets that hold releases.
	records    client.Reader
	manager    ctrl.Manager
	controller controller.Controller
	resources  handler.MapFunc

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]string // that are watched, with their definitions' names
}

// newLive makes the cache, and has it started with the manager.
func newLive(mgr ctrl.Manager) (*live, error) {
	components := []string{"monitoring"}
	for _, each := range llmd.Order() {
		components = append(components, string(each))
	}
	partOf, err := labels.NewRequirement(object.LabelPartOf, selection.Equals, []string{llmd.PartOf})
	if err != nil {
		return nil, err
	}
	component, err := labels.NewRequirement(object.LabelComponent, selection.In, components)
	if err != nil {
		return nil, err
	}
	made, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector:        labels.NewSelector().Add(*partOf, *component),
		ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return nil, err
	}
	return &live{Cache: made, records: mgr.GetCache(), manager: mgr, kinds: map[schema.GroupVersionKind]string{}}, mgr.Add(made)
}

// Get implements client.Reader.
func (l *live) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, is := into.(*metav1.PartialObjectMetadata); is {
		return l.records.Get(ctx, key, into, options...)
	}
	return l.Cache.Get(ctx, key, into, options...)
}

// List implements client.Reader.
func (l *live) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	if _, is := into.(*metav1.PartialObjectMetadataList); is {
		return l.records.List(ctx, into, options...)
	}
	return l.Cache.List(ctx, into, options...)
}

// follow watches the kinds of objects that aren't watched yet.
func (l *live) follow(ctx context.Context, objects []*unstructured.Unstructured) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, each := range objects {
		gvk := each.GroupVersionKind()
		if _, is := l.kinds[gvk]; is {
			continue
		}
		mapping, err := l.manager.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return fmt.Errorf("watch %s: %w", gvk.Kind, err)
		}
		kind := l.blank(gvk)
		if err := l.controller.Watch(source.Kind(l.Cache, kind, handler.EnqueueRequestsFromMapFunc(l.resources))); err != nil {
			return fmt.Errorf("watch %s: %w", gvk.Kind, err)
		}
		if err := l.controller.Watch(reconcile.Synced(l.Cache, kind, l.resources)); err != nil {
			return err
		}
		l.kinds[gvk] = mapping.Resource.Resource + "." + mapping.Resource.Group
	}
	return ctx.Err()
}

// forget ends the watches of a kind whose definition went.
func (l *live) forget(ctx context.Context, definition string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for gvk, defined := range l.kinds {
		if defined == definition {
			_ = l.RemoveInformer(ctx, l.blank(gvk)) // it fails only for a kind that isn't known
			delete(l.kinds, gvk)
		}
	}
}

// blank is an empty object of a kind, as the apply engine reads it: typed where
// the scheme knows it.
func (l *live) blank(gvk schema.GroupVersionKind) client.Object {
	if made, err := l.manager.GetScheme().New(gvk); err == nil {
		if typed, is := made.(client.Object); is {
			return typed
		}
	}
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(gvk)
	return made
}
