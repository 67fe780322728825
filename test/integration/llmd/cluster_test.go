package llmd

import (
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
)

func cluster(t *testing.T, namespace string) *datascienceclusterv2.DataScienceCluster {
	t.Helper()
	return &datascienceclusterv2.DataScienceCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "default-dsc"},
		Spec: datascienceclusterv2.DataScienceClusterSpec{Components: datascienceclusterv2.Components{
			Llmd:    &componentsv1alpha1.DSCLlmd{ManagementState: componentsv1alpha1.Managed, Charts: resource(t, namespace).Spec.Charts},
			Unknown: map[string]runtime.RawExtension{"dashboard": {Raw: []byte(`{"managementState":"Managed"}`)}},
		}},
	}
}

func awaitCluster(t *testing.T, missing func(*datascienceclusterv2.DataScienceCluster) string) *datascienceclusterv2.DataScienceCluster {
	t.Helper()
	of := &datascienceclusterv2.DataScienceCluster{ObjectMeta: metav1.ObjectMeta{Name: "default-dsc"}}
	return bed.Await(t, kube, of, &datascienceclusterv2.DataScienceClusterList{}, func(c *datascienceclusterv2.DataScienceCluster) string {
		if c.Status.ObservedGeneration != c.Generation {
			return "it hasn't been looked at"
		}
		if why := missing(c); why != "" {
			if ready := condition.Find(c.Status.Conditions, condition.Ready); ready != nil {
				why += "; " + ready.Reason + ": " + ready.Message
			}
			return why
		}
		return ""
	})
}

func TestDataScienceCluster(t *testing.T) {
	made := cluster(t, "science")
	// null says to a chart that its default is not wanted.
	made.Spec.Components.Llmd.Infra.Values = raw(t, map[string]any{"settings": map[string]any{"limit": nil}})
	if err := kube.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		remove(t, made)
		// Nobody collects garbage in the background before the owner is gone.
		remove(t, &componentsv1alpha1.Llmd{ObjectMeta: metav1.ObjectMeta{Name: componentsv1alpha1.LlmdName}})
	})
	ready := awaitCluster(t, func(c *datascienceclusterv2.DataScienceCluster) string {
		if !condition.IsCurrent(c.Status.Conditions, condition.Ready, c.Generation) {
			return "not ready"
		}
		return ""
	})
	mirrored := ready.Status.Components.Llmd
	if mirrored == nil || mirrored.ManagementState != componentsv1alpha1.Managed || mirrored.ModelService == nil || mirrored.ModelService.Version != "1.0.0" || mirrored.Phase != "Ready" {
		t.Errorf("status.components.llmd is %+v", mirrored)
	}
	warned := condition.Find(ready.Status.Conditions, datascienceclusterv2.ConditionUnknownComponents)
	if warned == nil || !strings.Contains(warned.Message, "Slipway runs no component dashboard") {
		t.Errorf("no warning of dashboard: %v", warned)
	}
	awaitEvent(t, "UnknownComponents")
	kept := &unstructured.Unstructured{}
	kept.SetGroupVersionKind(datascienceclusterv2.GroupVersion.WithKind(datascienceclusterv2.KindDataScienceCluster))
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "default-dsc"}, kept); err != nil {
		t.Fatal(err)
	}
	if state, _, _ := unstructured.NestedString(kept.Object, "spec", "components", "dashboard", "managementState"); state != "Managed" {
		t.Error("the component dashboard was dropped")
	}
	before := ready.DeepCopy()
	ready.Spec.Components.Llmd.ManagementState = componentsv1alpha1.Removed
	if err := kube.Patch(t.Context(), ready, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	removed := awaitCluster(t, func(c *datascienceclusterv2.DataScienceCluster) string {
		if c.Status.Components.Llmd.ManagementState != componentsv1alpha1.Removed || c.Status.Components.Llmd.Infra != nil {
			return "still there"
		}
		if told := condition.Find(c.Status.Conditions, datascienceclusterv2.ConditionLlmdReady); told.Reason != "Removed" {
			return told.Reason
		}
		return ""
	})
	if !condition.IsTrue(removed.Status.Conditions, condition.Ready) {
		t.Error("a cluster that wants nothing isn't ready")
	}
	if left := append(deployments(t, "science"), records(t, "science")...); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// awaitEvent waits for an event with a reason about the cluster.
func awaitEvent(t *testing.T, reason string) {
	t.Helper()
	watcher, err := kube.Watch(t.Context(), &eventsv1.EventList{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	var list eventsv1.EventList
	if err := kube.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Reason == reason {
			return
		}
	}
	for event := range watcher.ResultChan() {
		if of, is := event.Object.(*eventsv1.Event); is && of.Reason == reason {
			return
		}
	}
	t.Errorf("no event %s", reason)
}

// TestTheClusterTakesNothingFromAUser: an Llmd that someone made by hand is theirs.
func TestTheClusterTakesNothingFromAUser(t *testing.T) {
	create(t, resource(t, "mine"))
	awaitLlmd(t, isReady)
	made := cluster(t, "theirs")
	if err := kube.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, made) })
	awaitCluster(t, func(c *datascienceclusterv2.DataScienceCluster) string {
		if ready := condition.Find(c.Status.Conditions, condition.Ready); ready == nil || ready.Reason != condition.ReasonOwnedByAnother {
			return "it doesn't say whose the Llmd is"
		}
		return ""
	})
	if kept := awaitLlmd(t, isReady); kept.Spec.Namespace != "mine" {
		t.Errorf("the Llmd was changed to namespace %s", kept.Spec.Namespace)
	}
}
