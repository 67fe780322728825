package platformstack

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/reconcile/stack"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// maxFollowed bounds the watches of one stack. What is beyond is looked at in
// intervals, as everything is.
const maxFollowed = 128

// follower watches what stacks consist of and refer to, of whatever kind, each with
// the rights of the stack's account. It reads metadata only, and holds that of no
// other object.
type follower struct {
	mapper  meta.RESTMapper
	changed chan event.GenericEvent

	mu     sync.Mutex
	ctx    context.Context // of the manager; nil before it runs
	stacks map[string]*following
}

// following are the watches of one stack.
type following struct {
	rights *rest.Config
	client metadata.Interface
	ends   map[stack.Followed]context.CancelFunc
}

func newFollower(mapper meta.RESTMapper) *follower {
	return &follower{mapper: mapper, changed: make(chan event.GenericEvent), stacks: map[string]*following{}}
}

// Start implements manager.Runnable: watches end with the manager.
func (f *follower) Start(ctx context.Context) error {
	f.mu.Lock()
	f.ctx = ctx
	f.mu.Unlock()
	<-ctx.Done()
	return nil
}

// follow has a stack watch exactly these objects from now on. What can't be watched
// (its kind isn't served yet, say) is tried again the next time.
func (f *follower) follow(name string, rights *rest.Config, wanted []stack.Followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx == nil {
		return
	}
	current := f.stacks[name]
	keep := map[stack.Followed]bool{}
	for _, each := range wanted[:min(len(wanted), maxFollowed)] {
		keep[each] = true
	}
	if current != nil {
		for each, end := range current.ends {
			if !keep[each] || current.rights != rights {
				end()
				delete(current.ends, each)
			}
		}
	}
	if len(wanted) == 0 {
		delete(f.stacks, name)
		return
	}
	if current == nil || current.rights != rights {
		client, err := metadata.NewForConfig(rights)
		if err != nil {
			return
		}
		current = &following{rights: rights, client: client, ends: map[stack.Followed]context.CancelFunc{}}
		f.stacks[name] = current
	}
	for each := range keep {
		if current.ends[each] == nil {
			f.watch(name, current, each)
		}
	}
}

// watch starts one watch.
func (f *follower) watch(name string, of *following, what stack.Followed) {
	mapping, err := f.mapper.RESTMapping(what.GroupKind(), what.Version)
	if err != nil {
		return
	}
	informer := metadatainformer.NewFilteredMetadataInformer(of.client, mapping.Resource, what.Namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		if what.Name != "" {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, what.Name).String()
			return
		}
		options.LabelSelector = platformstack.LabelStack + "=" + name
	}).Informer()
	lifetime, end := context.WithCancel(f.ctx)
	tell := func() {
		concerned := &platformv1alpha1.PlatformStack{}
		concerned.Name = name
		select {
		case f.changed <- event.GenericEvent{Object: concerned}:
		case <-lifetime.Done():
		}
	}
	_, failed := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() },
		UpdateFunc: func(before, after any) {
			was, _ := meta.Accessor(before)
			is, err := meta.Accessor(after)
			if err != nil || was.GetResourceVersion() != is.GetResourceVersion() {
				tell()
			}
		},
		DeleteFunc: func(any) { tell() },
	})
	// A kind that went, or a right that isn't there, is no news: the pass says so.
	if failed != nil || informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}) != nil {
		end()
		return
	}
	of.ends[what] = end
	go informer.RunWithContext(lifetime)
}
