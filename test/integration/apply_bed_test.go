package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/test/bed"
)

// stand is one test's place: a namespace, an owner, an engine whose requests
// are seen, and a client for everyone else.
type stand struct {
	*testing.T
	namespace string
	owner     *corev1.ConfigMap
	inventory *bed.Inventory
	wire      *bed.Wire
	engine    *apply.Engine
	ours      client.Client    // the engine's, over the wire
	others    client.WithWatch // someone else's
}

func newStand(t *testing.T) *stand {
	t.Helper()
	t.Parallel()
	s := &stand{T: t, wire: &bed.Wire{}, others: bed.Client(t, server)}
	s.ours = bed.Client(t, s.wire.Through(server))
	s.namespace = bed.Namespace(t, s.others)
	s.owner = bed.NewOwner(t, s.others, s.namespace, "owner")
	s.inventory = &bed.Inventory{Client: s.ours, Owner: s.owner.DeepCopy()}
	s.restart()
	return s
}

// restart makes a fresh engine, as a new process has one.
func (s *stand) restart() { s.engine = apply.New(apply.Options{Client: s.ours}) }

func (s *stand) apply(wanted ...runtime.Object) (apply.Result, error) {
	s.Helper()
	return s.engine.Apply(s.Context(), apply.Owner{Object: s.owner}, s.inventory, bed.Want(s.T, wanted...))
}

// mustApply applies without an error and gives what became of each object.
func (s *stand) mustApply(wanted ...runtime.Object) map[string]apply.Action {
	s.Helper()
	result, err := s.apply(wanted...)
	if err != nil {
		s.Fatal(err)
	}
	return actions(result)
}

func actions(result apply.Result) map[string]apply.Action {
	all := map[string]apply.Action{}
	for _, change := range result.Changes {
		all[change.Object.Kind+"/"+change.Object.Name] = change.Action
	}
	return all
}

// want fails unless got is wanted.
func want[T any](t *testing.T, wanted, got T) {
	t.Helper()
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("unlike what is wanted (-), there is (+):\n%s", diff)
	}
}

// get reads an object into the one given.
func get[T client.Object](s *stand, name string, into T) T {
	s.Helper()
	if err := s.others.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, into); err != nil {
		s.Fatal(err)
	}
	return into
}

// exists reports whether an object is there.
func (s *stand) exists(name string, obj client.Object) bool {
	s.Helper()
	err := s.others.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, obj)
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	return err == nil
}

// change is someone else's update of an object.
func (s *stand) change(obj client.Object, mutate func()) {
	s.Helper()
	mutate()
	if err := s.others.Update(s.Context(), obj, client.FieldOwner("kubectl-edit")); err != nil {
		s.Fatal(err)
	}
}

func (s *stand) create(obj client.Object) {
	s.Helper()
	if err := s.others.Create(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
}

// stored is the inventory as it is on the server, in one word for each object.
func (s *stand) stored() []string {
	s.Helper()
	inventory := &bed.Inventory{Client: s.others, Owner: s.owner.DeepCopy()}
	refs, err := inventory.Load(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	names := []string{}
	for _, ref := range refs {
		names = append(names, ref.Kind+"/"+ref.Name)
	}
	return names
}

// through gives the calls as "VERB kind name", without the namespace's path.
func through(calls []bed.Call) []string {
	lines := []string{}
	for _, call := range calls {
		lines = append(lines, call.Method+" "+tail(call.Path))
	}
	return lines
}

// versions gives each object's resourceVersion.
func versions(s *stand) map[string]string {
	s.Helper()
	all := map[string]string{}
	for _, gvk := range bed.Watched() {
		for _, each := range bed.List(s.Context(), s.T, s.others, gvk, s.namespace) {
			all[each.GetKind()+"/"+each.GetName()] = each.GetResourceVersion()
		}
	}
	return all
}
