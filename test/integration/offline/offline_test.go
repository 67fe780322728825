// Package offline runs the operator with a directory of vendored charts and no
// network, and holds the pod that its chart makes for that to the restricted
// profile.
package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	operator "github.com/slipway-dev/slipway/helm-charts"
	"github.com/slipway-dev/slipway/internal/cli/charts"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/render/llmd"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/controlplane"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

var server *rest.Config

func TestMain(m *testing.M) {
	os.Exit(bed.Run(m, func(config *rest.Config) error {
		server = config
		return bed.Define(config)
	}, controlplane.WithNodes(1)))
}

// vendored fetches an Llmd's charts into a directory.
func vendored(t *testing.T, resource *componentsv1alpha1.Llmd) string {
	t.Helper()
	vendorer := &charts.Vendorer{Registry: registry.New(registry.Options{Now: time.Now}), Dir: t.TempDir(), KubeVersion: "v1.36.0", Progress: io.Discard}
	images, err := vendorer.Vendor(t.Context(), llmd.Input{Llmd: resource})
	if err != nil || !slices.Contains(images, "registry.example.com/server:v1") {
		t.Fatalf("images %v: %v", images, err)
	}
	return vendorer.Dir
}

// TestServesWithoutANetwork: the charts come from the directory, those whose
// version is a constraint too, and nothing else is asked.
func TestServesWithoutANetwork(t *testing.T) {
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/index.yaml" {
			fmt.Fprint(w, "apiVersion: v1\nentries:\n  stack:\n  - {name: stack, version: 1.0.0, urls: [stack-1.0.0.tgz]}\n")
			return
		}
		_, _ = w.Write(fixture.Archive(t, "1.0.0")) // who hung up needs none
	}))
	part := func(version string) *componentsv1alpha1.ChartSpec {
		return &componentsv1alpha1.ChartSpec{Chart: fixture.Name, Version: version, Repository: &componentsv1alpha1.Repository{URL: repository.URL}}
	}
	resource := &componentsv1alpha1.Llmd{
		ObjectMeta: metav1.ObjectMeta{Name: componentsv1alpha1.LlmdName},
		Spec: componentsv1alpha1.LlmdSpec{Charts: componentsv1alpha1.Charts{
			Namespace: "offline", Infra: part("1.0.0"), GatewayAPI: part("~1.0"), ModelService: part("1.0.0"),
		}},
	}
	dir := vendored(t, resource)
	repository.Close()

	asked := &atomic.Int32{}
	nowhere := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		asked.Add(1)
		return nil, errors.New("there is no network")
	}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- manager.Run(ctx, server, manager.Options{
			Controllers: []string{"llmd"}, MetricsAddress: "0", HealthAddress: "0", Concurrency: 2, ShutdownGrace: 10 * time.Second,
			Charts: registry.Options{Vendored: dir, Transport: nowhere}, Log: slog.New(slog.DiscardHandler),
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the operator: %v", err)
		}
	})
	kube := bed.Client(t, server)
	if err := kube.Create(t.Context(), resource); err != nil {
		t.Fatal(err)
	}
	bed.Await(t, kube, resource, &componentsv1alpha1.LlmdList{}, func(l *componentsv1alpha1.Llmd) string {
		ready := condition.Find(l.Status.Conditions, condition.Ready)
		switch {
		case ready == nil:
			return "nothing is told yet"
		case ready.Status != metav1.ConditionTrue:
			return ready.Message
		}
		return ""
	})
	if err := kube.Delete(t.Context(), resource); err != nil {
		t.Fatal(err)
	}
	bed.AwaitGone(t, kube, resource, &componentsv1alpha1.LlmdList{})
	if n := asked.Load(); n != 0 {
		t.Errorf("a repository was asked %d times", n)
	}
}

// TestThePodIsRestricted: with a volume of charts the operator's pod reads it, and
// a namespace that lets in only restricted pods takes it. Volumes that such a
// namespace refuses are refused before.
func TestThePodIsRestricted(t *testing.T) {
	pod := operatorPod(t, map[string]any{"configMap": map[string]any{"name": "llm-charts"}})
	container := pod.Spec.Containers[0]
	if !slices.Contains(container.Args, "--charts-dir=/charts") || len(container.VolumeMounts) != 1 ||
		container.VolumeMounts[0].MountPath != "/charts" || !container.VolumeMounts[0].ReadOnly || pod.Spec.Volumes[0].ConfigMap.Name != "llm-charts" {
		t.Errorf("it is started with %v, mounts %v of %v", container.Args, container.VolumeMounts, pod.Spec.Volumes)
	}
	kube := bed.Client(t, server)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "restricted-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := kube.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: pod.Spec.ServiceAccountName}}
	if err := kube.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	pod.Namespace = namespace.Name
	if err := kube.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("it isn't let in: %v", err)
	}
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/charts"}}
	if err := kube.Create(t.Context(), pod, client.DryRunAll); err == nil {
		t.Error("the namespace lets in whatever comes")
	}
	if _, err := rendered(t, map[string]any{"hostPath": map[string]any{"path": "/charts"}}); err == nil || !strings.Contains(err.Error(), "hostPath") {
		t.Errorf("a volume of the node's gives %v", err)
	}
}

// rendered is the operator's chart with a volume of charts.
func rendered(t *testing.T, volume map[string]any) (string, error) {
	t.Helper()
	chart, err := helm.Load(operator.Files, operator.Operator)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{"charts": map[string]any{"volume": volume}}
	return helm.Template(helm.Request{Name: "llm-operator", Chart: chart, Values: values, Timeout: time.Minute}, "llm-system", "v1.36.0")
}

func operatorPod(t *testing.T, volume map[string]any) *corev1.Pod {
	t.Helper()
	text, err := rendered(t, volume)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		made := &appsv1.Deployment{}
		if err := yaml.Unmarshal([]byte(document), made); err == nil && made.Kind == "Deployment" {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: made.Name}, Spec: made.Spec.Template.Spec}
		}
	}
	t.Fatal("the chart has no Deployment")
	return nil
}
