package simulatordeployment

import (
	"github.com/slipway-dev/slipway/internal/object"
)

// Served are the optional APIs of a cluster that a stack uses where they are
// there, each as the version to write; empty where the cluster doesn't serve it.
type Served struct {
	// Pool is the version of InferencePool: "v1" of inference.networking.k8s.io, or
	// "v1alpha2" of inference.networking.x-k8s.io.
	Pool string
	// OlderPool is the version of InferencePool that is served beside Pool, if one
	// is: a pool of it is kept, so that a picker that follows it serves until its
	// successor does.
	OlderPool string
	// Objectives tells whether InferenceObjective is served; the picker ends at its
	// start without it, if it is to follow a pool.
	Objectives bool
	// DestinationRule is the version of networking.istio.io.
	DestinationRule string
	// Gateway is the version of gateway.networking.k8s.io.
	Gateway string
}

// Optional are the kinds that a stack uses where they are served, in the order in
// which ServedOf reads them.
func Optional() []object.OptionalKind {
	return []object.OptionalKind{
		{Group: GroupInference, Resource: "inferencepools", Kind: "InferencePool", Versions: []string{"v1"}},
		{Group: GroupInferenceX, Resource: "inferencepools", Kind: "InferencePool", Versions: []string{"v1alpha2"}},
		{Group: GroupInferenceX, Resource: "inferenceobjectives", Kind: "InferenceObjective", Versions: []string{"v1alpha2"}},
		{Group: GroupIstio, Resource: "destinationrules", Kind: "DestinationRule", Versions: []string{"v1", "v1beta1"}},
		{Group: GroupGatewayAPI, Resource: "gateways", Kind: "Gateway", Versions: []string{"v1"}},
		{Group: GroupGatewayAPI, Resource: "httproutes", Kind: "HTTPRoute", Versions: []string{"v1"}},
	}
}

// ServedOf reads the versions of Optional's kinds. The Gateway API counts only as
// a whole.
func ServedOf(versions []string) Served {
	served := Served{Pool: versions[0], Objectives: versions[2] != "", DestinationRule: versions[3]}
	served.OlderPool = versions[1]
	if served.Pool == "" {
		served.Pool, served.OlderPool = versions[1], ""
	}
	if versions[4] == versions[5] {
		served.Gateway = versions[4]
	}
	return served
}
