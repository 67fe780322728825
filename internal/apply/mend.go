package apply

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/object"
)

// mendSuffix is what the field manager that clears a list adds to ours.
const mendSuffix = "-mend"

// mend is for the drift that server-side apply can't undo. When someone changes
// the key of a list's item (the port of a Service's port), the item becomes
// another one and theirs; our apply adds ours beside it, and the server refuses
// the two together. So the lists that the server names are written whole, as we
// render them. It reports whether anything was written, after which the apply
// is to be tried again.
//
// To be interrupted after it does no harm: the next pass finds our item changed
// and applies. Other lists, and an object that isn't ours, are left alone.
func (e *Engine) mend(ctx context.Context, owner identity, each item, live *snapshot, refusal error) (bool, error) {
	if !apierrors.IsInvalid(refusal) || !owner.owns(live.Unstructured) {
		return false, nil
	}
	patch := map[string]any{}
	for _, path := range refusedLists(refusal) {
		wanted, rendered, err := unstructured.NestedSlice(each.wanted.Object, path...)
		if err != nil || !rendered {
			continue
		}
		there, _, _ := unstructured.NestedSlice(live.Object, path...)
		if len(there) == 0 || reflect.DeepEqual(there, wanted) {
			continue
		}
		if err := unstructured.SetNestedSlice(patch, wanted, path...); err != nil {
			return false, nil //nolint:nilerr // a list within a list can't be told from its path
		}
	}
	if len(patch) == 0 {
		return false, nil
	}
	patch["metadata"] = map[string]any{"uid": string(live.GetUID())}
	return true, e.sendMerge(ctx, each.ref, live, patch)
}

func (e *Engine) sendMerge(ctx context.Context, ref object.Ref, live *snapshot, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.callTimeout)
	defer cancel()
	err = e.client.Patch(ctx, live.Unstructured.DeepCopy(), client.RawPatch(types.MergePatchType, body), e.manager+mendSuffix)
	e.onWrite(Write{Verb: "patch", Object: ref, Err: err})
	return err
}

// refusedLists are the paths of the lists that a refusal names, as ["spec",
// "ports"] for "spec.ports[1].name"; of lists within lists, the outermost.
func refusedLists(refusal error) [][]string {
	var status apierrors.APIStatus
	if !errors.As(refusal, &status) || status.Status().Details == nil {
		return nil
	}
	var named []string
	for _, cause := range status.Status().Details.Causes {
		if list, _, is := strings.Cut(cause.Field, "["); is && !slices.Contains(named, list) {
			named = append(named, list)
		}
	}
	slices.Sort(named)
	paths := make([][]string, len(named))
	for i, list := range named {
		paths[i] = strings.Split(list, ".")
	}
	return paths
}
