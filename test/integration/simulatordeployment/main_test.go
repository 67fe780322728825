// Package simulatordeployment tests SimulatorDeployment against a real API
// server, with the controllers running in the test and pods on a simulated node.
package simulatordeployment

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
	"github.com/slipway-dev/slipway/test/definitions"
)

const deadline = 60 * time.Second

// parallel is how many tests of a group go at once: they mostly wait for pods.
const parallel = "4"

var (
	config  *rest.Config
	kube    client.WithWatch
	defined map[string]*apiextensionsv1.CustomResourceDefinition
	// wire is the operator's way to the API server.
	wire = &bed.Wire{}
)

func TestMain(m *testing.M) {
	flag.Parse()
	err := flag.Set("test.parallel", parallel)
	code := 1
	if err == nil {
		code, err = run(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run starts one control plane and one operator for all tests of the package. It
// serves none of the optional APIs; the tests that want them install them.
func run(m *testing.M) (int, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if defined, err = definitions.All(ctx); err != nil {
		return 1, err
	}
	plane, err := controlplane.New(ctx, controlplane.WithNodes(1))
	if err != nil {
		return 1, err
	}
	defer plane.Stop()
	config = plane.Config()
	if kube, err = newClient(config); err != nil {
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
		MetricsAddress: "0", HealthAddress: "0", Concurrency: 8, ShutdownGrace: 10 * time.Second,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(controller.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
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

// await watches a resource until it is as wanted, and returns it so. Why it isn't
// yet is what the function returns; empty means that it is.
func await(t *testing.T, namespace, name string, missing func(*simv1alpha1.SimulatorDeployment) string) *simv1alpha1.SimulatorDeployment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	watcher, err := kube.Watch(ctx, &simv1alpha1.SimulatorDeploymentList{}, client.InNamespace(namespace),
		client.MatchingFields{"metadata.name": name})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	last := "it never appeared"
	for {
		select {
		case event := <-watcher.ResultChan():
			found, ok := event.Object.(*simv1alpha1.SimulatorDeployment)
			if !ok {
				continue
			}
			if last = missing(found); last == "" {
				return found
			}
		case <-ctx.Done():
			t.Fatalf("%s after %s: %s", name, deadline, last)
		}
	}
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
