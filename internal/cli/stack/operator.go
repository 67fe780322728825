package stack

import (
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What tells of an operator that runs: the lease that its leader holds.
const (
	leaseName = "slipway-operator.slipway.dev"
	// leaseStale is when a lease that nobody has given back is nobody's. It allows for
	// clocks that differ.
	leaseStale = 5 * time.Minute
	// controllerName is what the operator calls its controller of stacks.
	controllerName = "platformstack"
	// controllersFlag limits the operator to some controllers.
	controllersFlag = "--controllers"
)

// HasOperator reports whether an operator looks after stacks in the cluster.
func HasOperator(ctx context.Context, kube client.Reader, now time.Time) (bool, error) {
	leases := &coordinationv1.LeaseList{}
	if err := kube.List(ctx, leases, client.MatchingFields{"metadata.name": leaseName}); err != nil {
		return false, err
	}
	for _, each := range leases.Items {
		holder := each.Spec.HolderIdentity
		if holder == nil || *holder == "" || each.Spec.RenewTime == nil || now.Sub(each.Spec.RenewTime.Time) > leaseStale {
			continue
		}
		name, _, _ := strings.Cut(*holder, "_")
		pod := &corev1.Pod{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: each.Namespace, Name: name}, pod); client.IgnoreNotFound(err) != nil {
			return false, err
		}
		if runsStacks(pod) {
			return true, nil
		}
	}
	return false, nil
}

// runsStacks reports whether a pod's arguments leave the controller of stacks in. A pod
// that isn't there leaves it in: the operator may run outside of the cluster.
func runsStacks(pod *corev1.Pod) bool {
	for _, container := range pod.Spec.Containers {
		for i, each := range container.Args {
			list, is := strings.CutPrefix(each, controllersFlag+"=")
			if each == controllersFlag && i+1 < len(container.Args) {
				list, is = container.Args[i+1], true
			}
			if is && list != "" {
				return slices.Contains(strings.Split(list, ","), controllerName)
			}
		}
	}
	return true
}
