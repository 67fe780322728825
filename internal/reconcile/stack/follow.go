package stack

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/render/platformstack"
	"github.com/slipway-dev/slipway/internal/render/source"
)

// Followed names objects whose changes concern a stack: one by its name, or all of
// a kind with the stack's label.
type Followed struct {
	schema.GroupVersionKind
	Namespace, Name string // empty: all with the label
}

// followed are the objects whose changes concern the stack, sorted, each once.
func (p *pass) followed() []Followed {
	var all []Followed
	for _, each := range p.stands {
		for _, live := range each.live {
			all = append(all, Followed{GroupVersionKind: live.GroupVersionKind()})
		}
		for _, name := range each.certificates {
			all = append(all, ofSource(source.Source{Kind: "Secret", Namespace: each.component.Namespace, Name: name}))
		}
		for _, hook := range slices.Concat(each.component.Before, each.component.After) {
			if hook.Apply == nil {
				of := blank(target(hook))
				all = append(all, byName(of))
			}
		}
	}
	for _, each := range p.removals {
		for _, live := range each.report.Live {
			all = append(all, Followed{GroupVersionKind: live.GroupVersionKind()})
		}
	}
	for _, each := range platformstack.Sources(p.stack) {
		all = append(all, ofSource(each))
	}
	slices.SortFunc(all, func(a, b Followed) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(all)
}

func byName(of *unstructured.Unstructured) Followed {
	return Followed{GroupVersionKind: of.GroupVersionKind(), Namespace: of.GetNamespace(), Name: of.GetName()}
}

func ofSource(s source.Source) Followed {
	return Followed{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: s.Kind}, Namespace: s.Namespace, Name: s.Name}
}
