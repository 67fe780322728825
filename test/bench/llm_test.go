package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/llmdeployment"
)

// deployments is the size of the budgets for many resources.
const deployments = 1000

func model(namespace string) *llmv1alpha1.LLMModel {
	return &llmv1alpha1.LLMModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gpt-small"},
		Spec:       llmv1alpha1.LLMModelSpec{ModelName: "GPT-Small", Image: "your-registry/gpt-small:v1"},
	}
}

func deployment(namespace string, n int) *llmv1alpha1.LLMDeployment {
	return &llmv1alpha1.LLMDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("chat-%04d", n)},
		Spec:       llmv1alpha1.LLMDeploymentSpec{ModelRef: "gpt-small", Replicas: 2, Port: 8080},
	}
}

// each runs a function for 0..n-1 with bounded concurrency.
func each(n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// aside is each beside the test, which may only be failed from there, and not
// ended: what waits for the objects ends by its own bound. What it returns waits
// until all is done, for what may be ready before that.
func aside(tb testing.TB, n int, do func(context.Context, int) error) (done func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := each(n, do); err != nil {
			tb.Error(err)
		}
	}()
	return func() { <-ended }
}

// ready watches a kind until n objects of a namespace, or of all if it is empty,
// are as wanted.
func ready[T client.Object](w *world, list client.ObjectList, namespace string, n int, done func(T) bool) {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	watcher, err := w.client.Watch(ctx, list, client.InNamespace(namespace))
	if err != nil {
		w.tb.Fatal(err)
	}
	defer watcher.Stop()
	seen := map[types.NamespacedName]bool{}
	for len(seen) < n {
		event, open := <-watcher.ResultChan()
		if !open {
			w.tb.Fatalf("%d of %d ready when the watch ended after at most %s", len(seen), n, patience)
		}
		if object, is := event.Object.(T); is && done(object) {
			seen[client.ObjectKeyFromObject(object)] = true
		}
	}
}

func deploymentReady(d *appsv1.Deployment) bool {
	return d.Spec.Replicas != nil && d.Status.ReadyReplicas == *d.Spec.Replicas && d.Status.ObservedGeneration == d.Generation
}

func llmReady(d *llmv1alpha1.LLMDeployment) bool {
	return condition.IsTrue(d.Status.Conditions, condition.Ready)
}

// bare writes what the operator would write, the LLMDeployments included, and
// waits until every Deployment is ready.
func bare(w *world, namespace string, n int) time.Duration {
	w.tb.Helper()
	w.namespace(namespace)
	used := model(namespace)
	begin := time.Now()
	if err := w.client.Create(context.Background(), used); err != nil {
		w.tb.Fatal(err)
	}
	written := aside(w.tb, n, func(ctx context.Context, i int) error {
		owner := deployment(namespace, i)
		if err := w.client.Create(ctx, owner); err != nil {
			return err
		}
		objects, err := llmdeployment.Objects(llmdeployment.Input{Deployment: owner, Model: used})
		if err != nil {
			return err
		}
		inOrder(objects)
		controller := metav1.NewControllerRef(owner, llmv1alpha1.GroupVersion.WithKind(llmv1alpha1.KindLLMDeployment))
		for _, object := range objects {
			// The same objects: the garbage collector has its work with an owner.
			object.SetOwnerReferences([]metav1.OwnerReference{*controller})
			if err := w.client.Create(ctx, object); err != nil {
				return err
			}
		}
		return nil
	})
	ready(w, &appsv1.DeploymentList{}, namespace, n, deploymentReady)
	written()
	return time.Since(begin)
}

// operated writes only the LLMDeployments and waits until every one is Ready.
func operated(w *world, namespace string, n int) time.Duration {
	w.tb.Helper()
	w.namespace(namespace)
	begin := time.Now()
	if err := w.client.Create(context.Background(), model(namespace)); err != nil {
		w.tb.Fatal(err)
	}
	aside(w.tb, n, func(ctx context.Context, i int) error {
		return w.client.Create(ctx, deployment(namespace, i))
	})
	ready(w, &llmv1alpha1.LLMDeploymentList{}, namespace, n, llmReady)
	return time.Since(begin)
}

// BenchmarkThousandDeployments: 1,000 LLMDeployments from nothing to Ready,
// against a bare client; then, with them there, a minute at rest, the peak of
// memory, drift, and a restart.
func BenchmarkThousandDeployments(b *testing.B) {
	path := binary(b)
	for b.Loop() {
		base := func() time.Duration {
			w := newWorld(b)
			defer w.plane.Stop()
			unrelated(w) // the same cluster: they cost the control plane, too
			return bare(w, "bare", deployments)
		}()
		w := newWorld(b)
		unrelated(w)
		operator := startOperator(w, path)
		ours := operated(w, "ours", deployments)
		b.ReportMetric(base.Seconds(), "s/bare")
		b.ReportMetric(ours.Seconds(), "s/operator")
		b.ReportMetric(ours.Seconds()/base.Seconds(), "ratio(<=1.25)")
		reads, writes := operator.requests()
		b.ReportMetric(float64(writes)/deployments, "writes/deployment")
		b.Logf("bare %s, operator %s, ratio %.2f, %.2f writes and %d reads each, peak %.0f MiB",
			base, ours, ours.Seconds()/base.Seconds(), float64(writes)/deployments, reads/deployments, operator.peakMemory())
		atRest(b, operator, "writes-at-rest(0)", "reads-and-watches-at-rest")
		b.ReportMetric(operator.peakMemory(), "MiB-peak(<150)")
		drift(b, w)
		restart(b, w, path, operator)
		w.plane.Stop()
	}
}

