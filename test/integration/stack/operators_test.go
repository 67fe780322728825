package stack

import (
	"context"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/test/bed"
)

// operators play those of the preset, whose images are stand-ins here: they make what
// the real ones make of the objects that they are given.
type operators struct {
	t    *testing.T
	kube client.Client
}

// play has them work until the test ends.
func play(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o := operators{t: t, kube: bed.Client(t, server)}
	var working sync.WaitGroup
	working.Go(func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for {
			o.work(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		working.Wait()
	})
}

func (o operators) work(ctx context.Context) {
	if o.has(ctx, "cert-manager-operator", "cert-manager-operator-controller-manager") {
		for _, name := range []string{"cert-manager", "cert-manager-cainjector", "cert-manager-webhook"} {
			o.make(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cert-manager", Name: name}})
		}
		o.make(ctx, deployment("cert-manager", "cert-manager-webhook"))
	}
	if istio := o.find(ctx, schema.GroupVersionKind{Group: "sailoperator.io", Version: "v1", Kind: "Istio"}, "", "default"); istio != nil {
		o.make(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "istio-sidecar-injector"}})
		o.tell(ctx, istio, "Ready")
	}
	if o.find(ctx, schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "LeaderWorkerSetOperator"}, "", "cluster") != nil {
		o.make(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-lws-operator", Name: "lws-controller-manager"}})
		o.make(ctx, deployment("openshift-lws-operator", "lws-controller-manager"))
	}
	if gateway := o.find(ctx, schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}, "opendatahub", "inference-gateway"); gateway != nil {
		o.make(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "opendatahub", Name: "inference-gateway-istio"}})
		o.tell(ctx, gateway, "Programmed")
	}
}

func (o operators) has(ctx context.Context, namespace, name string) bool {
	return o.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &appsv1.Deployment{}) == nil
}

func (o operators) find(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(kind)
	err := o.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found)
	switch {
	case err == nil:
		return found
	case ctx.Err() == nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		o.t.Log(err)
	}
	return nil
}

func (o operators) make(ctx context.Context, made client.Object) {
	if err := o.kube.Create(ctx, made); err != nil && ctx.Err() == nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
		o.t.Log(err)
	}
}

// tell sets a condition where it isn't set.
func (o operators) tell(ctx context.Context, of *unstructured.Unstructured, kind string) {
	before := of.DeepCopy()
	if conditions, _, _ := unstructured.NestedSlice(of.Object, "status", "conditions"); len(conditions) == 1 {
		return
	}
	told := []any{map[string]any{
		"type": kind, "status": "True", "reason": kind, "message": "it is", "lastTransitionTime": "2026-01-02T03:04:05Z",
	}}
	if err := unstructured.SetNestedSlice(of.Object, told, "status", "conditions"); err != nil {
		o.t.Error(err)
	}
	if err := o.kube.Status().Patch(ctx, of, client.MergeFrom(before)); err != nil && ctx.Err() == nil {
		o.t.Log(err)
	}
}

// deployment is one of a stand-in image.
func deployment(namespace, name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "stand-in"}}},
			},
		},
	}
}
