package platformstack

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
)

// own are the kinds that each controller needs, by the files of their definitions,
// and one that it is to report of.
var own = map[string]struct {
	definitions []string
	reported    schema.GroupVersionKind
	spec        map[string]any
	name        string
}{
	"llmmodel": {
		[]string{"llm.example.com_llmmodels", "llm.example.com_llmdeployments"},
		schema.GroupVersionKind{Group: "llm.example.com", Version: "v1alpha1", Kind: "LLMModel"},
		map[string]any{"modelName": "One", "image": "example.com/one:1", "resources": map[string]any{"cpu": "1", "memory": "1Gi"}}, "one",
	},
	"llmdeployment": {
		[]string{"llm.example.com_llmmodels", "llm.example.com_llmdeployments"},
		schema.GroupVersionKind{Group: "llm.example.com", Version: "v1alpha1", Kind: "LLMDeployment"},
		map[string]any{"modelRef": "none", "replicas": int64(1), "port": int64(8080)}, "one",
	},
	"simulatordeployment": {
		[]string{"sim.llm-d.io_simulatordeployments"},
		schema.GroupVersionKind{Group: "sim.llm-d.io", Version: "v1alpha1", Kind: "SimulatorDeployment"}, map[string]any{}, "one",
	},
	"llmd": {
		[]string{"components.platform.opendatahub.io_llmds"},
		schema.GroupVersionKind{Group: "components.platform.opendatahub.io", Version: "v1alpha1", Kind: "Llmd"},
		map[string]any{"charts": map[string]any{
			"infra": map[string]any{"enabled": false}, "gatewayAPI": map[string]any{"enabled": false}, "modelService": map[string]any{"enabled": false},
		}}, "default-llm-d",
	},
	"datasciencecluster": {
		[]string{"datasciencecluster.opendatahub.io_datascienceclusters", "components.platform.opendatahub.io_llmds"},
		schema.GroupVersionKind{Group: "datasciencecluster.opendatahub.io", Version: "v2", Kind: "DataScienceCluster"}, map[string]any{}, "default-dsc",
	},
	"platformstack": {
		[]string{"platform.slipway.dev_platformstacks"},
		schema.GroupVersionKind{Group: "platform.slipway.dev", Version: "v1alpha1", Kind: "PlatformStack"},
		map[string]any{"components": []any{map[string]any{"name": "one", "source": map[string]any{"manifests": map[string]any{"path": "/none"}}}}}, "one",
	},
	"nvidiagpullm": {
		[]string{"infra.example.com_nvidiagpullms"},
		schema.GroupVersionKind{Group: "infra.example.com", Version: "v1", Kind: "NvidiaGpuLlm"},
		map[string]any{"action": "uninstall", "llmName": "one", "model": "llama3"}, "one",
	},
}

// TestAControllerRunsApart runs each controller alone in a cluster that serves only
// the kinds that it reads itself: it starts, and reports of them. Slipway's other
// kinds needn't be there.
func TestAControllerRunsApart(t *testing.T) {
	for _, name := range controller.Names() {
		if _, is := own[name]; !is {
			t.Errorf("nobody says which kinds %s needs", name)
		}
	}
	plane, err := controlplane.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	for name, each := range own {
		t.Run(name, func(t *testing.T) {
			serve(t, plane.Config(), each.definitions)
			cluster := bed.Client(t, plane.Config())
			run(t, plane.Config(), name)
			made := &unstructured.Unstructured{Object: map[string]any{"spec": each.spec}}
			made.SetGroupVersionKind(each.reported)
			made.SetName(each.name)
			if mapping, err := cluster.RESTMapper().RESTMapping(each.reported.GroupKind(), each.reported.Version); err != nil {
				t.Fatal(err)
			} else if mapping.Scope.Name() == "namespace" {
				made.SetNamespace(metav1.NamespaceDefault)
			}
			if err := cluster.Create(t.Context(), made); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			told := func() bool {
				err := cluster.Get(ctx, client.ObjectKeyFromObject(made), made)
				observed, _, _ := unstructured.NestedInt64(made.Object, "status", "observedGeneration")
				return err == nil && observed == made.GetGeneration()
			}
			if !polled(ctx, told) {
				t.Errorf("it says nothing: %v", made.Object["status"])
			}
			if err := cluster.Delete(ctx, made); err != nil {
				t.Error(err)
			}
			if !polled(ctx, func() bool { return apierrors.IsNotFound(cluster.Get(ctx, client.ObjectKeyFromObject(made), made)) }) {
				t.Errorf("it isn't let go: %v", made.Object)
			}
		})
	}
}

// serve has the cluster serve exactly these definitions of Slipway's, until the test
// ends.
func serve(t *testing.T, config *rest.Config, names []string) {
	t.Helper()
	var files []string
	for _, each := range names {
		files = append(files, "../../../config/crd/"+each+".yaml")
	}
	options := envtest.CRDInstallOptions{Paths: files, ErrorIfPathMissing: true}
	if _, err := envtest.InstallCRDs(config, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(config, options); err != nil {
			t.Error(err)
		}
		// The next controller may need the same ones.
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		cluster := bed.Client(t, config)
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(platformDefinition)
		if !polled(ctx, func() bool { return cluster.List(ctx, all) == nil && len(all.Items) == 0 }) {
			t.Errorf("%d definitions are still there", len(all.Items))
		}
	})
}

// run runs one controller until the test ends.
func run(t *testing.T, config *rest.Config, name string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- manager.Run(ctx, config, manager.Options{
			Controllers: []string{name}, MetricsAddress: "0", HealthAddress: "0", Concurrency: 2, ShutdownGrace: 10 * time.Second,
			Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the operator: %v", err)
		}
	})
}
