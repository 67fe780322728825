package helmrelease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/release"
)

// annotationPolicy has Helm leave an object alone when its release goes.
const (
	annotationPolicy = "helm.sh/resource-policy"
	policyKeep       = "keep"
)

// rendered is an object of a manifest. It is shared and never changed.
type rendered = *unstructured.Unstructured

// held is an object of the newest revision, and what is live of it.
type held struct {
	ref    object.Ref
	wanted *unstructured.Unstructured
	live   *unstructured.Unstructured // nil: it isn't there
	own    object.Digest
	shared bool // with another field manager
	// unserved: the cluster doesn't serve its kind.
	unserved bool
}

// parse reads the objects of a manifest, lists taken apart. Objects whose name
// the server makes up are left out: nothing tells which they are.
func parse(manifest string) ([]rendered, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	var objects []rendered
	for {
		var document json.RawMessage
		content := map[string]any{}
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err == nil && len(document) > 0 {
			err = utiljson.Unmarshal(document, &content) // whole numbers as such
		}
		if err != nil {
			return nil, fmt.Errorf("its manifest can't be read: %w", err)
		}
		if len(content) == 0 {
			continue
		}
		each := &unstructured.Unstructured{Object: content}
		if !each.IsList() {
			objects = append(objects, each)
			continue
		}
		err = each.EachListItem(func(item runtime.Object) error {
			if of, is := item.(*unstructured.Unstructured); is {
				objects = append(objects, of)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
}

// marked is a copy of a rendered object as Helm applies it: in the release's
// namespace if it names none, and with Helm's marks.
func (r *Runner) marked(want Want, wanted rendered) (*unstructured.Unstructured, bool, error) {
	made := wanted.DeepCopy()
	namespaced, err := r.options.Client.IsObjectNamespaced(made)
	unserved := meta.IsNoMatchError(err)
	if err != nil && !unserved {
		return nil, false, err
	}
	if namespaced && made.GetNamespace() == "" {
		made.SetNamespace(want.Namespace)
	}
	if !namespaced && !unserved {
		made.SetNamespace("")
	}
	labels, annotations := maps.Clone(made.GetLabels()), maps.Clone(made.GetAnnotations())
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[object.LabelManagedBy] = object.ManagedByHelm
	annotations[object.AnnotationReleaseName], annotations[object.AnnotationReleaseNamespace] = want.Name, want.Namespace
	made.SetLabels(labels)
	made.SetAnnotations(annotations)
	return made, unserved, nil
}

// belongs reports whether a live object is of the release.
func belongs(want Want, live *unstructured.Unstructured) bool {
	annotations := live.GetAnnotations()
	return annotations[object.AnnotationReleaseName] == want.Name && annotations[object.AnnotationReleaseNamespace] == want.Namespace
}

// hold finds what is live of rendered objects.
func (r *Runner) hold(ctx context.Context, engine *apply.Engine, want Want, objects []rendered, newest bool) ([]held, error) {
	list := make([]held, 0, len(objects))
	for _, each := range objects {
		if each.GetName() == "" {
			continue
		}
		made, unserved, err := r.marked(want, each)
		if err != nil {
			return nil, err
		}
		h := held{ref: object.Of(made), wanted: made, unserved: unserved}
		if !unserved {
			look, err := engine.Look(ctx, h.ref, newest)
			switch {
			case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
				h.unserved = true
			case apierrors.IsForbidden(err):
				return nil, condition.Wait(condition.ReasonForbidden, "%s can't be read: %w; allow it", h.ref.Display(), err)
			case err != nil:
				return nil, fmt.Errorf("read %s: %w", h.ref.Display(), err)
			}
			h.live, h.own, h.shared = look.Object, look.Own, look.Shared
		}
		list = append(list, h)
	}
	return list, nil
}

// lookAtObjects fills in the objects of the newest revision, their readiness and
// what drifted.
func (r *Runner) lookAtObjects(ctx context.Context, want Want, s *sight) error {
	last := s.last()
	if last.Status == release.Uninstalled {
		return nil
	}
	engine, err := r.engine(want)
	if err != nil {
		return err
	}
	objects, err := r.manifest(ctx, want.Namespace, last)
	if err != nil {
		return err
	}
	if s.objects, err = r.hold(ctx, engine, want, objects, s.newest); err != nil {
		return err
	}
	items := make([]readiness.Item, 0, len(s.objects))
	for _, each := range s.objects {
		result := readiness.Evaluate(each.live)
		if each.unserved {
			result = readiness.Result{
				Status: readiness.Missing, Reason: condition.ReasonAPINotServed,
				Message: "this cluster doesn't serve " + each.ref.GroupVersionKind().GroupVersion().String() + " " + each.ref.Kind,
			}
		}
		items = append(items, readiness.Item{Name: each.ref.Kind + "/" + each.ref.Name, Result: result})
	}
	s.readiness = readiness.RollUp(items)
	if last.Status == release.Deployed && want.Drift.Mode != release.DriftIgnore {
		s.drift, err = r.compare(ctx, engine, want, s.objects)
	}
	return err
}

// remaining names the objects of any revision of an uninstalled release that are
// still there.
func (r *Runner) remaining(ctx context.Context, want Want, s *sight) ([]string, error) {
	left, err := r.leftovers(ctx, want, s, false)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(left))
	for _, each := range left {
		names = append(names, each.ref.Kind+"/"+each.ref.Name)
	}
	slices.Sort(names)
	return names, nil
}

// leftovers are live objects that revisions of the release made: all of them, or
// only those that aren't of the newest revision. Helm deletes what is in the
// revision before and not in the next; what an attempt in between made that
// failed, or whose process died, it forgets.
func (r *Runner) leftovers(ctx context.Context, want Want, s *sight, superseded bool) ([]held, error) {
	engine, err := r.engine(want)
	if err != nil {
		return nil, err
	}
	seen := map[object.Ref]bool{}
	var left []held
	for i, stored := range slices.Backward(s.stored) {
		objects, err := r.manifest(ctx, want.Namespace, &s.stored[i])
		if err != nil {
			return nil, err
		}
		fresh := slices.DeleteFunc(slices.Clone(objects), func(o rendered) bool {
			made, unserved, err := r.marked(want, o)
			if err != nil || unserved || made.GetName() == "" {
				return true
			}
			identity := object.Of(made).Identity()
			known := seen[identity]
			seen[identity] = true
			return known || superseded && stored.Number == s.last().Number
		})
		found, err := r.hold(ctx, engine, want, fresh, s.newest)
		if err != nil {
			return nil, err
		}
		for _, each := range found {
			if each.live != nil && belongs(want, each.live) && each.live.GetAnnotations()[annotationPolicy] != policyKeep {
				left = append(left, each)
			}
		}
	}
	return left, nil
}

// sweep deletes what earlier revisions made and the newest doesn't have.
func (r *Runner) sweep(ctx context.Context, want Want, s *sight) error {
	left, err := r.leftovers(ctx, want, s, true)
	if err != nil {
		return err
	}
	engine, err := r.engine(want)
	if err != nil {
		return err
	}
	for _, each := range left {
		if each.ref.IsDefinition() || each.live.GetDeletionTimestamp() != nil {
			continue
		}
		if err := engine.Discard(ctx, each.ref, each.live, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	return nil
}
