// Package simulatordeployment tests SimulatorDeployment against a real API
// server, with the controllers running in the test and pods on a simulated node.
package simulatordeployment

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/definitions"
)

const deadline = 2 * time.Minute

// parallel is how many tests of a group go at once: they mostly wait for pods.
const parallel = "4"

var (
	config  *rest.Config
	kube    client.WithWatch
	defined map[string]*apiextensionsv1.CustomResourceDefinition
	// wire is the operator's way to the API server.
	wire = &bed.Wire{}
)

// TestMain serves none of the optional APIs; the tests that want them install them.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	os.Exit(bed.Operated(m, wire, func(given *rest.Config) (err error) {
		if defined, err = definitions.All(context.Background()); err != nil {
			return err
		}
		config = given
		kube, err = bed.NewClient(config)
		return err
	}))
}

// namespace makes one that goes with the test.
func namespace(t *testing.T) string {
	t.Helper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "sim-"}}
	create(t, made)
	t.Cleanup(func() {
		// The test's context has ended.
		if err := kube.Delete(context.Background(), made); err != nil {
			t.Errorf("delete the namespace: %v", err)
		}
	})
	return made.Name
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// serve installs optional definitions, and removes them after the test.
func serve(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		made := defined[name].DeepCopy()
		create(t, made)
		t.Cleanup(func() { unserve(t, name) })
	}
}

// unserve removes an optional definition and waits until it is gone.
func unserve(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	gone := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	watcher, err := kube.Watch(ctx, &apiextensionsv1.CustomResourceDefinitionList{}, client.MatchingFields{"metadata.name": name})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if err := kube.Delete(ctx, gone); client.IgnoreNotFound(err) != nil {
		t.Errorf("delete %s: %v", name, err)
	}
	for kube.Get(ctx, client.ObjectKey{Name: name}, gone) == nil {
		<-watcher.ResultChan()
	}
}

// await waits until a resource is as wanted, and returns it so.
func await(t *testing.T, namespace, name string, missing func(*simv1alpha1.SimulatorDeployment) string) *simv1alpha1.SimulatorDeployment {
	t.Helper()
	found := &simv1alpha1.SimulatorDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return bed.Await(t, kube, found, &simv1alpha1.SimulatorDeploymentList{}, missing)
}

func isReady(d *simv1alpha1.SimulatorDeployment) string {
	if condition.IsCurrent(d.Status.Conditions, condition.Ready, d.Generation) {
		return ""
	}
	return told(d, condition.Ready)
}

func told(d *simv1alpha1.SimulatorDeployment, kind string) string {
	if c := condition.Find(d.Status.Conditions, kind); c != nil {
		return fmt.Sprintf("%s is %s, %s: %s", kind, c.Status, c.Reason, c.Message)
	}
	return "no condition " + kind
}
