package stack_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/cli/stack"
)

func TestPrint(t *testing.T) {
	status := stack.Status{
		Stacks: []stack.Stack{{
			Name: "xks", Ready: "1/4", Message: "component sail-operator is being installed",
			Components: []platformv1alpha1.ComponentStatus{
				{Name: "cert-manager-operator", Version: "1.15.2", Phase: platformv1alpha1.PhaseReady, Message: "it is ready"},
				{Name: "sail-operator", Version: "3.2.1", Phase: platformv1alpha1.PhaseInstalling, Message: "waiting for Istio default"},
				{Name: "kserve", Phase: platformv1alpha1.PhaseWaiting, WaitsFor: []string{"cert-manager-operator", "sail-operator"}, Message: "waiting"},
				{Name: "new"},
			},
		}},
		InferencePool: []string{"v1 (inference.networking.k8s.io)", "v1alpha2 (inference.networking.x-k8s.io)"},
		Istio:         []string{"v1.27-latest"},
	}
	want := `xks: 1/4 components are ready; component sail-operator is being installed

COMPONENT               VERSION   PHASE        WAITS FOR
cert-manager-operator   1.15.2    Ready
sail-operator           3.2.1     Installing   waiting for Istio default
kserve                  -         Waiting      cert-manager-operator, sail-operator
new                     -         -

InferencePool API: v1 (inference.networking.k8s.io), v1alpha2 (inference.networking.x-k8s.io)
Istio version: v1.27-latest
`
	var out strings.Builder
	if err := stack.Print(&out, status); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	want = "There is no PlatformStack. slipway stack apply --preset xks begins.\n\nInferencePool API: not installed\nIstio version: not installed\n"
	if err := stack.Print(&out, stack.Status{}); err != nil || out.String() != want {
		t.Errorf("%q, %v", out.String(), err)
	}
}
