package reconcile

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Synced has resources looked at once the informer of a kind, which is watched
// from now on, holds what there is. An object that went between its making and
// that moment has no event, and would else be missed for ever. It ends when the
// informer does.
func Synced(informers cache.Cache, kind client.Object, resources handler.MapFunc) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		go func() {
			ended := func() bool { return informer.HasSynced() || informer.IsStopped() }
			if !toolscache.WaitForCacheSync(ctx.Done(), ended) || informer.IsStopped() {
				return
			}
			for _, request := range resources(ctx, kind) {
				queue.Add(request)
			}
		}()
		return nil
	})
}
