package stack_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/cli/stack"
	engine "github.com/slipway-dev/slipway/internal/reconcile/stack"
)

func TestPrint(t *testing.T) {
	status := stack.Status{
		Stacks: []stack.Stack{{
			Name: "xks", Ready: "1/4", Message: "sail-operator: the release is being installed; 1 of 4 components are ready",
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
	want := `xks: 1/4 components are ready; sail-operator: the release is being installed

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
	for message, line := range map[string]string{
		"8 components are ready":                            "xks: 8/8 components are ready\n",
		"the component is ready; a from elsewhere":          "xks: 8/8 components are ready; a from elsewhere\n",
		"lws: 1 of 2 replicas; 1 of 4 components are ready": "xks: 8/8 components are ready; lws: 1 of 2 replicas\n",
		"Secret a in namespace b doesn't exist; create it":  "xks: 8/8 components are ready; Secret a in namespace b doesn't exist; create it\n",
	} {
		out.Reset()
		said := stack.Status{Stacks: []stack.Stack{{Name: "xks", Ready: "8/8", Message: message}}}
		if err := stack.Print(&out, said); err != nil || !strings.HasPrefix(out.String(), line) {
			t.Errorf("%q: %q, %v", message, out.String(), err)
		}
	}
	out.Reset()
	want = "There is no PlatformStack. slipway stack apply --preset xks begins.\n\nInferencePool API: not installed\nIstio version: not installed\n"
	if err := stack.Print(&out, stack.Status{}); err != nil || out.String() != want {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestPrintPlan(t *testing.T) {
	plan := []stack.Planned{
		{Name: "lws-operator", Namespace: "lws", Wave: 1, Action: engine.ActionInstall, To: "1.0.0", Images: []string{"r/lws:1"}, Gained: []string{"a", "b"}},
		{Name: "cert-manager", Namespace: "cm", Wave: 1, Action: engine.ActionLeave, Message: "it is there"},
		{
			Name: "sail-operator", Namespace: "istio-system", Wave: 2, Action: engine.ActionUpgrade, From: "3.2.1", To: "3.3.0",
			ImagesChanged: []string{"sail/sail: a -> b"}, Gained: []string{"ClusterRole s: get pods"}, Lost: []string{"ClusterRole s: get nodes"},
			Warnings: []string{"istios v1: spec.old was removed"},
		},
		{Name: "kserve", Namespace: "k", Wave: 3, Action: engine.ActionUnchanged, From: "v1", To: "v1"},
		{Name: "other", Namespace: "o", Wave: 3, Action: engine.ActionUnknown, Fault: "it isn't there"},
		{Name: "gone", Namespace: "g", Action: engine.ActionUninstall},
	}
	want := `wave 1
  install lws-operator 1.0.0 in namespace lws
      image: r/lws:1
      permissions: 2; -o yaml lists them
  leave cert-manager in namespace cm
      why: it is there
wave 2
  upgrade sail-operator 3.2.1 -> 3.3.0 in namespace istio-system
      image: sail/sail: a -> b
      permission gained: ClusterRole s: get pods
      permission lost: ClusterRole s: get nodes
      loses: istios v1: spec.old was removed
wave 3
  unchanged kserve v1 in namespace k
  unknown other in namespace o
      fault: it isn't there
in the end
  uninstall gone in namespace g
`
	var out strings.Builder
	if err := stack.PrintPlan(&out, plan); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"other: it isn't there"}, stack.Faults(plan)); diff != "" {
		t.Error(diff)
	}
}
