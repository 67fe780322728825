package helmrelease

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
)

// maxHistory bounds how many revisions are looked at. Helm keeps
// helm.MaxHistory; one that was made by hand may have more.
const maxHistory = 256

// recordKey names one version of a revision's Secret.
type recordKey struct {
	uid     types.UID
	version string
}

func keyOf(secret client.Object) recordKey {
	return recordKey{uid: secret.GetUID(), version: secret.GetResourceVersion()}
}

// history reads the stored revisions, the oldest first: which there are from the
// cache or the server, and the content of those whose Secret has changed.
func (r *Runner) history(ctx context.Context, want Want, newest bool) ([]helm.Stored, error) {
	list, err := r.secrets(ctx, want, newest)
	if err != nil {
		return nil, err
	}
	var stored []helm.Stored
	for i := range list.Items {
		each, err := r.record(ctx, &list.Items[i])
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, err
		}
		stored = append(stored, each)
	}
	helm.Complete(stored)
	return stored, nil
}

func (r *Runner) secrets(ctx context.Context, want Want, newest bool) (*metav1.PartialObjectMetadataList, error) {
	options := []client.ListOption{client.InNamespace(want.Namespace), client.MatchingLabels(helm.SecretLabels(want.Name))}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if !newest {
		err := r.options.Cache.List(ctx, list, options...)
		var unknown *cache.ErrResourceNotCached
		if err == nil || !errors.As(err, &unknown) {
			return list, err
		}
	}
	err := r.options.Client.List(ctx, list, append(options, client.Limit(maxHistory))...)
	if apierrors.IsForbidden(err) {
		return nil, condition.Wait(condition.ReasonForbidden, "the records of Helm releases in namespace %s can't be read: %w; allow Slipway to", want.Namespace, err)
	}
	return list, err
}

// record is one revision without its manifest, which Runner.manifest has.
func (r *Runner) record(ctx context.Context, meta *metav1.PartialObjectMetadata) (helm.Stored, error) {
	if known, there := r.records.Get(keyOf(meta)); there {
		return known.(helm.Stored), nil //nolint:forcetypeassert // nothing else is kept
	}
	stored, key, err := r.fetch(ctx, client.ObjectKeyFromObject(meta))
	if err != nil {
		return stored, err
	}
	stored.Manifest = ""
	r.records.Add(key, stored)
	return stored, nil
}

// fetch reads a revision's Secret from the server.
func (r *Runner) fetch(ctx context.Context, name client.ObjectKey) (helm.Stored, recordKey, error) {
	secret := &corev1.Secret{}
	if err := r.options.Client.Get(ctx, name, secret); err != nil {
		return helm.Stored{}, recordKey{}, err
	}
	stored, err := helm.Decode(secret)
	if err != nil {
		return stored, recordKey{}, condition.Stop(condition.ReasonInvalidObject, "%w", err)
	}
	objects, err := parse(stored.Manifest)
	if err != nil {
		return stored, recordKey{}, condition.Stop(condition.ReasonInvalidObject, "revision %d: %w", stored.Number, err)
	}
	r.manifests.Add(keyOf(secret), objects)
	return stored, keyOf(secret), nil
}

// manifest is the objects of a revision as they were rendered. They are not to
// be changed.
func (r *Runner) manifest(ctx context.Context, namespace string, stored *helm.Stored) ([]rendered, error) {
	key := recordKey{uid: stored.Secret.UID, version: stored.Secret.Version}
	if known, there := r.manifests.Get(key); there {
		return known.([]rendered), nil //nolint:forcetypeassert // nothing else is kept
	}
	_, key, err := r.fetch(ctx, client.ObjectKey{Namespace: namespace, Name: stored.Secret.Name})
	if err != nil {
		return nil, err
	}
	known, there := r.manifests.Get(key)
	if !there {
		return nil, fmt.Errorf("revision %d was dropped from memory while it was read", stored.Number)
	}
	return known.([]rendered), nil //nolint:forcetypeassert // nothing else is kept
}
