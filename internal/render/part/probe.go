package part

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Probes are a container's three probes.
type Probes struct {
	Startup, Readiness, Liveness *corev1.Probe
}

// HTTP is the name of the port on which a server answers its clients.
const HTTP = "http"

// HTTPProbes probes paths on a named port. The server may take startupSeconds
// until readyPath answers for the first time; loading a model is not a reason to
// be killed. livePath must answer also under full load.
func HTTPProbes(port, readyPath, livePath string, startupSeconds int32) Probes {
	return probes(httpGet(port, readyPath), httpGet(port, livePath), startupSeconds)
}

// GRPCProbes asks gRPC's health service, with no service's name, on a port.
func GRPCProbes(port, startupSeconds int32) Probes {
	ask := corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: port}}
	return probes(ask, ask, startupSeconds)
}

// TCPProbes asks only whether the port "http" accepts a connection: all that can
// be asked of a server whose protocol isn't known.
func TCPProbes(startupSeconds int32) Probes {
	connect := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(HTTP)}}
	return probes(connect, connect, startupSeconds)
}

func httpGet(port, path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path:   path,
		Port:   intstr.FromString(port),
		Scheme: corev1.URISchemeHTTP,
	}}
}

func probes(ready, live corev1.ProbeHandler, startupSeconds int32) Probes {
	return Probes{
		// Every second: the time from "loaded" to "served" is the user's to lose.
		Startup: &corev1.Probe{
			ProbeHandler: ready, PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: startupSeconds,
		},
		Readiness: &corev1.Probe{
			ProbeHandler: ready, PeriodSeconds: 5, TimeoutSeconds: 5, FailureThreshold: 3,
		},
		// A server under load is slow, not dead: a minute of silence before it is
		// restarted, since a restart loads the model again.
		Liveness: &corev1.Probe{
			ProbeHandler: live, PeriodSeconds: 10, TimeoutSeconds: 10, FailureThreshold: 6,
		},
	}
}
