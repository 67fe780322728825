package simulatordeployment

import (
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/definitions"

	"github.com/slipway-dev/slipway/internal/object"
)

// TestDefinitionsAreReadOnce: what is known isn't read again until it changed.
func TestDefinitionsAreReadOnce(t *testing.T) {
	wire := &bed.Wire{}
	reader, err := client.New(wire.Through(config), client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	served := &reconcile.Served{Server: reader, Kinds: []object.OptionalKind{
		{Group: "networking.istio.io", Resource: "destinationrules", Kind: "DestinationRule", Versions: []string{"v1"}},
		{Group: "gateway.networking.k8s.io", Resource: "gateways", Kind: "Gateway", Versions: []string{"v1"}},
	}}
	expect := func(reads int, want ...string) {
		t.Helper()
		got, err := served.Versions(t.Context())
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %q and %v, want %q", got, err, want)
		}
		if calls := wire.Take(); len(calls) != reads {
			t.Errorf("%d requests, want %d: %v", len(calls), reads, calls)
		}
	}
	expect(2, "", "")
	serve(t, definitions.DestinationRules)
	awaitEstablished(t, definitions.DestinationRules)
	expect(0, "", "")
	served.Changed(definitions.DestinationRules)
	expect(1, "v1", "")
	expect(0, "v1", "")
}
