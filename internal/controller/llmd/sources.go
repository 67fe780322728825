package llmd

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/llmd"

	toolscache "k8s.io/client-go/tools/cache"
)

// syncTimeout bounds the first read of a source.
const syncTimeout = 10 * time.Second

// sources hold the ConfigMaps and Secrets that a spec names, each watched by its
// name, so that no other one is ever held in memory or read.
type sources struct {
	manager ctrl.Manager
	// changed is told of each change.
	changed chan<- event.GenericEvent

	mu      sync.Mutex
	ctx     context.Context // of the manager; nil before it runs
	watched map[llmd.Source]*watched
}

// watched is one source.
type watched struct {
	cache cache.Cache
	end   context.CancelFunc
}

// Start implements manager.Runnable: watches end with the manager.
func (s *sources) Start(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	<-ctx.Done()
	return nil
}

// follow ends the watches of what isn't named any more.
func (s *sources) follow(named []llmd.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := map[llmd.Source]bool{}
	for _, each := range named {
		keep[each] = true
	}
	for source, each := range s.watched {
		if !keep[source] {
			each.end()
			delete(s.watched, source)
		}
	}
}

// read gives what the sources hold, without those that aren't there.
func (s *sources) read(ctx context.Context, named []llmd.Source) (map[llmd.Source]llmd.Data, error) {
	found := map[llmd.Source]llmd.Data{}
	for _, source := range named {
		from, err := s.watch(ctx, source)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", source, err)
		}
		data, err := reconcile.ReadSource(ctx, from, source)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", source, err)
		}
		found[source] = data
	}
	return found, nil
}

// watch starts the watch of a source, and waits until it was read once.
func (s *sources) watch(ctx context.Context, source llmd.Source) (client.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.watched[source]; known != nil {
		return known.cache, nil
	}
	var kind client.Object = &corev1.ConfigMap{}
	if source.Kind == llmd.KindSecret {
		kind = &corev1.Secret{}
	}
	made, err := cache.New(s.manager.GetConfig(), cache.Options{
		HTTPClient: s.manager.GetHTTPClient(), Scheme: s.manager.GetScheme(), Mapper: s.manager.GetRESTMapper(),
		DefaultNamespaces:           map[string]cache.Config{source.Namespace: {}},
		DefaultFieldSelector:        fields.OneTermEqualSelector("metadata.name", source.Name),
		DefaultTransform:            cache.TransformStripManagedFields(),
		ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return nil, err
	}
	informer, err := made.GetInformer(ctx, kind)
	if err != nil {
		return nil, err
	}
	if _, err := informer.AddEventHandler(s.tell(kind)); err != nil {
		return nil, err
	}
	if s.ctx == nil {
		return nil, fmt.Errorf("the operator is still starting")
	}
	lifetime, end := context.WithCancel(s.ctx)
	go func() { _ = made.Start(lifetime) }() // it fails only when it is started twice
	first, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !made.WaitForCacheSync(first) {
		end()
		return nil, fmt.Errorf("it can't be read; allow Slipway to list and watch it")
	}
	if s.watched == nil {
		s.watched = map[llmd.Source]*watched{}
	}
	s.watched[source] = &watched{cache: made, end: end}
	return made, nil
}

// tell passes on that something changed, and not what: the first read is no change.
func (s *sources) tell(kind client.Object) toolscache.ResourceEventHandler {
	notify := func() {
		select {
		case s.changed <- event.GenericEvent{Object: kind}:
		default: // one is on its way already
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, first bool) {
			if !first {
				notify()
			}
		},
		UpdateFunc: func(before, after any) {
			was, is := before.(client.Object), after.(client.Object)
			if was.GetResourceVersion() != is.GetResourceVersion() {
				notify()
			}
		},
		DeleteFunc: func(any) { notify() },
	}
}
