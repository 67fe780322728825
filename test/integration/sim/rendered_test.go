package sim_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// healthPort is where a picker that is started as rendered tells its health.
const healthPort = "9003"

// TestPickerTakesWhatIsRendered starts the real picker with the arguments and the
// configuration that the operator renders, for each that differs: its loader
// takes the plugins, and it serves as soon as it has its pool, or without one.
func TestPickerTakesWhatIsRendered(t *testing.T) {
	ownNetwork(t)
	kube, err := kubernetes.NewForConfig(plane)
	if err != nil {
		t.Fatal(err)
	}
	custom, err := dynamic.NewForConfig(plane)
	if err != nil {
		t.Fatal(err)
	}
	for _, prefill := range []bool{false, true} {
		for _, served := range []simulatordeployment.Served{
			{}, {Pool: "v1", Objectives: true}, {Pool: "v1alpha2", Objectives: true}, {Pool: "v1"},
		} {
			t.Run(fmt.Sprintf("prefill=%v,pool=%s,objectives=%v", prefill, served.Pool, served.Objectives), func(t *testing.T) {
				namespace := newNamespace(t, kube)
				args, pool := renderedPicker(t, namespace, prefill, served)
				// Without a pool the picker takes its Deployment's name from its pod's.
				picker := start(t, "env", append([]string{"POD_NAME=gaie-sim-epp-5d4f7c9b8d-x2x7q", programs.Path("epp"),
					"--kubeconfig=" + pickerAccess(t, kube, namespace)}, args...)...)
				if strings.Contains(strings.Join(args, " "), "--pool-name=") {
					picker.await(t, "the picker says that it doesn't serve", func(ctx context.Context) bool { return serving(ctx, healthPort) == notServing })
					makePool(t, custom, pool)
				}
				picker.await(t, "the picker serves", func(ctx context.Context) bool { return serving(ctx, healthPort) == isServing })
			})
		}
	}
}

// renderedPicker are the arguments that the operator gives a picker, with its
// configuration in a file, and its pool if there is one.
func renderedPicker(t *testing.T, namespace string, prefill bool, served simulatordeployment.Served) ([]string, *unstructured.Unstructured) {
	t.Helper()
	wanted := &simv1alpha1.SimulatorDeployment{Spec: simv1alpha1.SimulatorDeploymentSpec{
		Prefill: &simv1alpha1.StageConfig{Enabled: prefill}, Decode: &simv1alpha1.StageConfig{Enabled: true},
		EPP: &simv1alpha1.EPPConfig{Enabled: true},
	}}
	wanted.Namespace, wanted.Name = namespace, "sim"
	objects, err := simulatordeployment.Objects(simulatordeployment.Input{Deployment: wanted, Served: served})
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	var pool *unstructured.Unstructured
	folder := t.TempDir()
	for _, object := range objects {
		switch {
		case object.GetKind() == "InferencePool":
			pool = object
		case object.GetName() != "gaie-sim-epp":
		case object.GetKind() == "ConfigMap":
			files, _, _ := unstructured.NestedStringMap(object.Object, "data")
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		case object.GetKind() == "Deployment":
			containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			args, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		}
	}
	for i, arg := range args {
		if file, is := strings.CutPrefix(arg, "--config-file=/config/"); is {
			args[i] = "--config-file=" + filepath.Join(folder, file)
			return args, pool
		}
	}
	t.Fatalf("the picker has no configuration in /config: %v", args)
	return nil, nil
}

func makePool(t *testing.T, custom dynamic.Interface, pool *unstructured.Unstructured) {
	t.Helper()
	kind := pool.GroupVersionKind()
	resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: "inferencepools"}
	if _, err := custom.Resource(resource).Namespace(pool.GetNamespace()).Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
