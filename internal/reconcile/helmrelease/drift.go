package helmrelease

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/release"
)

// drifted is an object that isn't as it was released.
type drifted struct {
	held
	sentence string
	// mended is what to apply: what was released, with ignored fields as they are.
	mended *unstructured.Unstructured
	// foreign: it belongs to another release now, and is left alone.
	foreign bool
}

// compare finds the objects that aren't as they were released. One that nobody
// else has written and that includes all that was released needs no request; of
// any other the server is asked what an apply would change, once for each state
// of it.
func (r *Runner) compare(ctx context.Context, engine *apply.Engine, want Want, objects []held) ([]drifted, error) {
	var list []drifted
	for _, each := range objects {
		rules := rulesFor(want.Drift.Ignore, each.ref)
		if rules.all || each.unserved { // what the cluster doesn't serve can't be put back
			continue
		}
		found, err := r.compareOne(ctx, engine, want, each, rules)
		if err != nil {
			return nil, err
		}
		if found != nil {
			list = append(list, *found)
		}
	}
	return list, nil
}

func (r *Runner) compareOne(ctx context.Context, engine *apply.Engine, want Want, each held, rules rules) (*drifted, error) {
	name := each.ref.Kind + "/" + each.ref.Name
	switch {
	case each.live == nil:
		return &drifted{held: each, sentence: name + ", which is gone,", mended: each.wanted}, nil
	case each.live.GetDeletionTimestamp() != nil:
		return nil, nil //nolint:nilnil // it is made again when it is gone
	case each.live.GetAnnotations()[object.AnnotationReleaseName] != "" && !belongs(want, each.live):
		return &drifted{held: each, sentence: fmt.Sprintf("%s, which belongs to release %s/%s now,", name,
			each.live.GetAnnotations()[object.AnnotationReleaseNamespace], each.live.GetAnnotations()[object.AnnotationReleaseName]), foreign: true}, nil
	}
	mended := each.wanted
	if len(rules.paths) > 0 {
		mended = keeping(each.wanted, each.live, rules.paths)
	}
	if !each.shared && includes(each.live.Object, mended.Object) {
		return nil, nil //nolint:nilnil // no drift
	}
	checked := object.NewHasher()
	checked.Value(mended.Object)
	checked.Value(string(each.live.GetUID()))
	checked.Value(each.own.String())
	digest := checked.Sum()
	if _, known := r.checked.Get(digest); known {
		return nil, nil //nolint:nilnil // no drift
	}
	after, err := engine.Foresee(ctx, mended)
	if err != nil {
		if condition.IsStop(err) { // what someone changed can't even be put back
			return &drifted{held: each, sentence: name + ": " + err.Error(), mended: mended}, nil
		}
		return nil, err
	}
	paths := differences(apply.Essence(each.live).Object, apply.Essence(after).Object)
	paths = slices.DeleteFunc(paths, func(path string) bool { return rules.covers(path) })
	if len(paths) == 0 {
		r.checked.Add(digest, struct{}{})
		return nil, nil //nolint:nilnil // no drift
	}
	return &drifted{held: each, sentence: name + " (" + strings.Join(paths[:min(len(paths), 3)], ", ") + ")", mended: mended}, nil
}

// includes reports whether a live value has all that is wanted of it, lists in
// the same order and of the same length.
func includes(live, wanted any) bool {
	switch w := wanted.(type) {
	case map[string]any:
		l, is := live.(map[string]any)
		if !is {
			return live == nil && len(w) == 0
		}
		for key, each := range w {
			if !includes(l[key], each) {
				return false
			}
		}
		return true
	case []any:
		l, is := live.([]any)
		if !is || len(l) != len(w) {
			return live == nil && len(w) == 0
		}
		for i := range w {
			if !includes(l[i], w[i]) {
				return false
			}
		}
		return true
	case nil:
		return live == nil
	}
	return reflect.DeepEqual(live, wanted) || number(live) != "" && number(live) == number(wanted)
}

func number(value any) string {
	switch value.(type) {
	case int64, float64, int:
		raw, err := json.Marshal(value)
		if err == nil {
			return string(raw)
		}
	}
	return ""
}

// differences are the paths, as JSON pointers, at which two values differ, down
// to maps; a list counts as one.
func differences(before, after map[string]any) []string {
	var paths []string
	var walk func(path string, a, b any)
	walk = func(path string, a, b any) {
		am, aIs := a.(map[string]any)
		bm, bIs := b.(map[string]any)
		if !aIs || !bIs {
			if !reflect.DeepEqual(a, b) {
				paths = append(paths, path)
			}
			return
		}
		keys := maps.Clone(am)
		maps.Copy(keys, bm)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			walk(path+"/"+escape(key), am[key], bm[key])
		}
	}
	walk("", before, after)
	return paths
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func unescape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
}

// rules are what is left to others of one object.
type rules struct {
	all   bool
	paths []string
}

func rulesFor(ignored []release.Ignore, ref object.Ref) rules {
	var r rules
	fits := func(wanted, is string) bool { return wanted == "" || wanted == is }
	for _, each := range ignored {
		t := each.Target
		if !fits(t.Group, ref.Group) || !fits(t.Version, ref.Version) || !fits(t.Kind, ref.Kind) || !fits(t.Name, ref.Name) || !fits(t.Namespace, ref.Namespace) {
			continue
		}
		r.all = r.all || len(each.Paths) == 0
		r.paths = append(r.paths, each.Paths...)
	}
	return r
}

func (r rules) covers(path string) bool {
	return slices.ContainsFunc(r.paths, func(each string) bool { return path == each || strings.HasPrefix(path, each+"/") })
}

// keeping is what was released with some fields as they are live: to leave them
// out would make the server reset those that we own.
func keeping(wanted, live *unstructured.Unstructured, paths []string) *unstructured.Unstructured {
	kept := wanted.DeepCopy()
	for _, path := range paths {
		steps := strings.Split(strings.TrimPrefix(path, "/"), "/")
		value, there := at(live.Object, steps)
		put(kept.Object, steps, runtime.DeepCopyJSONValue(value), there)
	}
	return kept
}

func at(value any, steps []string) (any, bool) {
	for _, step := range steps {
		switch v := value.(type) {
		case map[string]any:
			next, there := v[unescape(step)]
			if !there {
				return nil, false
			}
			value = next
		case []any:
			index, err := strconv.Atoi(step)
			if err != nil || index < 0 || index >= len(v) {
				return nil, false
			}
			value = v[index]
		default:
			return nil, false
		}
	}
	return value, true
}

// put sets or removes a field. It makes no way to it: what isn't released on the
// way isn't ours.
func put(object map[string]any, steps []string, value any, there bool) {
	parent, found := at(object, steps[:len(steps)-1])
	if !found {
		return
	}
	last := steps[len(steps)-1]
	switch p := parent.(type) {
	case map[string]any:
		if _, ours := p[unescape(last)]; ours && there {
			p[unescape(last)] = value
		} else {
			delete(p, unescape(last))
		}
	case []any:
		if index, err := strconv.Atoi(last); err == nil && there && index >= 0 && index < len(p) {
			p[index] = value
		}
	}
}
