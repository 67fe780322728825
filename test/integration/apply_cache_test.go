package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/test/bed"
)

const deadline = 2 * time.Minute

// cached is a stand whose engine reads from informers, as a controller's does.
type cached struct {
	*stand
	informers cache.Cache
	events    chan struct{}
}

func newCached(t *testing.T) *cached {
	t.Helper()
	s := newStand(t)
	c := &cached{stand: s, events: make(chan struct{}, 1)}
	ours := labels.SelectorFromSet(labels.Set{object.LabelManagedBy: object.ManagedBy})
	var err error
	c.informers, err = cache.New(s.wire.Through(server), cache.Options{
		Scheme: s.ours.Scheme(), DefaultLabelSelector: ours, ReaderFailOnMissingInformer: true,
		DefaultNamespaces: map[string]cache.Config{s.namespace: {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	signal := func(any) {
		select {
		case c.events <- struct{}{}:
		default:
		}
	}
	for _, kind := range []client.Object{&corev1.ServiceAccount{}, &corev1.Service{}, &appsv1.Deployment{}, &policyv1.PodDisruptionBudget{}} {
		informer, err := c.informers.GetInformer(t.Context(), kind, cache.BlockUntilSynced(false))
		if err != nil {
			t.Fatal(err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: signal, UpdateFunc: func(_, now any) { signal(now) }, DeleteFunc: signal,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- c.informers.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	if !c.informers.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache doesn't sync")
	}
	s.engine = apply.New(apply.Options{Client: s.ours, Cache: c.informers})
	return c
}

// await waits until the cache is as wanted.
func (c *cached) await(seen func() bool) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), deadline)
	defer cancel()
	for !seen() {
		select {
		case <-c.events:
		case <-ctx.Done():
			c.Fatal("the cache never got there")
		}
	}
}

// catchUp waits until the cache holds the objects as the server does.
func (c *cached) catchUp(objs ...client.Object) {
	c.Helper()
	for _, obj := range objs {
		key := client.ObjectKey{Namespace: c.namespace, Name: "chat"}
		if err := c.others.Get(c.Context(), key, obj); err != nil {
			c.Fatal(err)
		}
		version := obj.GetResourceVersion()
		c.await(func() bool {
			return c.informers.Get(c.Context(), key, obj) == nil && obj.GetResourceVersion() == version
		})
	}
}

// TestASecondPassNeitherWritesNorReads beyond the cache, also when others have
// changed the objects meanwhile.
func TestASecondPassNeitherWritesNorReads(t *testing.T) {
	c := newCached(t)
	c.inventory.Stale = true // as a controller's own cache
	kinds := []client.Object{&corev1.ServiceAccount{}, &corev1.Service{}, &appsv1.Deployment{}, &policyv1.PodDisruptionBudget{}}
	c.mustApply(everything(c.namespace)...)
	c.catchUp(kinds...)
	c.wire.Take()
	c.mustApply(everything(c.namespace)...)
	want(t, []string{}, through(c.wire.Take()))

	live := get(c.stand, "chat", &appsv1.Deployment{})
	c.change(live, func() { live.Annotations = map[string]string{"note": "x"} })
	live.Status.ObservedGeneration = 1
	if err := c.others.Status().Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	c.catchUp(kinds...)
	c.wire.Take()
	result, err := c.apply(everything(c.namespace)...)
	if err != nil {
		t.Fatal(err)
	}
	want(t, []string{}, through(c.wire.Take()))
	want(t, 4, len(result.Live))
	want(t, "x", result.Live[1].GetAnnotations()["note"])
	want(t, 0, len(result.Live[1].GetManagedFields()))
}

// TestANewObjectCostsOneRequest: nobody is asked whether it is there.
func TestANewObjectCostsOneRequest(t *testing.T) {
	c := newCached(t)
	c.inventory.Stale = true
	c.wire.Take()
	c.mustApply(everything(c.namespace)...)
	want(t, []string{
		"PATCH configmaps/owner", "PATCH serviceaccounts/chat", "PATCH deployments/chat",
		"PATCH services/chat", "PATCH poddisruptionbudgets/chat",
	}, through(c.wire.Take()))
}

// TestAForeignObjectThatTheCacheDoesNotHold is neither taken over nor changed.
func TestAForeignObjectThatTheCacheDoesNotHold(t *testing.T) {
	c := newCached(t)
	foreign := bed.Account(c.namespace, "chat")
	foreign.SetLabels(nil)
	c.create(foreign)
	before := get(c.stand, "chat", &corev1.ServiceAccount{})
	_, err := c.apply(everything(c.namespace)...)
	if !condition.IsStop(err) {
		t.Errorf("got %v, want a Stop", err)
	}
	want(t, before, get(c.stand, "chat", &corev1.ServiceAccount{}))
}

// TestDriftThroughTheCache: a change, a deletion and a lost label, which takes
// the object out of the cache, are put back.
func TestDriftThroughTheCache(t *testing.T) {
	c := newCached(t)
	wanted := bed.Deployment(c.namespace, "chat", "example/chat:v1", 2)
	c.mustApply(wanted)
	c.catchUp(&appsv1.Deployment{})
	live := get(c.stand, "chat", &appsv1.Deployment{})
	c.change(live, func() { live.Spec.Replicas = new(int32(9)) })
	c.catchUp(&appsv1.Deployment{})
	want(t, apply.Configured, c.mustApply(wanted)["Deployment/chat"])
	want(t, int32(2), *get(c.stand, "chat", &appsv1.Deployment{}).Spec.Replicas)

	gone := func() bool {
		key := client.ObjectKey{Namespace: c.namespace, Name: "chat"}
		return client.IgnoreNotFound(c.informers.Get(c.Context(), key, &appsv1.Deployment{})) == nil &&
			c.informers.Get(c.Context(), key, &appsv1.Deployment{}) != nil
	}
	c.catchUp(&appsv1.Deployment{})
	live = get(c.stand, "chat", &appsv1.Deployment{})
	c.change(live, func() { delete(live.Labels, object.LabelManagedBy) })
	c.await(gone)
	want(t, apply.Configured, c.mustApply(wanted)["Deployment/chat"])
	c.catchUp(&appsv1.Deployment{})
	want(t, live.UID, get(c.stand, "chat", &appsv1.Deployment{}).UID)

	if err := c.others.Delete(t.Context(), get(c.stand, "chat", &appsv1.Deployment{})); err != nil {
		t.Fatal(err)
	}
	c.await(gone)
	want(t, apply.Created, c.mustApply(wanted)["Deployment/chat"])
}

// frozen is a cache that shows what it was last told to, however old.
type frozen struct {
	client.Reader
	shown map[client.ObjectKey]*appsv1.Deployment
}

// Get implements client.Reader.
func (f *frozen) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	into, ok := obj.(*appsv1.Deployment)
	if !ok {
		return f.Reader.Get(ctx, key, obj, opts...)
	}
	if old, there := f.shown[key]; there {
		old.DeepCopyInto(into)
		return nil
	}
	return &cache.ErrResourceNotCached{}
}

// TestACacheThatLagsBehindOurOwnWrites proves nothing: what was just written
// isn't written again, and what the server returned is what is live. Another
// intent is written all the same.
func TestACacheThatLagsBehindOurOwnWrites(t *testing.T) {
	s := newStand(t)
	lagging := &frozen{Reader: s.ours, shown: map[client.ObjectKey]*appsv1.Deployment{}}
	s.engine = apply.New(apply.Options{Client: s.ours, Cache: lagging})
	one, two, three := bed.Deployment(s.namespace, "chat", "example/chat:v1", 1), bed.Deployment(s.namespace, "chat", "example/chat:v2", 1), bed.Deployment(s.namespace, "chat", "example/chat:v3", 1)

	s.mustApply(one)
	s.wire.Take()
	want(t, apply.Unchanged, s.mustApply(one)["Deployment/chat"]) // the cache doesn't have it at all
	want(t, 0, len(s.wire.TakeWrites()))

	key := client.ObjectKey{Namespace: s.namespace, Name: "chat"}
	lagging.shown[key] = get(s, "chat", &appsv1.Deployment{})
	s.mustApply(two)
	s.wire.Take()
	result, err := s.apply(two)
	if err != nil {
		t.Fatal(err)
	}
	want(t, []string{"GET configmaps/owner"}, through(s.wire.Take())) // the inventory alone
	want(t, int64(2), result.Live[0].GetGeneration())

	want(t, apply.Configured, s.mustApply(three)["Deployment/chat"])
	want(t, "example/chat:v3", get(s, "chat", &appsv1.Deployment{}).Spec.Template.Spec.Containers[0].Image)

	// The cache shows an earlier object of that name, which was on its way out.
	old := get(s, "chat", &appsv1.Deployment{})
	old.DeletionTimestamp = &old.CreationTimestamp
	lagging.shown[key] = old
	if err := s.others.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	delete(lagging.shown, key)
	want(t, apply.Created, s.mustApply(three)["Deployment/chat"])
	lagging.shown[key] = old
	want(t, apply.Unchanged, s.mustApply(three)["Deployment/chat"])
}
