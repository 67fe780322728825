package simulatordeployment

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/object"
)

// reasonNamesTaken is the reason of a resource that waits for another's names.
const reasonNamesTaken = "NamesTaken"

// lookForNames is how often a resource looks for names that another one has.
const lookForNames = 10 * time.Second

// isTaken tells whether a resource with that reason waits for a name.
func isTaken(reason string) bool {
	return reason == reasonNamesTaken || reason == condition.ReasonOwnedByAnother
}

// claims are held while names are claimed: of two resources of a namespace that
// want one name, one is the first. Namespaces don't wait for one another, or
// only for the few that share a stripe.
type claims struct {
	seed    maphash.Seed
	stripes *[32]stripe
}

// stripe is for the namespaces of one part of the hashes.
type stripe struct {
	sync.Mutex
	// unsure are the namespaces in which the last claim failed: it may have been
	// written all the same, and the cache may not show it yet.
	unsure sets.Set[string]
}

func newClaims() claims {
	made := claims{seed: maphash.MakeSeed(), stripes: &[32]stripe{}}
	for i := range made.stripes {
		made.stripes[i].unsure = sets.New[string]()
	}
	return made
}

func (c claims) of(namespace string) *stripe {
	return &c.stripes[maphash.String(c.seed, namespace)%uint64(len(c.stripes))]
}

// maxNamesTold bounds how many names a message lists.
const maxNamesTold = 5

// taken is what to wait for when one of the others has objects of names that are
// wanted; nil when all are free.
func taken(wanted []object.Ref, others []*simv1alpha1.SimulatorDeployment) error {
	slices.SortFunc(others, func(a, b *simv1alpha1.SimulatorDeployment) int { return strings.Compare(a.Name, b.Name) })
	for _, other := range others {
		held := map[object.Ref]bool{}
		for _, entry := range other.Status.Inventory {
			held[object.Ref(entry).Identity()] = true
		}
		var names []string
		for _, ref := range wanted {
			if held[ref.Identity()] && !slices.Contains(names, ref.Name) {
				names = append(names, ref.Name)
			}
		}
		if len(names) > 0 {
			return condition.Wait(reasonNamesTaken,
				"%s taken by SimulatorDeployment %s; write spec.namePrefix, such as blue-, so that both can live, or delete the other one",
				listed(names), other.Name)
		}
	}
	return nil
}

func refsOf(wanted []*unstructured.Unstructured) []object.Ref {
	refs := make([]object.Ref, 0, len(wanted))
	for _, each := range wanted {
		refs = append(refs, object.Of(each))
	}
	return refs
}

// left says which objects of a former spec aren't gone yet; nothing when all are.
func left(facts *facts) string {
	var held []object.Ref
	for _, entry := range facts.deployment.Status.Inventory {
		held = append(held, object.Ref(entry))
	}
	former := object.Difference(held, refsOf(facts.wanted))
	switch len(former) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("waiting until %s of the former spec is gone", former[0].Display())
	default:
		return fmt.Sprintf("waiting until %s and %d more of the former spec are gone", former[0].Display(), len(former)-1)
	}
}

// listed is "the names a, b and 3 more are", with its verb.
func listed(names []string) string {
	slices.Sort(names)
	switch {
	case len(names) == 1:
		return "the name " + names[0] + " is"
	case len(names) > maxNamesTold:
		return fmt.Sprintf("the names %s and %d more are", strings.Join(names[:maxNamesTold], ", "), len(names)-maxNamesTold)
	default:
		return fmt.Sprintf("the names %s and %s are", strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
	}
}
