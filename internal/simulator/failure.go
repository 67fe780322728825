package simulator

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/openai"
)

// failures are the kinds of failure that can be injected, each with the answer
// that a real engine or gateway gives.
var failures = map[string]struct {
	status  int
	message string
}{
	"rate_limit":      {http.StatusTooManyRequests, "Rate limit reached (injected failure). Try again later."},
	"invalid_api_key": {http.StatusUnauthorized, "Incorrect API key provided (injected failure)."},
	"context_length":  {http.StatusBadRequest, "This model's maximum context length was exceeded (injected failure). Please reduce the length of the messages or completion"},
	"server_error":    {http.StatusServiceUnavailable, "The server is overloaded or not ready yet (injected failure)."},
	"invalid_request": {http.StatusBadRequest, "Invalid request (injected failure)."},
	"model_not_found": {http.StatusNotFound, "The model does not exist (injected failure)."},
}

// failureNames lists the kinds in order.
func failureNames() string { return strings.Join(failureKinds(), ", ") }

func failureKinds() []string {
	kinds := make([]string, 0, len(failures))
	for name := range failures {
		kinds = append(kinds, name)
	}
	slices.Sort(kinds)
	return kinds
}

// inject returns the failure that this request shall meet, or nil.
func inject(config *Config, rng *rand.Rand) *openai.Error {
	if config.FailureRate == 0 || rng.IntN(100) >= config.FailureRate {
		return nil
	}
	kinds := config.FailureTypes
	if len(kinds) == 0 {
		kinds = failureKinds()
	}
	failure := failures[kinds[rng.IntN(len(kinds))]]
	return openai.Errorf(failure.status, "%s", failure.message)
}
