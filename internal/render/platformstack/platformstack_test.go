package platformstack_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
	"github.com/slipway-dev/slipway/internal/render/source"
)

func plain(name string, needs ...string) platformv1alpha1.Component {
	return platformv1alpha1.Component{
		Name: name, DependsOn: needs, Source: platformv1alpha1.Source{Manifests: &platformv1alpha1.ManifestsSource{Path: "/x"}},
	}
}

func stackOf(components ...platformv1alpha1.Component) *platformv1alpha1.PlatformStack {
	made := &platformv1alpha1.PlatformStack{}
	made.Name = "x"
	made.Spec.Components = components
	return made
}

func apply(name string) platformv1alpha1.Hook {
	return platformv1alpha1.Hook{Name: name, Apply: &platformv1alpha1.ApplyHook{}}
}

// names are those of all releases, wave by wave.
func names(waves [][]platformstack.Component) []string {
	var all []string
	for _, components := range waves {
		var wave []string
		for _, each := range components {
			for _, release := range each.Releases() {
				wave = append(wave, release.Namespace+"/"+release.Name)
			}
		}
		all = append(all, strings.Join(wave, " "))
	}
	return all
}

func TestWaves(t *testing.T) {
	hooked := plain("sail")
	hooked.Namespace = "istio-system"
	hooked.Hooks = &platformv1alpha1.Hooks{
		Before: []platformv1alpha1.Hook{apply("crds"), {Name: "wait", Wait: &platformv1alpha1.WaitHook{}}},
		After:  []platformv1alpha1.Hook{apply("istio")},
	}
	waves, err := platformstack.Waves(platformstack.Input{Stack: stackOf(plain("kserve", "sail", "certs"), hooked, plain("certs"))})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"certs/certs istio-system/sail-crds istio-system/sail istio-system/sail-istio", "kserve/kserve"}
	if diff := cmp.Diff(want, names(waves)); diff != "" {
		t.Error(diff)
	}
	leaving := stackOf(plain("a"))
	leaving.DeletionTimestamp = &metav1.Time{}
	if waves, err := platformstack.Waves(platformstack.Input{Stack: leaving}); err != nil || waves != nil || platformstack.Sources(leaving) != nil {
		t.Errorf("%v %v", waves, err)
	}
}

func TestWhatIsAmissIsTold(t *testing.T) {
	hooked, other := plain("a"), plain("a-b")
	hooked.Hooks = &platformv1alpha1.Hooks{Before: []platformv1alpha1.Hook{apply("b")}}
	hooked.Namespace, other.Namespace = "x", "x"
	for want, stack := range map[string]*platformv1alpha1.PlatformStack{
		"a -> b -> a: these need one another in a ring":               stackOf(plain("a", "b"), plain("b", "a")),
		"a needs none, which doesn't exist":                           stackOf(plain("a", "none")),
		"components a and a-b both have a release a-b in namespace x": stackOf(hooked, other),
	} {
		if _, err := platformstack.Waves(platformstack.Input{Stack: stack}); !condition.IsStop(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// What is amiss with one component is told there, and keeps no other.
	given, absent := plain("a"), platformv1alpha1.Component{Name: "b", Source: platformv1alpha1.Source{Chart: &platformv1alpha1.ChartSource{}}}
	given.Values = &runtime.RawExtension{Raw: []byte("{}")}
	absent.ValuesFrom = []componentsv1alpha1.ValuesReference{{Kind: "Secret", Name: "v"}}
	stack := stackOf(given, absent, plain("c"))
	waves, err := platformstack.Waves(platformstack.Input{Stack: stack})
	if err != nil {
		t.Fatal(err)
	}
	var faults []string
	for _, each := range waves[0] {
		text := ""
		if each.Fault != nil {
			text = each.Fault.Error()
		}
		faults = append(faults, text)
	}
	want := []string{"component a: manifests take no values; remove values and valuesFrom",
		"Secret v in namespace b doesn't exist; create it, or change component b.valuesFrom[0]", ""}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]source.Source{{Kind: "Secret", Namespace: "b", Name: "v"}}, platformstack.Sources(stack)); diff != "" {
		t.Error(diff)
	}
}

func TestApproved(t *testing.T) {
	stack := stackOf()
	stack.Annotations = map[string]string{platformv1alpha1.AnnotationApprove: "a=1, b=2,c, e=3+4"}
	for _, each := range []struct {
		name, digest string
		want         bool
	}{{"a", "1", true}, {"b", "2", true}, {"a", "2", false}, {"c", "", false}, {"d", "1", false}, {"e", "3", true}, {"e", "4", true}, {"e", "3+4", false}} {
		if got := platformstack.Approved(stack, each.name, each.digest); got != each.want {
			t.Errorf("%s=%s: %v", each.name, each.digest, got)
		}
	}
}

// TestTeardown: whatever the graph, what is removed one after another is never
// needed by anything that is still there, and nothing is stuck.
func TestTeardown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var components []platformv1alpha1.Component
		for i := range rapid.IntRange(1, 6).Draw(t, "components") {
			each := plain(string(rune('a' + i)))
			for j := range i {
				if rapid.Bool().Draw(t, "needs") {
					each.DependsOn = append(each.DependsOn, string(rune('a'+j)))
				}
			}
			if rapid.Bool().Draw(t, "hooked") {
				each.Hooks = &platformv1alpha1.Hooks{After: []platformv1alpha1.Hook{apply("h")}}
			}
			components = append(components, each)
		}
		stack := stackOf(components...)
		waves, err := platformstack.Waves(platformstack.Input{Stack: stack})
		if err != nil {
			t.Fatal(err)
		}
		var recorded []platformv1alpha1.StackRelease
		for _, components := range waves {
			for _, each := range components {
				recorded = platformstack.Record(recorded, each.Releases()...)
			}
		}
		if again := platformstack.Record(recorded, recorded...); len(again) != len(recorded) {
			t.Fatalf("recorded twice: %v", again)
		}
		if gone := platformstack.Removals(recorded, waves); len(gone) > 0 {
			t.Fatalf("what is wanted goes: %v", gone)
		}
		there := platformstack.Removals(recorded, nil)
		for len(there) > 0 {
			next := slices.IndexFunc(there, func(r platformv1alpha1.StackRelease) bool {
				at := slices.Index(there, r)
				return !slices.ContainsFunc(there[:at], func(former platformv1alpha1.StackRelease) bool { return platformstack.Needed(stack, r, former) })
			})
			if next < 0 {
				t.Fatalf("stuck with %v", there)
			}
			for _, component := range components {
				stillThere := slices.ContainsFunc(there, func(r platformv1alpha1.StackRelease) bool { return r.Component == component.Name })
				if stillThere && slices.Contains(component.DependsOn, there[next].Component) {
					t.Fatalf("%s goes, and %s needs it", there[next].Name, component.Name)
				}
			}
			there = slices.Delete(there, next, next+1)
		}
	})
}
