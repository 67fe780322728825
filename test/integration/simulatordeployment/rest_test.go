package simulatordeployment

import (
	"testing"
	"time"

	"github.com/slipway-dev/slipway/test/definitions"
)

const (
	// quiet is how long the operator makes no request before it counts as at rest.
	quiet = 3 * time.Second
	// watched is how long it is watched then.
	watched = 20 * time.Second
)

// TestAtRest: a stack with all that a cluster may serve, once it is ready, costs
// the API server nothing but open watches.
func TestAtRest(t *testing.T) {
	serve(t, definitions.InferencePools, definitions.InferenceObjectives, definitions.DestinationRules)
	ns := namespace(t)
	create(t, sample(t, "_full", ns))
	await(t, ns, "llm-sim-full", isReady)
	if len(wire.TakeWrites()) == 0 {
		t.Fatal("the operator made a stack and wrote nothing; this test no longer sees its requests")
	}
	for begin := time.Now(); ; {
		<-time.After(quiet) // silence has no event
		calls := wire.Take()
		if len(calls) == 0 {
			break
		}
		if time.Since(begin) > deadline {
			t.Fatalf("the operator isn't at rest after %s: %v", deadline, calls)
		}
	}
	<-time.After(watched)
	if calls := wire.Take(); len(calls) > 0 {
		t.Errorf("at rest the operator made %d requests: %v", len(calls), calls)
	}
}
