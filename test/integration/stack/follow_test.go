package stack

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/cli/stack"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/test/bed"
)

// definition is one of a kind that has a field, or has lost it.
func definition(field string) string {
	return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fins.follow.example.com}
spec:
  group: follow.example.com
  scope: Namespaced
  names: {kind: Fin, listKind: FinList, plural: fins, singular: fin}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {size: {type: integer}` + field + `}}
`
}

// small writes a stack of manifests.
func (l *laptop) small(name, field string) string {
	l.t.Helper()
	l.write(name+"/definition.yaml", definition(field))
	l.write(name+"/settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {field: \""+field+"\"}\n")
	return l.write(name+".yaml", `apiVersion: platform.slipway.dev/v1alpha1
kind: PlatformStack
metadata: {name: `+name+`}
spec:
  components:
    - name: fins
      namespace: `+name+`
      source: {manifests: {path: `+l.dir+"/"+name+`}}
`)
}

// TestApproveAndResume: an upgrade that loses a field waits until it is approved; what
// was ended goes on.
func TestApproveAndResume(t *testing.T) {
	l := newLaptop(t)
	file := l.small("approve", ", colour: {type: string}")
	_, progress, ok := l.stack("apply", "-f", file, "--timeout", "1ms")
	if ok || strings.Count(progress, "\n") == 0 {
		t.Errorf("in no time: %s", progress)
	}
	l.must("apply", "-f", file)
	file = l.small("approve", "")
	out, _ := l.must("apply", "-f", file, "--dry-run")
	if !strings.Contains(out, "loses: fins.follow.example.com v1: spec.colour was removed") {
		t.Error(out)
	}
	if _, progress, ok = l.stack("apply", "-f", file); ok || !strings.Contains(progress, "approve it with slipway stack apply --approve fins") {
		t.Errorf("without approval: %s", progress)
	}
	if _, progress, ok = l.stack("apply", "-f", file, "--approve", "other"); ok {
		t.Errorf("with approval of another: %s", progress)
	}
	_, progress = l.must("apply", "-f", file, "--approve", "fins")
	if !strings.Contains(progress, "fins: approved: fins.follow.example.com v1: spec.colour was removed") {
		t.Error(progress)
	}
	l.must("delete", "approve")
}

// TestFollow: where an operator runs, it does the work, and the command tells of it.
func TestFollow(t *testing.T) {
	kube, l := bed.Client(t, server), newLaptop(t)
	// The operator starts only where all of its kinds are defined.
	if err := bed.Define(server); err != nil {
		t.Fatal(err)
	}
	if there, err := stack.HasOperator(t.Context(), kube, time.Now()); err != nil || there {
		t.Fatalf("an operator is there: %v, %v", there, err)
	}
	lead(t, kube)
	for age, want := range map[time.Duration]bool{0: true, time.Hour: false} {
		if there, err := stack.HasOperator(t.Context(), kube, time.Now().Add(age)); err != nil || there != want {
			t.Errorf("after %s an operator is there: %v, %v", age, there, err)
		}
	}
	operate(t)
	_, progress := l.must("apply", "-f", l.small("follow", ""), "--timeout", "10m")
	if !strings.Contains(progress, "the operator in the cluster does the work") || !strings.Contains(progress, "fins: Ready\n") {
		t.Error(progress)
	}
	if out, _ := l.must("status", "follow"); !strings.Contains(out, "follow: 1/1 components are ready") {
		t.Error(out)
	}
	if _, progress, ok := l.stack("status", "other"); ok || !strings.Contains(progress, "there is no PlatformStack other") {
		t.Error(progress)
	}
	l.must("delete", "follow", "--timeout", "10m")
	err := kube.Get(t.Context(), client.ObjectKey{Namespace: "follow", Name: "settings"}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
}

// lead plays the lease of an operator's leader for the test.
func lead(t *testing.T, kube client.Client) {
	t.Helper()
	holder, now := "nowhere_1", metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "slipway-operator.slipway.dev"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now},
	}
	if err := kube.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Delete(context.Background(), lease); err != nil {
			t.Error(err)
		}
	})
}

// operate runs the operator's controller of stacks until the test ends.
func operate(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- manager.Run(ctx, server, manager.Options{
			Controllers:    []string{"platformstack"},
			MetricsAddress: "0", HealthAddress: "0", Concurrency: 1, ShutdownGrace: 10 * time.Second,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("the operator: ", err)
		}
	})
}