// unrelated fills the cluster with what is none of the operator's business.
func unrelated(w *world) {
	w.namespace("unrelated")
	value := string(make([]byte, 1024))
	err := each(5000, func(ctx context.Context, i int) error {
		meta := metav1.ObjectMeta{Namespace: "unrelated", Name: fmt.Sprintf("object-%04d", i)}
		if err := w.client.Create(ctx, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"value": []byte(value)}}); err != nil {
			return err
		}
		return w.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, BinaryData: map[string][]byte{"value": []byte(value)}})
	})
	if err != nil {
		w.tb.Fatal(err)
	}
}

// atRest counts requests in a minute in which nothing happens.
func atRest(b *testing.B, operator *operator, writesName, readsName string) {
	b.Helper()
	settled(b, operator)
	reads, writes := operator.requests()
	<-time.After(time.Minute)
	readsAfter, writesAfter := operator.requests()
	b.ReportMetric(float64(writesAfter-writes), writesName)
	// Watches that end and begin again are GETs too: the API server closes each
	// after 5 to 10 minutes.
	b.ReportMetric(float64(readsAfter-reads), readsName)
}

// settled waits until the operator has made no request for three seconds.
func settled(b *testing.B, operator *operator) {
	b.Helper()
	last, since := -1, time.Now()
	eventually(b, "the operator is at rest", func() bool {
		reads, writes := operator.requests()
		if reads+writes != last {
			last, since = reads+writes, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
}

// drift deletes and changes children one after the other, and times how long
// each takes to be put back.
func drift(b *testing.B, w *world) {
	b.Helper()
	const samples = 200
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	watcher, err := w.client.Watch(ctx, &corev1.ServiceList{}, client.InNamespace("ours"))
	if err != nil {
		b.Fatal(err)
	}
	defer watcher.Stop()
	var took []time.Duration
	for i := range samples {
		service := &corev1.Service{}
		key := types.NamespacedName{Namespace: "ours", Name: fmt.Sprintf("chat-%04d", i)}
		if err := w.client.Get(ctx, key, service); err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		damage(ctx, b, w, service, i)
		for event := range watcher.ResultChan() {
			now, is := event.Object.(*corev1.Service)
			if is && event.Type != watch.Deleted && now.Name == key.Name && isMended(now, service) {
				break
			}
		}
		if ctx.Err() != nil {
			b.Fatalf("Service %s wasn't put back", key.Name)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	p99 := took[int(math.Ceil(samples*0.99))-1]
	b.ReportMetric(float64(took[samples/2].Microseconds())/1000, "ms-drift-p50")
	b.ReportMetric(float64(p99.Microseconds())/1000, "ms-drift-p99(<100)")
}

// isMended tells the Service after the mend from the events before it.
func isMended(now, damaged *corev1.Service) bool {
	later, err := resourceversion.CompareResourceVersion(now.ResourceVersion, damaged.ResourceVersion)
	return err == nil && later > 0 && now.DeletionTimestamp == nil && now.Spec.Ports[0].Port == 8080
}

// damage deletes every other Service and points the rest at a wrong port.
func damage(ctx context.Context, b *testing.B, w *world, service *corev1.Service, i int) {
	b.Helper()
	if i%2 == 0 {
		if err := w.client.Delete(ctx, service.DeepCopy()); err != nil {
			b.Fatal(err)
		}
		return
	}
	changed := service.DeepCopy()
	changed.Spec.Ports[0].Port = 9999
	if err := w.client.Update(ctx, changed); err != nil {
		b.Fatal(err)
	}
	service.ResourceVersion = changed.ResourceVersion
}

// restart ends the operator and starts it anew, and counts the pods that didn't
// live through it.
func restart(b *testing.B, w *world, path string, running *operator) {
	b.Helper()
	before := pods(b, w)
	running.stop()
	operator := startOperator(w, path)
	settled(b, operator)
	after := pods(b, w)
	lost := 0
	for uid := range before {
		if !after[uid] {
			lost++
		}
	}
	b.ReportMetric(float64(lost), "pods-restarted(0)")
	b.ReportMetric(float64(len(before)), "pods")
}

func pods(b *testing.B, w *world) map[types.UID]bool {
	b.Helper()
	var list corev1.PodList
	if err := w.client.List(context.Background(), &list, client.InNamespace("ours")); err != nil {
		b.Fatal(err)
	}
	found := make(map[types.UID]bool, len(list.Items))
	for i := range list.Items {
		found[list.Items[i].UID] = true
	}
	return found
}
