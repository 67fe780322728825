package apply

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
)

// establishInterval is the time between two looks at a definition. The server
// usually needs one.
const establishInterval = 50 * time.Millisecond

// establish waits until the definitions that were just applied are served, up
// to the bound of the engine, so that a controller's worker isn't held for
// long. It gives the kinds that still aren't; each is a Wait.
func (p *pass) establish(ctx context.Context) map[schema.GroupKind]bool {
	var pending map[schema.GroupKind]bool
	deadline := p.engine.clock.Now().Add(p.engine.establishTimeout)
	for i, live := range p.result.Live {
		ref := object.Of(live)
		if !ref.IsDefinition() {
			continue
		}
		newest, err := p.engine.untilEstablished(ctx, ref, live, deadline)
		if err != nil {
			p.fail(ref, err)
		} else if isEstablished(newest) {
			p.result.Live[i] = newest
			continue
		} else {
			p.fail(ref, &unwatched{after: lookSoon, error: condition.Wait(condition.ReasonDependencyNotReady,
				"%s isn't served yet; waiting until the API server has established it", ref.Display())})
		}
		if pending == nil {
			pending = make(map[schema.GroupKind]bool)
		}
		pending[definesKind(live)] = true
	}
	return pending
}

func (e *Engine) untilEstablished(ctx context.Context, ref object.Ref, live *unstructured.Unstructured, deadline time.Time) (*unstructured.Unstructured, error) {
	for !isEstablished(live) && e.clock.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return live, ctx.Err()
		case <-e.clock.After(establishInterval):
		}
		newest, err := e.readServer(ctx, ref)
		if err != nil {
			return live, explain(ref, err)
		}
		if newest == nil {
			return live, nil // deleted under us: the caller waits
		}
		live = newest.Unstructured
	}
	return live, nil
}

func isEstablished(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, each := range conditions {
		content, _ := each.(map[string]any)
		if content["type"] == "Established" {
			return content["status"] == "True"
		}
	}
	return false
}
