package simulatordeployment

import (
	"k8s.io/apimachinery/pkg/runtime"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/object"
)

// The groups of a mesh and of gateways that a stack uses where they are served.
const (
	GroupIstio      = "networking.istio.io"
	GroupGatewayAPI = "gateway.networking.k8s.io"
)

// WantsLoadBalancing tells whether a stack asks for a DestinationRule.
func WantsLoadBalancing(deployment *simv1alpha1.SimulatorDeployment) bool {
	return deployment.Spec.LoadBalancing != nil && deployment.Spec.LoadBalancing.Enabled
}

// WantsGatewayAPI tells whether a stack asks for a Gateway and an HTTPRoute.
func WantsGatewayAPI(deployment *simv1alpha1.SimulatorDeployment) bool {
	return deployment.Spec.Gateway != nil && deployment.Spec.Gateway.Enabled
}

// loadBalancing is one DestinationRule for each Service that leads to decode
// pods, where the cluster serves that kind.
func (s stack) loadBalancing() ([]runtime.Object, error) {
	if !WantsLoadBalancing(s.in.Deployment) || s.in.Served.DestinationRule == "" {
		return nil, nil
	}
	config := s.in.Deployment.Spec.LoadBalancing
	policy := map[string]any{"loadBalancer": map[string]any{"simple": istioAlgorithm(config.Algorithm)}}
	if pool := config.ConnectionPool; pool != nil {
		policy["connectionPool"] = map[string]any{"http": map[string]any{
			"http1MaxPendingRequests":  int64(pool.HTTP1MaxPendingRequests),
			"maxRequestsPerConnection": int64(pool.MaxRequestsPerConnection),
		}}
	}
	var objects []runtime.Object
	for _, service := range s.services() {
		if service.meta.Selector[object.LabelComponent] != string(Decode) {
			continue
		}
		name := service.meta.Name
		objects = append(objects, s.custom(Decode, GroupIstio+"/"+s.in.Served.DestinationRule, "DestinationRule",
			object.Name(name, "lb"), map[string]any{
				"host":          name + "." + s.namespace + ".svc.cluster.local",
				"trafficPolicy": runtime.DeepCopyJSON(policy),
			}))
	}
	return objects, nil
}

// istioAlgorithm is an algorithm in Istio's terms (LoadBalancerSettings.SimpleLB,
// where LEAST_CONN is the retired name of LEAST_REQUEST).
func istioAlgorithm(algorithm simv1alpha1.Algorithm) string {
	switch algorithm {
	case simv1alpha1.AlgorithmLeastRequest, simv1alpha1.AlgorithmLeastConn:
		return "LEAST_REQUEST"
	case simv1alpha1.AlgorithmRandom:
		return "RANDOM"
	default:
		return "ROUND_ROBIN"
	}
}

// gatewayAPI is a Gateway and an HTTPRoute to the pool, or to the Service where
// there is no pool.
func (s stack) gatewayAPI() ([]runtime.Object, error) {
	if !WantsGatewayAPI(s.in.Deployment) || s.in.Served.Gateway == "" {
		return nil, nil
	}
	config := s.in.Deployment.Spec.Gateway
	version := GroupGatewayAPI + "/" + s.in.Served.Gateway
	gateway := s.custom("gateway", version, "Gateway", s.gatewayName(), map[string]any{
		"gatewayClassName": text(config.ClassName, defaultClassName),
		"listeners": []any{map[string]any{
			"name": "http", "port": int64(gatewayPort), "protocol": "HTTP",
			"allowedRoutes": map[string]any{"namespaces": map[string]any{"from": "Same"}},
		}},
	})
	route := s.custom("gateway", version, "HTTPRoute", s.name(text(config.RouteName, defaultRouteName)), map[string]any{
		"parentRefs": []any{map[string]any{
			"group": GroupGatewayAPI, "kind": "Gateway", "name": s.gatewayName(),
		}},
		"rules": []any{map[string]any{
			"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/"}}},
			"backendRefs": []any{s.backend()},
			// An answer streams as long as it streams.
			"timeouts": map[string]any{"request": "0s", "backendRequest": "0s"},
		}},
	})
	return []runtime.Object{gateway, route}, nil
}

func (s stack) gatewayName() string { return s.name(defaultRouteName) }

// backend is where the HTTPRoute leads.
func (s stack) backend() map[string]any {
	if s.epp.enabled && s.in.Served.Pool != "" {
		group := GroupInference
		if s.in.Served.Pool != "v1" {
			group = GroupInferenceX
		}
		return map[string]any{
			"group": group, "kind": "InferencePool", "name": s.poolName(),
			"port": int64(s.poolPort()), "weight": int64(1),
		}
	}
	name, port := s.front()
	return map[string]any{"group": "", "kind": "Service", "name": name, "port": int64(port), "weight": int64(1)}
}
