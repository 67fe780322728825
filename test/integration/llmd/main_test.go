// Package llmd tests Llmd and DataScienceCluster against a real API server, with
// the controllers running in the test, charts in a directory or a repository that
// the test runs, and pods on a simulated node.
package llmd

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
)

const deadline = 2 * time.Minute

var (
	config *rest.Config
	kube   client.WithWatch
	// wire is what the operator reaches the API server through.
	wire = &bed.Wire{}
)

func TestMain(m *testing.M) {
	os.Exit(bed.Operated(m, wire, func(given *rest.Config) (err error) {
		config = given
		kube, err = bed.NewClient(config)
		return err
	}, "llmd", "datasciencecluster"))
}

// awaitLlmd waits for the one Llmd to be as wanted.
func awaitLlmd(t *testing.T, missing func(*componentsv1alpha1.Llmd) string) *componentsv1alpha1.Llmd {
	t.Helper()
	resource := &componentsv1alpha1.Llmd{}
	resource.Name = componentsv1alpha1.LlmdName
	return bed.Await(t, kube, resource, &componentsv1alpha1.LlmdList{}, func(l *componentsv1alpha1.Llmd) string {
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
	if _, is := object.(*datascienceclusterv2.DataScienceCluster); is {
		bed.AwaitGone(t, kube, object, &datascienceclusterv2.DataScienceClusterList{})
		return
	}
	bed.AwaitGone(t, kube, object, &componentsv1alpha1.LlmdList{})
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
