package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
)

// done is what became of one wanted object.
type done struct {
	live    *unstructured.Unstructured // nil: it isn't there
	action  Action
	message string
	err     error
}

// applyOne brings one object to what is wanted. A conflict means that someone
// wrote between our read and our write: it is read again, from the server, and
// decided again, up to the bound.
func (e *Engine) applyOne(ctx context.Context, owner identity, each item) done {
	intent := intentOf(owner, each.wanted)
	read := e.read
	if _, known := e.memory.get(each.ref); !known {
		if err := e.checkScope(each); err != nil {
			return done{err: err}
		}
		read = e.readNew
	}
	var last done
	for range attempts {
		live, err := read(ctx, each.ref)
		if known, lags := e.lag(each.ref, live); err == nil && lags {
			if known.intent == intent {
				return known.asWritten()
			}
			live, err = e.readServer(ctx, each.ref)
		}
		if err != nil {
			return done{err: explain(each.ref, err)}
		}
		if last = e.decide(ctx, owner, each, intent, live); !apierrors.IsConflict(last.err) || ctx.Err() != nil {
			return last
		}
		e.memory.forget(each.ref)
		read = e.readServer
	}
	return last
}

// lag reports whether the cache hasn't seen our own last write of an object
// yet: then it proves nothing, and what the server returned to that write
// stands.
func (e *Engine) lag(ref object.Ref, live *snapshot) (record, bool) {
	if live == nil || !live.cached {
		return record{}, false
	}
	known, there := e.memory.get(ref)
	return known, there && known.written != nil && older(live.GetResourceVersion(), known.version)
}

// asWritten is what became of an object that is as we wrote it, and that the cache
// hasn't got yet.
func (r record) asWritten() done {
	live := &unstructured.Unstructured{}
	err := live.UnmarshalJSON(r.written)
	return done{live: live, action: Unchanged, err: err}
}

// intentOf is the hash of what is wanted and for whom.
func intentOf(owner identity, wanted *unstructured.Unstructured) object.Digest {
	h := object.NewHasher()
	h.Value(string(owner.uid))
	h.Value(wanted.Object)
	return h.Sum()
}

// decide skips an object when neither our intent nor our fields of it have
// changed since the last look, and else applies it if it may.
func (e *Engine) decide(ctx context.Context, owner identity, each item, intent object.Digest, live *snapshot) done {
	if live == nil {
		return e.write(ctx, owner, each, intent, nil)
	}
	if live.GetDeletionTimestamp() != nil {
		return done{live: live.Unstructured, err: condition.Wait(condition.ReasonTerminating,
			"%s is being deleted; it is made again as soon as it is gone", each.ref.Display())}
	}
	if known, there := e.memory.get(each.ref); there && known.intent == intent && known.uid == live.GetUID() {
		if e.unchanged(each.ref, known, live) {
			return done{live: live.Unstructured, action: Unchanged}
		}
	}
	if err := owner.mayApply(live.Unstructured, each.wanted); err != nil {
		return done{live: live.Unstructured, err: err}
	}
	return e.write(ctx, owner, each, intent, live)
}

// unchanged reports whether our fields of a live object are as we left them. A
// resourceVersion that we know answers without a look at the fields.
func (e *Engine) unchanged(ref object.Ref, known record, live *snapshot) bool {
	version := live.GetResourceVersion()
	if version != known.version && e.ownFields(live) != known.fields {
		return false
	}
	if version != known.version || known.written != nil {
		known.version, known.written = version, nil
		e.memory.put(ref, known)
	}
	return true
}

// checkScope refuses an object whose namespace doesn't fit its kind: the client
// would drop a needless one, and the inventory then name another object.
func (e *Engine) checkScope(each item) error {
	namespaced, err := e.client.IsObjectNamespaced(each.wanted)
	switch {
	case err != nil:
		return explain(each.ref, err)
	case namespaced && each.ref.Namespace == "":
		return condition.Stop(condition.ReasonInvalidObject, "%s has no namespace; set metadata.namespace", each.ref.Display())
	case !namespaced && each.ref.Namespace != "":
		return condition.Stop(condition.ReasonInvalidObject,
			"a %s belongs to no namespace; remove metadata.namespace from %s", each.ref.Kind, each.ref.Name)
	}
	return nil
}

