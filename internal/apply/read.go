package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/object"
)

// snapshot is a live object as it was read.
type snapshot struct {
	*unstructured.Unstructured                             // without managedFields
	managed                    []metav1.ManagedFieldsEntry // taken off it
	cached                     bool                        // it may be older than the server's
}

// read finds an object in the cache, and where that doesn't have it, on the
// server: the cache holds only objects with our label, and may lag behind our
// own writes. Nil: it isn't there.
func (e *Engine) read(ctx context.Context, ref object.Ref) (*snapshot, error) {
	found, _, err := e.readCache(ctx, ref)
	if found != nil || err != nil {
		return found, err
	}
	return e.readServer(ctx, ref)
}

// readNew is read for an object that we haven't written as far as we remember.
// Where the cache holds its kind but not the object, nobody is asked: if it is
// there after all, its creation is refused and it is read then.
func (e *Engine) readNew(ctx context.Context, ref object.Ref) (*snapshot, error) {
	found, held, err := e.readCache(ctx, ref)
	if found != nil || held || err != nil {
		return found, err
	}
	return e.readServer(ctx, ref)
}

// readCache gives nil where the cache has no such object. It tells whether it
// holds such objects at all.
func (e *Engine) readCache(ctx context.Context, ref object.Ref) (found *snapshot, held bool, err error) {
	if e.cache == nil {
		return nil, false, nil
	}
	obj, err := e.blank(ref)
	if err != nil {
		return nil, false, err
	}
	err = e.cache.Get(ctx, keyOf(ref), obj)
	var unknown *cache.ErrResourceNotCached
	switch {
	case errors.As(err, &unknown):
		return nil, false, nil
	case apierrors.IsNotFound(err):
		return nil, true, nil
	case err != nil:
		return nil, true, fmt.Errorf("read %s from the cache: %w", ref.Display(), err)
	}
	managed := obj.GetManagedFields()
	obj.SetManagedFields(nil)
	live, err := asUnstructured(obj, ref)
	if err != nil {
		return nil, true, err
	}
	return &snapshot{Unstructured: live, managed: managed, cached: true}, true, nil
}

// blank is an empty object of a kind: a typed one where the scheme knows it,
// since that is what controllers' informers hold.
func (e *Engine) blank(ref object.Ref) (client.Object, error) {
	gvk := ref.GroupVersionKind()
	if e.client.Scheme().Recognizes(gvk) {
		made, err := e.client.Scheme().New(gvk)
		if err != nil {
			return nil, fmt.Errorf("make a %s: %w", gvk, err)
		}
		if obj, ok := made.(client.Object); ok {
			return obj, nil
		}
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	return obj, nil
}

func asUnstructured(obj client.Object, ref object.Ref) (*unstructured.Unstructured, error) {
	if already, ok := obj.(*unstructured.Unstructured); ok {
		return already, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", ref.Display(), err)
	}
	made := &unstructured.Unstructured{Object: content}
	made.SetGroupVersionKind(ref.GroupVersionKind())
	return made, nil
}

// readServer asks the API server itself.
func (e *Engine) readServer(ctx context.Context, ref object.Ref) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, e.callTimeout)
	defer cancel()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(ref.GroupVersionKind())
	err := e.server.Get(ctx, keyOf(ref), live)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // absent is no error
	}
	if err != nil {
		return nil, err
	}
	return newSnapshot(live), nil
}

func newSnapshot(live *unstructured.Unstructured) *snapshot {
	managed := live.GetManagedFields()
	live.SetManagedFields(nil)
	return &snapshot{Unstructured: live, managed: managed}
}

func (e *Engine) ownFields(s *snapshot) object.Digest {
	return ownFields(s.Object, s.managed, string(e.manager))
}

func keyOf(ref object.Ref) client.ObjectKey {
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
}
