// Package llmd tests Llmd and DataScienceCluster against a real API server, with
// the controllers running in the test, charts in a directory or a repository that
// the test runs, and pods on a simulated node.
package llmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
)

const deadline = 30 * time.Second

var (
	config *rest.Config
	kube   client.WithWatch
	// wire is what the operator reaches the API server through.
	wire = &bed.Wire{}
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run starts one control plane and one operator for all tests of the package.
func run(m *testing.M) (int, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	plane, err := controlplane.New(ctx, controlplane.WithNodes(1))
	if err != nil {
		return 1, err
	}
	defer plane.Stop()
	config = rest.CopyConfig(plane.Config())
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := controller.AddToScheme(scheme); err != nil {
		return 1, err
	}
	if kube, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{"../../../config/crd"}, ErrorIfPathMissing: true,
	}); err != nil {
		return 1, err
	}
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx, wire.Through(config), options()) }()
	code := m.Run()
	cancel()
	return code, errors.Join(err, <-done)
}

func options() manager.Options {
	return manager.Options{
		Controllers:    []string{"llmd", "datasciencecluster"},
		MetricsAddress: "0", HealthAddress: "0", Concurrency: 8, ShutdownGrace: 10 * time.Second,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// await watches an object until it is as wanted, and returns it so. Why it isn't
// yet is what the function returns; empty means that it is.
func await[T client.Object](t *testing.T, object T, list client.ObjectList, missing func(T) string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	watcher, err := kube.Watch(ctx, list, client.InNamespace(object.GetNamespace()))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if err := kube.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	} else if err == nil && missing(object) == "" {
		return object
	}
	last := "it never appeared"
	for {
		select {
		case event := <-watcher.ResultChan():
			found, ok := event.Object.(T)
			if !ok || found.GetName() != object.GetName() {
				continue
			}
			if last = missing(found); last == "" {
				return found
			}
		case <-ctx.Done():
			t.Fatalf("%s after %s: %s", object.GetName(), deadline, last)
		}
	}
}

// awaitLlmd waits for the one Llmd to be as wanted.
func awaitLlmd(t *testing.T, missing func(*componentsv1alpha1.Llmd) string) *componentsv1alpha1.Llmd {
	t.Helper()
	resource := &componentsv1alpha1.Llmd{}
	resource.Name = componentsv1alpha1.LlmdName
	return await(t, resource, &componentsv1alpha1.LlmdList{}, func(l *componentsv1alpha1.Llmd) string {
		if l.Status.ObservedGeneration != l.Generation {
			return "it hasn't been looked at"
		}
		if why := missing(l); why != "" {
			return why + "\n" + told(l)
		}
		return ""
	})
}

func isReady(l *componentsv1alpha1.Llmd) string {
	if condition.IsCurrent(l.Status.Conditions, condition.Ready, l.Generation) {
		return ""
	}
	return "not ready"
}

// told is what an Llmd says of itself.
func told(l *componentsv1alpha1.Llmd) string {
	text := ""
	for _, c := range l.Status.Conditions {
		text += fmt.Sprintf("  %s %s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// create makes the Llmd, which goes with the test and takes its releases along.
func create(t *testing.T, resource *componentsv1alpha1.Llmd) {
	t.Helper()
	if err := kube.Create(t.Context(), resource); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, resource) })
}

// remove deletes an object of the cluster's scope and waits until it is gone.
func remove(t *testing.T, object client.Object) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline) // also after the test's own has ended
	defer cancel()
	if err := kube.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	var list client.ObjectList = &componentsv1alpha1.LlmdList{}
	if _, is := object.(*datascienceclusterv2.DataScienceCluster); is {
		list = &datascienceclusterv2.DataScienceClusterList{}
	}
	watcher, err := kube.Watch(ctx, list)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-watcher.ResultChan():
		case <-ctx.Done():
			resource, is := object.(*componentsv1alpha1.Llmd)
			if !is {
				resource = &componentsv1alpha1.Llmd{}
			}
			t.Fatalf("%s is still there after %s:\n%s", object.GetName(), deadline, told(resource))
		}
	}
}

// change edits the Llmd's spec.
func change(t *testing.T, edit func(*componentsv1alpha1.LlmdSpec)) {
	t.Helper()
	resource := &componentsv1alpha1.Llmd{}
	resource.Name = componentsv1alpha1.LlmdName
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(resource), resource); err != nil {
		t.Fatal(err)
	}
	before := resource.DeepCopy()
	edit(&resource.Spec)
	if err := kube.Patch(t.Context(), resource, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