// write applies an object on the server. One that is there is named by its UID,
// so that no other of its name is written in its place, and our fields are
// taken by force; one that isn't there is only ever created, so that an object
// of someone else's that is there all the same is a conflict.
func (e *Engine) write(ctx context.Context, owner identity, each item, intent object.Digest, live *snapshot) done {
	if replicas, yes := e.replicasToHandOver(each.wanted, live); yes {
		if err := e.handOver(ctx, each.ref, live, replicas); err != nil {
			return done{live: live.Unstructured, err: explain(each.ref, err)}
		}
	}
	marked := owner.mark(each.wanted)
	options := []client.ApplyOption{e.manager}
	if live != nil {
		marked.SetUID(live.GetUID())
		options = append(options, client.ForceOwnership)
	} else {
		marked.SetResourceVersion(onlyCreate)
	}
	err := e.send(ctx, each.ref, marked, options...)
	if err != nil && live != nil {
		mended, mendErr := e.mend(ctx, owner, each, live, err)
		if mendErr != nil {
			return done{live: live.Unstructured, err: explain(each.ref, mendErr)}
		}
		if mended {
			marked = owner.mark(each.wanted)
			marked.SetUID(live.GetUID())
			err = e.send(ctx, each.ref, marked, options...)
		}
	}
	if err != nil {
		return e.refused(ctx, owner, each, intent, live, err)
	}
	after := newSnapshot(marked)
	known := record{intent: intent, uid: after.GetUID(), version: after.GetResourceVersion(), fields: e.ownFields(after)}
	if e.cache != nil {
		if known.written, err = after.MarshalJSON(); err != nil {
			return done{live: after.Unstructured, err: explain(each.ref, err)}
		}
	}
	e.memory.put(each.ref, known)
	return done{live: after.Unstructured, action: actionOf(live, after)}
}

// onlyCreate is the resource version to name in an apply that may create an object
// and never change one: an object that is there has another one, which is a
// conflict, and for one that isn't the server gives none a look. No object has
// it: etcd counts from it before its first write.
const onlyCreate = "1"

func actionOf(before, after *snapshot) Action {
	switch {
	case before == nil:
		return Created
	case before.GetResourceVersion() == after.GetResourceVersion():
		return Unchanged
	default:
		return Configured
	}
}

func (e *Engine) send(ctx context.Context, ref object.Ref, obj *unstructured.Unstructured, options ...client.ApplyOption) error {
	ctx, cancel := context.WithTimeout(ctx, e.callTimeout)
	defer cancel()
	err := e.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), options...)
	e.onWrite(Write{Verb: "apply", Object: ref, Err: err})
	return err
}

// refused handles an apply that the server didn't take: an object of a kind
// that may be replaced is, when the server names an immutable field.
func (e *Engine) refused(ctx context.Context, owner identity, each item, intent object.Digest, live *snapshot, err error) done {
	e.memory.forget(each.ref)
	failed := done{err: explain(each.ref, err)}
	if live == nil {
		return failed
	}
	failed.live = live.Unstructured
	propagation, replaceable := replaceableKinds[each.ref.GroupKind()]
	field := immutableField(err)
	if !replaceable || field == "" || !owner.owns(live.Unstructured) {
		return failed
	}
	if err := e.delete(ctx, each.ref, live, propagation); err != nil && !apierrors.IsNotFound(err) {
		failed.err = explain(each.ref, err)
		return failed
	}
	if propagation == metav1.DeletePropagationForeground || len(live.GetFinalizers()) > 0 || endsSlowly(each.ref) {
		return done{live: live.Unstructured, err: condition.Wait(condition.ReasonProgressing,
			"%s is being replaced, since %s can't be changed; waiting until the old one is gone", each.ref.Display(), field)}
	}
	again := e.write(ctx, owner, each, intent, nil)
	if again.err == nil {
		again.action, again.message = Configured, fmt.Sprintf("replaced, since %s can't be changed", field)
	}
	return again
}

// endsSlowly tells whether an object is still there after its deletion was taken:
// a pod has its grace.
func endsSlowly(ref object.Ref) bool { return ref.Group == "" && ref.Kind == "Pod" }

// delete removes exactly the object that was read: another one of its name, or
// one that was changed since, is left alone.
func (e *Engine) delete(ctx context.Context, ref object.Ref, live *snapshot, propagation metav1.DeletionPropagation) error {
	ctx, cancel := context.WithTimeout(ctx, e.callTimeout)
	defer cancel()
	uid, version := live.GetUID(), live.GetResourceVersion()
	err := e.client.Delete(ctx, live.Unstructured,
		client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(propagation))
	e.onWrite(Write{Verb: "delete", Object: ref, Err: err})
	e.memory.forget(ref)
	return err
}
