package status

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// Bounds of watching.
const (
	// pace is how long changes are gathered before they are looked at. A look that
	// takes longer than that is followed by a pause as long as itself.
	pace = 500 * time.Millisecond
	// refresh is how often a target is looked at though nothing is known to have
	// changed: what a diagnosis also reads, such as nodes and quotas, isn't watched.
	refresh = 30 * time.Second
	// A look that failed is repeated, first after firstRetry, then after twice as
	// long each time.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// maxWatches bounds how many kinds and namespaces are watched at once. What is
	// beyond is seen with a refresh.
	maxWatches = 64
)

// Watch shows what a target asks about, and again whenever something that it is
// made of may have changed, until ctx ends, which is no error. Neither is a look
// that fails, unless it is the first: it is shown in the answer's place.
func (r *Reader) Watch(ctx context.Context, server metadata.Interface, target Target, show func(Answer, error) error) error {
	ctx, cancel := context.WithCancel(ctx)
	seen := &changes{server: server, mapper: r.Mapper, told: make(chan struct{}, 1), watched: map[scope]bool{}}
	defer seen.running.Wait()
	defer cancel()
	retry := firstRetry
	for first := true; ; first = false {
		started := r.Now()
		answer, err := r.Ask(ctx, target)
		if ctx.Err() != nil {
			return nil // whatever failed, the user has ended it
		}
		if err != nil && first {
			return err
		}
		if err := show(answer, err); err != nil {
			return err
		}
		next := refresh
		if err != nil {
			next, retry = retry, min(2*retry, lastRetry)
		} else {
			retry = firstRetry
			seen.follow(ctx, answer)
		}
		if !await(ctx, next, seen.told) || !await(ctx, max(pace, r.Now().Sub(started)), nil) {
			return nil
		}
		select {
		case <-seen.told: // the look to come sees it
		default:
		}
	}
}

// await waits for a time, or until it is told; false says that ctx has ended.
func await(ctx context.Context, most time.Duration, told <-chan struct{}) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-told:
	}
	return true
}

// scope is what one watch looks at. An empty namespace means all.
type scope struct {
	kind      schema.GroupVersionKind
	namespace string
}

// changes tells when something of an answer may have changed.
type changes struct {
	server  metadata.Interface
	mapper  meta.RESTMapper
	told    chan struct{}
	watched map[scope]bool
	running sync.WaitGroup

	mu sync.Mutex
	// names and owners are those of the objects in a tree; nil when every object
	// of the watched kinds matters.
	names  map[string]bool
	owners map[types.UID]bool
}

// follow watches what an answer is made of, from now until ctx ends.
func (c *changes) follow(ctx context.Context, answer Answer) {
	scopes := answer.scopes
	if answer.Tree != nil {
		names, owners := map[string]bool{}, map[types.UID]bool{}
		answer.Tree.walk(func(node *Node) {
			names[node.Object.Name] = true
			if node.uid != "" {
				owners[node.uid] = true
			}
			scopes = append(scopes, scope{node.Object.GroupVersionKind(), node.Object.Namespace})
			if node.Object.Namespace != "" {
				scopes = append(scopes,
					scope{corev1.SchemeGroupVersion.WithKind("Pod"), node.Object.Namespace},
					scope{corev1.SchemeGroupVersion.WithKind("Event"), node.Object.Namespace})
			}
		})
		c.mu.Lock()
		c.names, c.owners = names, owners
		c.mu.Unlock()
	}
	for _, each := range scopes {
		if !c.watched[each] && len(c.watched) < maxWatches {
			c.watched[each] = true
			c.watch(ctx, each)
		}
	}
}

// watch follows one kind. Only the metadata is asked for, and little of that is
// kept.
func (c *changes) watch(ctx context.Context, what scope) {
	mapping, err := c.mapper.RESTMapping(what.kind.GroupKind(), what.kind.Version)
	if err != nil {
		return // not served: there is nothing to see
	}
	namespace := what.namespace
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	informer := metadatainformer.NewFilteredMetadataInformer(c.server, mapping.Resource, namespace, 0, cache.Indexers{}, nil).Informer()
	changed := func(of any) {
		if object, is := of.(metav1.Object); is && c.matters(what.kind.Kind, object) {
			c.tell()
		}
	}
	_, handled := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, now any) { changed(now) },
		DeleteFunc: func(of any) {
			if last, is := of.(cache.DeletedFinalStateUnknown); is {
				of = last.Obj
			}
			changed(of)
		},
	})
	failed := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if !apierrors.IsForbidden(err) {
			c.tell() // the next look says what is wrong, if anything is
		}
	})
	if handled != nil || failed != nil || informer.SetTransform(least) != nil {
		return
	}
	c.running.Go(func() { informer.RunWithContext(ctx) })
}

// tell never waits: one token stands for all changes since it was taken.
func (c *changes) tell() {
	select {
	case c.told <- struct{}{}:
	default:
	}
}

// matters says whether an object belongs to what is shown: it is in the tree, an
// object of the tree owns it, or it is an event of one. An event is called after
// its object, with a dot and a number behind that (client-go's recorder).
func (c *changes) matters(kind string, object metav1.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		return true
	}
	name := object.GetName()
	if at := strings.LastIndexByte(name, '.'); kind == "Event" && at > 0 {
		name = name[:at]
	}
	if c.names[name] {
		return true
	}
	for _, owner := range object.GetOwnerReferences() {
		if c.owners[owner.UID] {
			return true
		}
	}
	return false
}

// least keeps of an object's metadata what matters needs.
func least(of any) (any, error) {
	object, is := of.(*metav1.PartialObjectMetadata)
	if !is {
		return of, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: object.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: object.Name, Namespace: object.Namespace, UID: object.UID,
		ResourceVersion: object.ResourceVersion, OwnerReferences: object.OwnerReferences,
	}}, nil
}
