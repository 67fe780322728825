package e2e

import (
	"fmt"
	"strings"
)

// stackFault is a stack that can't serve, in a namespace of its own.
type stackFault struct {
	name   string
	spec   string
	part   string // the condition that tells of the part at fault
	reason string
	says   string
}

var stackFaults = []stackFault{
	{
		name: "wrong-picker-image",
		spec: `{decode: {enabled: true, replicas: 1}, epp: {enabled: true, image: "ghcr.io/llm-d/llm-d-inference-scheduler:v0.0.0"}}`,
		part: "PickerReady", reason: "ImageNotFound",
		says: "image ghcr.io/llm-d/llm-d-inference-scheduler:v0.0.0 can't be pulled: not found; correct spec.epp.image",
	},
	{
		name: "wrong-gateway-image",
		spec: `{decode: {enabled: true, replicas: 1}, inferenceGateway: {enabled: true, istio: {enabled: true, image: "docker.io/istio/proxyv2:0.0.0"}}}`,
		part: "IstioGatewayReady", reason: "ImageNotFound",
		says: "image docker.io/istio/proxyv2:0.0.0 can't be pulled: not found; correct spec.inferenceGateway.istio.image",
	},
	{
		name: "wrong-argument",
		spec: `{decode: {enabled: true, replicas: 1, args: [--no-such-flag]}}`,
		part: "DecodeReady", reason: "CrashLoop",
		says: "no-such-flag",
	},
}

func (f stackFault) manifests() string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: sim.llm-d.io/v1alpha1
kind: SimulatorDeployment
metadata: {name: broken, namespace: %[1]s}
spec: %[2]s
`, f.name, f.spec)
}

// testStackFault waits until the part's condition names the fault, and looks for
// the sentence where a user would.
func testStackFault(c *localCluster, fault stackFault) {
	const broken = "simulatordeployment/broken"
	reason := func(condition string) string {
		return fmt.Sprintf(`jsonpath={.status.conditions[?(@.type==%q)].reason}`, condition)
	}
	for _, condition := range []string{fault.part, "Ready"} {
		c.kubectl("wait", "-n", fault.name, broken, "--for="+reason(condition)+"="+fault.reason, "--timeout=120s")
	}
	for what, out := range map[string]string{
		"kubectl get -o wide": c.kubectl("get", "-n", fault.name, broken, "-o", "wide"),
		"kubectl describe":    c.kubectl("describe", "-n", fault.name, broken),
		"slipway status":      c.slipway("status", "-n", fault.name, "SimulatorDeployment/broken"),
	} {
		if !strings.Contains(join(out), fault.says) {
			c.t.Errorf("%s doesn't say %q:\n%s", what, fault.says, out)
		}
	}
}
