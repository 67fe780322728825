package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// fieldManager signs what this package writes itself.
const fieldManager = "slipway"

// stage is when a hook is done.
type stage string

const (
	stageBefore stage = "before"
	stageAfter  stage = "after"
)

// hookLook is how soon an object that a hook waits for is looked at again where no
// watch tells of it.
const hookLook = 10 * time.Second

// hooks does the hooks of a stage in their order, each when the one before is
// done. onlyKept does no more than to keep what was done once: objects that were
// applied, and changes that are written again.
func (p *pass) hooks(ctx context.Context, s *stand, when stage, onlyKept bool) error {
	list := s.component.Before
	if when == stageAfter {
		list = s.component.After
	}
	for _, each := range list {
		if onlyKept && !p.isKept(s, when, each) {
			continue
		}
		err := p.hook(ctx, s, when, each)
		if err == nil || onlyKept && condition.IsWait(err) && condition.Classify(err).Reason != ReasonAwaitingApproval {
			continue // what was changed is changed again when it is back
		}
		return err
	}
	return nil
}

func (p *pass) isKept(s *stand, when stage, h platformstack.Hook) bool {
	switch {
	case h.Apply != nil:
		return p.isRecorded(h.Release)
	case h.Patch != nil && !h.Patch.Keep, h.Annotate != nil && !h.Annotate.Keep, h.Wait != nil:
		return false
	}
	_, entry := s.hookStatus(when, h)
	return entry.Done
}

// hookStatus finds or makes what the status says of a hook. Another digest begins
// anew: the hook changed, or what it is done for.
func (s *stand) hookStatus(when stage, h platformstack.Hook) (int, platformv1alpha1.HookStatus) {
	name := hookName(when, h)
	wanted := platformv1alpha1.HookStatus{Name: name, Digest: object.Hash([]any{h.Hook, s.report.Config}).String()}
	for i, each := range s.status.Hooks {
		if each.Name != name {
			continue
		}
		if each.Digest != wanted.Digest {
			return i, wanted
		}
		return i, each
	}
	return -1, wanted
}

func hookName(when stage, h platformstack.Hook) string { return string(when) + "/" + h.Name }

// hasHook tells whether the component still has a hook that the status tells of.
func (s *stand) hasHook(name string) bool {
	is := func(when stage) func(platformstack.Hook) bool {
		return func(h platformstack.Hook) bool { return hookName(when, h) == name }
	}
	return slices.ContainsFunc(s.component.Before, is(stageBefore)) || slices.ContainsFunc(s.component.After, is(stageAfter))
}

func (s *stand) setHook(at int, entry platformv1alpha1.HookStatus) {
	if at < 0 {
		s.status.Hooks = append(s.status.Hooks, entry)
		return
	}
	s.status.Hooks[at] = entry
}

// hook does one hook. Its error is condition's: a Wait until it is done.
func (p *pass) hook(ctx context.Context, s *stand, when stage, h platformstack.Hook) error {
	if h.Apply != nil {
		return p.applyHook(ctx, s, h)
	}
	at, entry := s.hookStatus(when, h)
	kept := h.Patch != nil && h.Patch.Keep || h.Annotate != nil && h.Annotate.Keep
	if entry.Done && !kept {
		return nil
	}
	if entry.Since == nil {
		now := metav1.NewTime(p.options.Now())
		entry.Since = &now
	}
	err := p.onObject(ctx, s, h, entry.Since.Time)
	if err == nil {
		entry.Done = true
	}
	s.setHook(at, entry)
	return err
}

func (p *pass) applyHook(ctx context.Context, s *stand, h platformstack.Hook) error {
	m, err := p.applied(h)
	if err != nil {
		return err
	}
	want := p.wanted(h.Release, m)
	want.Timeout = s.component.Timeout
	want.TakeOwnership = s.component.Spec.Existing == platformv1alpha1.ExistingAdopt
	want.ForceConflicts, want.ToAdopt = want.TakeOwnership, toAdopt
	want.Explain = p.explain(s, ofHook(s.component, h))
	want.Hold = "it waits for an approval"
	report, err := p.hand.runner.Run(ctx, want)
	if err == nil && report.Decision.Reason == release.ReasonHeld {
		own, fault := partOf(h)
		if fault == nil {
			fault = p.approved(ctx, s, []part{own})
		}
		if fault != nil {
			s.live = append(s.live, report.Live...)
			return fault
		}
		want.Hold = ""
		report, err = p.hand.runner.Run(ctx, want)
	}
	s.acted, s.live = s.acted || report.Acted, append(s.live, report.Live...)
	s.soon(report.Again)
	if err != nil {
		return err
	}
	outcome := report.Outcome()
	switch outcome.Verdict {
	case condition.Done:
		return nil
	case condition.Stopped:
		return condition.Stop(outcome.Reason, "hook %s: %s", h.Name, outcome.Message)
	}
	return condition.Wait(ReasonHookNotDone, "hook %s: %s", h.Name, outcome.Message)
}

