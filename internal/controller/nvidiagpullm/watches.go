package nvidiagpullm

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/ollama"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// wakes bounds how many ends of steps wait to be looked at.
const wakes = 1024

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, engine *apply.Engine, evidence *reconcile.Evidence) error {
	woken := make(chan event.GenericEvent, wakes)
	base, end := context.WithCancel(context.Background())
	r := &Reconciler{
		Client: mgr.GetClient(), Server: mgr.GetAPIReader(), Evidence: evidence, Engine: engine,
		Events: mgr.GetEventRecorder("slipway"), Now: time.Now, Dial: dialer(),
		jobs: jobs{base: base, wake: func(key types.NamespacedName) {
			select {
			case woken <- event.GenericEvent{Object: &infrav1.NvidiaGpuLlm{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}}:
			case <-base.Done():
			}
		}},
	}
	// Steps end with the operator.
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		end()
		return nil
	}))
	if err != nil {
		return err
	}
	enqueue := handler.EnqueueRequestsFromMapFunc
	return ctrl.NewControllerManagedBy(mgr).
		Named("nvidiagpullm").
		WithOptions(controller.Options{RateLimiter: reconcile.Backoff()}).
		For(&infrav1.NvidiaGpuLlm{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.NvidiaGpuLlm{}, enqueue(r.rivalsOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, enqueue(r.ofName)).
		Watches(&corev1.Service{}, enqueue(r.ofName)).
		Watches(&corev1.ConfigMap{}, enqueue(r.ofName)).
		Watches(&corev1.PersistentVolumeClaim{}, enqueue(r.ofName)).
		WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// dialer makes clients that share their connections.
func dialer() func(*corev1.Pod) Ollama {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: askTimeout}).DialContext,
		MaxIdleConnsPerHost:   2,
		MaxConnsPerHost:       8,
		IdleConnTimeout:       time.Minute,
		ResponseHeaderTimeout: loadTimeout,
	}
	return func(pod *corev1.Pod) Ollama {
		return &ollama.Client{
			BaseURL: "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(nvidiagpullm.Port)),
			HTTP:    &http.Client{Transport: transport},
		}
	}
}

// ofName finds the resources of the name that an object was made for.
func (r *Reconciler) ofName(ctx context.Context, made client.Object) []ctrlreconcile.Request {
	labels := made.GetLabels()
	if labels[object.LabelName] != nvidiagpullm.LabelNameValue {
		return nil
	}
	return r.named(ctx, made.GetNamespace(), labels[object.LabelInstance], "")
}

// rivalsOf finds the other resources of a resource's name.
func (r *Reconciler) rivalsOf(ctx context.Context, changed client.Object) []ctrlreconcile.Request {
	resource, is := changed.(*infrav1.NvidiaGpuLlm)
	if !is {
		return nil
	}
	return r.named(ctx, nvidiagpullm.Namespace(resource), resource.Spec.LLMName, resource.UID)
}

func (r *Reconciler) named(ctx context.Context, namespace, llmName string, but types.UID) []ctrlreconcile.Request {
	var list infrav1.NvidiaGpuLlmList
	err := r.Client.List(ctx, &list,
		client.MatchingFields{reconcile.IndexLLMName: reconcile.LLMName(namespace, llmName)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil // the cache is closing down
	}
	var requests []ctrlreconcile.Request
	for i := range list.Items {
		if list.Items[i].UID != but {
			requests = append(requests, ctrlreconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// record is the one writer of a resource's status.
type record = reconcile.Record[*infrav1.NvidiaGpuLlm, infrav1.NvidiaGpuLlmStatus]

func (r *Reconciler) record(f *facts) *record {
	return &record{
		Writer: r.Client, Events: r.Events, Memory: &r.memory, Object: f.resource,
		Parts: func(d *infrav1.NvidiaGpuLlm) reconcile.StatusParts[infrav1.NvidiaGpuLlmStatus] {
			return reconcile.StatusParts[infrav1.NvidiaGpuLlmStatus]{
				Status: &d.Status, ObservedGeneration: d.Status.ObservedGeneration,
				Conditions: d.Status.Conditions, Inventory: &d.Status.Inventory,
			}
		},
		Starting: func() infrav1.NvidiaGpuLlmStatus {
			return report(f, waiting(reasonStarting, "pod %s is starting", f.resource.Spec.LLMName), metav1.NewTime(r.Now()))
		},
	}
}
