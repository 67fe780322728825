package cluster

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/cluster/config"
)

// GPUResource is the extended resource under which GPUs are advertised.
const GPUResource = "nvidia.com/gpu"

// nodeWriters bounds the number of nodes that are created at a time.
const nodeWriters = 16

// settleDeadline bounds the wait for what a new control plane makes by itself.
const settleDeadline = 3 * time.Minute

// Shape is what a simulated node offers.
type Shape struct {
	CPUs   int
	Memory string
	Pods   int
	GPUs   int
	// Tainted keeps pods off that don't tolerate the taint SimulatedNodeKey, as
	// is wanted where real nodes exist beside.
	Tainted bool
}

// DefaultShape is a large machine without GPUs.
func DefaultShape() Shape { return Shape{CPUs: 64, Memory: "512Gi", Pods: 1000} }

// settle waits for what a client may rely on from the first moment.
func settle(ctx context.Context, access *rest.Config, opts Options) error {
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, settleDeadline)
	defer cancel()
	if opts.SimulatedNodes > 0 {
		shape := opts.Shape
		if shape == (Shape{}) {
			shape = DefaultShape()
		}
		if err := CreateSimulatedNodes(ctx, client, opts.SimulatedNodes, shape); err != nil {
			return err
		}
	}
	if !opts.ControllerManager {
		return nil
	}
	err = wait.PollUntilContextCancel(ctx, probeInterval, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignoreTransient(err)
	})
	if err != nil {
		return fmt.Errorf("wait for the default service account: %w", err)
	}
	return nil
}

// ignoreTransient lets a wait go on while the object isn't there yet.
func ignoreTransient(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// CreateSimulatedNodes makes nodes named simulated-1 to simulated-n, keeps
// those that exist, and waits until kwok has made all of them Ready.
func CreateSimulatedNodes(ctx context.Context, client kubernetes.Interface, n int, shape Shape) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(nodeWriters)
	for i := 1; i <= n; i++ {
		node, err := simulatedNode(i, shape)
		if err != nil {
			return err
		}
		group.Go(func() error {
			_, err := client.CoreV1().Nodes().Create(groupCtx, node, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create the node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return waitNodes(ctx, client, n, metav1.ListOptions{LabelSelector: simulatedLabel + "=true"})
}

// simulatedPrefix begins the names of simulated nodes.
const simulatedPrefix = "simulated-"

// simulatedLabel marks simulated nodes for people and selectors.
const simulatedLabel = "slipway.dev/simulated"

func simulatedNode(i int, shape Shape) (*corev1.Node, error) {
	memory, err := resource.ParseQuantity(shape.Memory)
	if err != nil {
		return nil, fmt.Errorf("memory of simulated nodes %q: %w", shape.Memory, err)
	}
	name := simulatedPrefix + strconv.Itoa(i)
	offers := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(shape.CPUs), resource.DecimalSI),
		corev1.ResourceMemory: memory,
		corev1.ResourcePods:   *resource.NewQuantity(int64(shape.Pods), resource.DecimalSI),
	}
	if shape.GPUs > 0 {
		offers[GPUResource] = *resource.NewQuantity(int64(shape.GPUs), resource.DecimalSI)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
				simulatedLabel:         "true",
			},
			Annotations: map[string]string{config.SimulatedNodeKey: config.SimulatedNodeValue},
		},
		Status: corev1.NodeStatus{Capacity: offers, Allocatable: offers},
	}
	if shape.Tainted {
		node.Spec.Taints = []corev1.Taint{{
			Key: config.SimulatedNodeKey, Value: config.SimulatedNodeValue, Effect: corev1.TaintEffectNoSchedule,
		}}
	}
	return node, nil
}

// waitNodes waits until n of the selected nodes are Ready and open to pods.
func waitNodes(ctx context.Context, client kubernetes.Interface, n int, selected metav1.ListOptions) error {
	ready := 0
	err := poll(ctx, "wait for nodes", func() bool {
		nodes, err := client.CoreV1().Nodes().List(ctx, selected)
		if err != nil {
			return false // the API server may be restarting; ctx bounds the wait
		}
		ready = 0
		for i := range nodes.Items {
			if nodeReady(&nodes.Items[i]) {
				ready++
			}
		}
		return ready >= n
	})
	if err != nil {
		return fmt.Errorf("%d of %d nodes are Ready: %w", ready, n, err)
	}
	return nil
}

func nodeReady(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