// target is the object that a hook is about.
func target(h platformstack.Hook) platformv1alpha1.ObjectReference {
	switch {
	case h.Wait != nil:
		return h.Wait.ObjectReference
	case h.Patch != nil:
		return h.Patch.ObjectReference
	}
	return h.Annotate.ObjectReference
}

func blank(of platformv1alpha1.ObjectReference) *unstructured.Unstructured {
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind))
	made.SetNamespace(of.Namespace)
	made.SetName(of.Name)
	return made
}

// onObject waits for an object, or changes it.
func (p *pass) onObject(ctx context.Context, s *stand, h platformstack.Hook, since time.Time) error {
	of := target(h)
	named := object.Of(blank(of)).Display()
	live := blank(of)
	err := p.hand.client.Get(ctx, client.ObjectKeyFromObject(live), live)
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return p.inTime(s, h, since, fmt.Sprintf("hook %s: %s isn't there yet", h.Name, named))
	case apierrors.IsForbidden(err):
		return condition.Wait(condition.ReasonForbidden, "hook %s: %s can't be read: %w", h.Name, named, err)
	case err != nil:
		return condition.Retry(condition.ReasonRetrying, "hook %s: read %s: %w", h.Name, named, err)
	}
	if h.Wait != nil {
		if why := unfulfilled(live, h.Wait.Condition); why != "" {
			why = named + ": " + why
			if h.Wait.Condition == "" {
				why = cmp.Or(p.explain(s, ofOthers)(ctx, []*unstructured.Unstructured{live}), why)
			}
			return p.inTime(s, h, since, fmt.Sprintf("hook %s: %s", h.Name, why))
		}
		return nil
	}
	return p.change(ctx, s, h, live, named)
}

// inTime is a wait, which says so when its time is over, and not later.
func (p *pass) inTime(s *stand, h platformstack.Hook, since time.Time, why string) error {
	s.soon(hookLook)
	if h.Wait != nil {
		timeout, err := time.ParseDuration(h.Wait.Timeout)
		left := timeout - p.options.Now().Sub(since)
		if err == nil && timeout > 0 && left <= 0 {
			return condition.Wait(ReasonHookTimedOut, "%s, after %s; it goes on when it is", why, timeout)
		}
		s.soon(left)
	}
	return condition.Wait(ReasonHookNotDone, "%s", why)
}

// unfulfilled says why an object doesn't fulfil a condition; empty if it does.
func unfulfilled(live *unstructured.Unstructured, kind string) string {
	if kind == "" {
		now := readiness.Evaluate(live)
		if now.Status == readiness.Ready {
			return ""
		}
		return now.Message
	}
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, each := range conditions {
		one, is := each.(map[string]any)
		if !is || one["type"] != kind {
			continue
		}
		if one["status"] == string(metav1.ConditionTrue) {
			return ""
		}
		return fmt.Sprintf("its condition %s isn't true: %v", kind, one["message"])
	}
	return fmt.Sprintf("it has no condition %s yet", kind)
}

// change writes what a hook changes, unless it is so already.
func (p *pass) change(ctx context.Context, s *stand, h platformstack.Hook, live *unstructured.Unstructured, named string) error {
	patch := map[string]any{}
	if h.Annotate != nil {
		annotations := map[string]any{}
		for key, value := range h.Annotate.Annotations {
			annotations[key] = value
		}
		patch["metadata"] = map[string]any{"annotations": annotations}
	} else if err := json.Unmarshal(h.Patch.Patch.Raw, &patch); err != nil {
		return condition.Stop(condition.ReasonInvalidSpec, "hook %s: its patch must be an object, such as {spec: {replicas: 2}}", h.Name)
	}
	normal, err := normalized(live.Object)
	if err != nil || isMerged(normal, patch) {
		return err
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	err = p.hand.client.Patch(ctx, live, client.RawPatch(types.MergePatchType, text), client.FieldOwner(fieldManager))
	switch {
	case err == nil:
		s.acted = true
		return nil
	case apierrors.IsNotFound(err):
		return condition.Wait(ReasonHookNotDone, "hook %s: %s isn't there yet", h.Name, named)
	case apierrors.IsForbidden(err):
		return condition.Wait(condition.ReasonForbidden, "hook %s: %w", h.Name, err)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return condition.Stop(condition.ReasonInvalidObject, "hook %s: %w", h.Name, err)
	}
	return condition.Retry(condition.ReasonApplyFailed, "hook %s: %w", h.Name, err)
}

// normalized has numbers as JSON reads them, so that values compare.
func normalized(content map[string]any) (map[string]any, error) {
	text, err := json.Marshal(runtime.DeepCopyJSON(content))
	if err != nil {
		return nil, err
	}
	read := map[string]any{}
	return read, json.Unmarshal(text, &read)
}

// isMerged reports whether a merge patch (RFC 7386) would change nothing.
func isMerged(live any, patch any) bool {
	wanted, is := patch.(map[string]any)
	if !is {
		return reflect.DeepEqual(live, patch)
	}
	content, is := live.(map[string]any)
	if !is {
		return false
	}
	for key, value := range wanted {
		has, there := content[key]
		if value == nil {
			if there {
				return false
			}
			continue
		}
		if !there || !isMerged(has, value) {
			return false
		}
	}
	return true
}
