package simulatordeployment

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1alpha1 "github.com/slipway-dev/slipway/api/meta/v1alpha1"
	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

func services(names ...string) []object.Ref {
	var refs []object.Ref
	for _, name := range names {
		refs = append(refs, object.Ref{Version: "v1", Kind: "Service", Namespace: "team", Name: name})
	}
	return refs
}

func holder(name string, refs []object.Ref) *simv1alpha1.SimulatorDeployment {
	made := &simv1alpha1.SimulatorDeployment{}
	made.Name = name
	for _, ref := range refs {
		made.Status.Inventory = append(made.Status.Inventory, metav1alpha1.InventoryEntry(ref))
	}
	return made
}

func TestTaken(t *testing.T) {
	const wayOut = "; write spec.namePrefix, such as blue-, so that both can live, or delete the other one"
	deployment := object.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "team", Name: "a"}
	for name, test := range map[string]struct {
		wanted []object.Ref
		others []*simv1alpha1.SimulatorDeployment
		want   string
	}{
		"alone":         {services("a"), nil, ""},
		"all free":      {services("a"), []*simv1alpha1.SimulatorDeployment{holder("x", services("b"))}, ""},
		"one":           {services("a", "b"), []*simv1alpha1.SimulatorDeployment{holder("x", services("b"))}, "the name b is taken by SimulatorDeployment x"},
		"two":           {services("b", "c", "a"), []*simv1alpha1.SimulatorDeployment{holder("x", services("a", "b"))}, "the names a and b are taken by SimulatorDeployment x"},
		"five":          {services("a", "b", "c", "d", "e"), []*simv1alpha1.SimulatorDeployment{holder("x", services("a", "b", "c", "d", "e"))}, "the names a, b, c, d and e are taken by SimulatorDeployment x"},
		"seven":         {services("g", "b", "c", "d", "e", "f", "a"), []*simv1alpha1.SimulatorDeployment{holder("x", services("a", "b", "c", "d", "e", "f", "g"))}, "the names a, b, c, d, e and 2 more are taken by SimulatorDeployment x"},
		"once per name": {append(services("a"), deployment), []*simv1alpha1.SimulatorDeployment{holder("x", append(services("a"), deployment))}, "the name a is taken by SimulatorDeployment x"},
		"another kind":  {services("a"), []*simv1alpha1.SimulatorDeployment{holder("x", []object.Ref{deployment})}, ""},
		"the first of two others": {services("a", "b"), []*simv1alpha1.SimulatorDeployment{holder("y", services("a")), holder("x", services("b"))},
			"the name b is taken by SimulatorDeployment x"},
	} {
		t.Run(name, func(t *testing.T) {
			err := taken(test.wanted, test.others)
			if test.want == "" {
				if err != nil {
					t.Errorf("got %v, want free", err)
				}
				return
			}
			if !condition.IsWait(err) || err.Error() != test.want+wayOut {
				t.Errorf("got  %v\nwant %s", err, test.want+wayOut)
			}
			if outcome := condition.Classify(err); !isTaken(outcome.Reason) {
				t.Errorf("its reason is %s", outcome.Reason)
			}
		})
	}
}

// TestTakenInAnotherVersion: a name is held whatever version its object was
// written in.
func TestTakenInAnotherVersion(t *testing.T) {
	rule := func(version string) []object.Ref {
		return []object.Ref{{Group: "networking.istio.io", Version: version, Kind: "DestinationRule", Namespace: "team", Name: "lb"}}
	}
	if taken(rule("v1"), []*simv1alpha1.SimulatorDeployment{holder("x", rule("v1beta1"))}) == nil {
		t.Error("the name is free")
	}
}

func TestIsTaken(t *testing.T) {
	for reason, want := range map[string]bool{
		reasonNamesTaken: true, condition.ReasonOwnedByAnother: true, condition.ReasonProgressing: false, "": false,
	} {
		if isTaken(reason) != want {
			t.Errorf("%q: got %v", reason, !want)
		}
	}
	if isTaken(condition.Classify(errors.New("other")).Reason) {
		t.Error("any error waits for names")
	}
}

func TestServedOf(t *testing.T) {
	const none = ""
	for _, test := range []struct {
		versions []string // pool v1, pool v1alpha2, objectives, rule, gateway, route
		want     simulatordeployment.Served
	}{
		{[]string{none, none, none, none, none, none}, simulatordeployment.Served{}},
		{[]string{"v1", "v1alpha2", "v1alpha2", "v1", "v1", "v1"}, simulatordeployment.Served{Pool: "v1", OlderPool: "v1alpha2", Objectives: true, DestinationRule: "v1", Gateway: "v1"}},
		{[]string{none, "v1alpha2", none, "v1beta1", none, none}, simulatordeployment.Served{Pool: "v1alpha2", DestinationRule: "v1beta1"}},
		{[]string{none, none, "v1alpha2", none, "v1", none}, simulatordeployment.Served{Objectives: true}},
		{[]string{none, none, none, none, none, "v1"}, simulatordeployment.Served{}},
	} {
		t.Run(fmt.Sprint(test.versions), func(t *testing.T) {
			if diff := cmp.Diff(test.want, simulatordeployment.ServedOf(test.versions)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if len(simulatordeployment.Optional()) != 6 {
		t.Errorf("servedOf reads 6 kinds of %d", len(simulatordeployment.Optional()))
	}
}
