package object

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

func refs() *rapid.Generator[Ref] {
	return rapid.Custom(func(t *rapid.T) Ref {
		kinds := []Ref{
			{Version: "v1", Kind: "Namespace"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "ConfigMap"},
			{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1beta2", Kind: "Deployment"},
			{Group: "example.com", Version: "v1", Kind: "Deployment"}, {Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		}
		ref := rapid.SampledFrom(kinds).Draw(t, "kind")
		ref.Namespace = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "namespace")
		ref.Name = rapid.SampledFrom([]string{"x", "y", "x.y"}).Draw(t, "name")
		return ref
	})
}

func TestStringAndParseRefAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ref := refs().Draw(t, "ref")
		got, err := ParseRef(ref.String())
		if err != nil || got != ref {
			t.Fatalf("%q is read as %+v (%v), want %+v", ref, got, err, ref)
		}
	})
}

func FuzzParseRef(f *testing.F) {
	f.Add("apps/v1/Deployment/a/x")
	f.Add("v1/Namespace//x")
	f.Add("////")
	f.Fuzz(func(t *testing.T, text string) {
		if ref, err := ParseRef(text); err == nil && ref.Group != "" && ref.String() != text {
			t.Errorf("%q is read as %+v, which is %q", text, ref, ref)
		}
	})
}

func TestRefInAStatusIsShort(t *testing.T) {
	raw, err := json.Marshal(Ref{Version: "v1", Kind: "Namespace", Name: "x"})
	if want := `{"version":"v1","kind":"Namespace","name":"x"}`; err != nil || string(raw) != want {
		t.Errorf("got %s (%v), want %s", raw, err, want)
	}
}

func TestApplyOrder(t *testing.T) {
	ordered := []Ref{
		{Kind: "Namespace"}, {Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, {Kind: "ResourceQuota"},
		{Kind: "ServiceAccount"}, {Group: "rbac.authorization.k8s.io", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"},
		{Kind: "ConfigMap"}, {Kind: "PersistentVolumeClaim"}, {Group: "apps", Kind: "Deployment"}, {Kind: "Service"},
		{Group: "policy", Kind: "PodDisruptionBudget"}, {Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
		{Group: "example.com", Kind: "Namespace"},
	}
	rapid.Check(t, func(t *rapid.T) {
		got := rapid.Permutation(ordered).Draw(t, "shuffled")
		Sort(got)
		if diff := cmp.Diff(ordered, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestSetsOfRefs: union and difference hold each identity once, whatever the
// versions, sorted; together they partition the old list.
func TestSetsOfRefs(t *testing.T) {
	identities := func(list []Ref) map[Ref]bool {
		all := map[Ref]bool{}
		for _, ref := range list {
			all[ref.Identity()] = true
		}
		return all
	}
	rapid.Check(t, func(t *rapid.T) {
		old, wanted := rapid.SliceOf(refs()).Draw(t, "old"), rapid.SliceOf(refs()).Draw(t, "wanted")
		union, rest := Union(old, wanted), Difference(old, wanted)
		for name, list := range map[string][]Ref{"union": union, "difference": rest} {
			if len(identities(list)) != len(list) || !slices.IsSortedFunc(list, Compare) {
				t.Fatalf("the %s has an object twice or isn't sorted: %v", name, list)
			}
		}
		for identity := range identities(append(slices.Clone(old), wanted...)) {
			inOld, inWanted := identities(old)[identity], identities(wanted)[identity]
			if identities(union)[identity] != (inOld || inWanted) || identities(rest)[identity] != (inOld && !inWanted) {
				t.Fatalf("%v is misplaced", identity)
			}
		}
		for _, ref := range union {
			if identities(wanted)[ref.Identity()] && !slices.Contains(wanted, ref) {
				t.Fatalf("%v isn't in the version that is wanted", ref)
			}
		}
	})
}

func TestTeardownGroupsAreTheReverseOfApplying(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(refs()).Draw(t, "refs")
		flat := slices.Concat(TeardownGroups(list)...)
		slices.Reverse(flat)
		Sort(list)
		if diff := cmp.Diff(list, flat, cmp.Comparer(func(a, b []Ref) bool { return slices.Equal(a, b) })); diff != "" {
			t.Fatal(diff)
		}
		for _, group := range TeardownGroups(list) {
			for _, ref := range group {
				if ref.Rank() != group[0].Rank() {
					t.Fatalf("a group of several ranks: %v", group)
				}
			}
		}
	})
}

func TestNames(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Name("chat"), "chat"},
		{Name("chat", "service"), "chat-service"},
		{Name("Chat"), "chat-460b3a7da0"},
		{Name("my.model"), "my-model-72da0a9eb3"},
		{Name("_"), "xd2e2adf717"},
		{Name(strings.Repeat("chat-", 20) + "x"), "chat-chat-chat-chat-chat-chat-chat-chat-chat-chat-ch-254c2d6622"},
		{NameWithin(14, "a-very-long-name"), "a-v-6c158842a0"},
		{LabelValue(""), ""},
		{LabelValue("GPT_4.o"), "GPT_4.o"},
		{LabelValue("meta/llama 3"), "meta-llama-3-9b8b8ecadc"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

// text is what might be asked for as a name: near the limit, with a few
// characters that names may not have.
func text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,80}[a-z0-9])?`),
		rapid.StringMatching(`[-a-zA-Z0-9_./ä]{0,80}`),
		rapid.String(),
	)
}

// TestNamesHold: every name is a valid DNS label within the limit, the same each
// time, untouched where it can be, and its own.
func TestNamesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := text().Draw(t, "a"), text().Draw(t, "b")
		limit := rapid.IntRange(12, MaxName).Draw(t, "limit")
		name := NameWithin(limit, a)
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 || len(name) > limit {
			t.Fatalf("%q of %q is no DNS label of %d bytes: %v", name, a, limit, problems)
		}
		if len(validation.IsDNS1123Label(a)) == 0 && len(a) <= limit && name != a {
			t.Fatalf("%q is called %q without need", a, name)
		}
		if NameWithin(limit, a) != name || a != b && NameWithin(limit, b) == name {
			t.Fatalf("%q and %q are both called %q, or it changes", a, b, name)
		}
	})
}

func TestLabelValuesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := text().Draw(t, "a"), text().Draw(t, "b")
		value := LabelValue(a)
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Fatalf("%q of %q is no label value: %v", value, a, problems)
		}
		if len(validation.IsValidLabelValue(a)) == 0 && value != a {
			t.Fatalf("%q becomes %q without need", a, value)
		}
		if a != b && LabelValue(b) == value {
			t.Fatalf("%q and %q both become %q", a, b, value)
		}
	})
}

func TestIdentity(t *testing.T) {
	identity := Identity{Name: "vllm", Instance: "chat", PartOf: "llm"}
	if diff := cmp.Diff(map[string]string{LabelName: "vllm", LabelInstance: "chat"}, identity.Selector()); diff != "" {
		t.Error(diff)
	}
	labels := identity.Labels()
	if labels[LabelManagedBy] != ManagedBy || labels[LabelPartOf] != "llm" || labels[LabelInstance] != "chat" {
		t.Errorf("got %v", labels)
	}
	if _, there := labels[LabelComponent]; there {
		t.Error("an empty component is a label")
	}
}
