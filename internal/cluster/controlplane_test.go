package cluster_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-dev/slipway/internal/cluster"
	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/cluster/config"
	"github.com/slipway-dev/slipway/test/controlplane"
)

func TestControlPlaneRunsSimulatedPods(t *testing.T) {
	plane := controlplane.StartPlane(t, controlplane.WithNodes(2))
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != component.KubernetesVersion {
		t.Errorf("the API server reports %s, want %s", version.GitVersion, component.KubernetesVersion)
	}
	createDeployment(t, client, "first", 3)
	waitAvailable(t, client, "first", 3)

	plane.KillComponent(config.APIServer)
	if _, err := client.Discovery().ServerVersion(); err == nil {
		t.Fatal("the API server answers although it was killed")
	}
	if err := plane.StartComponent(t.Context(), config.APIServer); err != nil {
		t.Fatal(err)
	}
	createDeployment(t, client, "second", 2)
	waitAvailable(t, client, "second", 2)
	waitAvailable(t, client, "first", 3)
}

func TestStopLeavesNothing(t *testing.T) {
	plane := controlplane.StartPlane(t)
	pids := plane.PIDs()
	if len(pids) != 2 {
		t.Fatalf("%d processes run, want etcd and the API server", len(pids))
	}
	plane.Stop()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
	if _, err := os.Stat(plane.Kubeconfig()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	plane.Stop()
}

func TestSimulatedNodesOfferTheirShape(t *testing.T) {
	shape := cluster.DefaultShape()
	shape.GPUs = 8
	client, err := kubernetes.NewForConfig(controlplane.Start(t, controlplane.WithNodes(1), controlplane.WithShape(shape)))
	if err != nil {
		t.Fatal(err)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "simulated-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := node.Status.Allocatable[cluster.GPUResource]; got.Value() != 8 {
		t.Errorf("allocatable GPUs are %s, want 8", got.String())
	}
}

func createDeployment(t *testing.T, client kubernetes.Interface, name string, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": name}
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create the Deployment %s: %v", name, err)
	}
}

func waitAvailable(t *testing.T, client kubernetes.Interface, name string, want int32) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		d, err := client.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		last = err
		return err == nil && d.Status.AvailableReplicas == want, nil
	})
	if err != nil {
		t.Fatalf("the Deployment %s has no %d available replicas: %v, %v", name, want, err, last)
	}
}
