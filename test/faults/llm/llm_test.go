// Package llm kills the operator after each single write of an LLMDeployment's
// life, and refuses and loses those writes. The world must end as it does
// without the fault.
package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/test/bed"
)

const (
	// deadline bounds the wait for the world to end as it must.
	deadline = 90 * time.Second
	// look is the time between two looks at the whole world, which no one watch
	// shows.
	look = 50 * time.Millisecond
	// mostWrites bounds the search for the last write of a step.
	mostWrites = 40
)

// kinds of the world beside those that Kubernetes brings.
var kinds = []schema.GroupVersionKind{
	llmv1alpha1.GroupVersion.WithKind("LLMModel"),
	llmv1alpha1.GroupVersion.WithKind("LLMDeployment"),
}

// place is one run's namespace, with an operator that works for it alone.
type place struct {
	*testing.T
	namespace string
	user      client.Client
	wire      *bed.Wire
	stop      func()
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{T: t, user: bed.Client(t, api), wire: &bed.Wire{}}
	p.namespace = bed.Namespace(t, p.user)
	p.start()
	t.Cleanup(func() { p.stop() })
	return p
}

// start starts an operator process.
func (p *place) start() {
	p.Helper()
	scheme := runtime.NewScheme()
	if err := controller.AddToScheme(scheme); err != nil {
		p.Fatal(err)
	}
	limits := controller.CacheOptions()
	limits.DefaultNamespaces = map[string]cache.Config{p.namespace: {}}
	mgr, err := ctrl.NewManager(p.wire.Through(api), ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Cache: limits,
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Client:     client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Controller: config.Controller{MaxConcurrentReconciles: 2, SkipNameValidation: new(true)},
	})
	if err == nil {
		err = controller.Setup(mgr, nil)
	}
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			p.Logf("the operator ended: %v", err)
		}
	})
}

// step is one thing that a user does.
type step struct {
	name string
	do   func(p *place)
}

var story = []step{
	{"create", func(p *place) {
		p.must(p.user.Create(p.Context(), p.model()))
		p.must(p.user.Create(p.Context(), p.deployment()))
	}},
	{"update", func(p *place) {
		changed := p.deployment()
		p.must(p.user.Get(p.Context(), client.ObjectKeyFromObject(changed), changed))
		before := changed.DeepCopy()
		changed.Spec.Replicas, changed.Spec.Port = 1, 9090
		p.must(p.user.Patch(p.Context(), changed, client.MergeFrom(before)))
	}},
	{"delete", func(p *place) {
		p.must(p.user.Delete(p.Context(), p.deployment()))
		p.must(p.user.Delete(p.Context(), p.model()))
	}},
}

func (p *place) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *place) model() *llmv1alpha1.LLMModel {
	return &llmv1alpha1.LLMModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "gpt-small"},
		Spec:       llmv1alpha1.LLMModelSpec{ModelName: "GPT-Small", Image: "your-registry/gpt-small:v1"},
	}
}

func (p *place) deployment() *llmv1alpha1.LLMDeployment {
	return &llmv1alpha1.LLMDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "chat-service"},
		Spec:       llmv1alpha1.LLMDeploymentSpec{ModelRef: "gpt-small", Replicas: 2, Port: 8080},
	}
}

func (p *place) picture() bed.World {
	p.Helper()
	owner := p.deployment()
	p.must(client.IgnoreNotFound(p.user.Get(p.Context(), client.ObjectKeyFromObject(owner), owner)))
	return bed.Picture(p.T, p.user, p.namespace, owner, kinds...)
}

// awaitWorld waits until the world is as it must be.
func (p *place) awaitWorld(want bed.World) {
	p.Helper()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	late := time.After(deadline)
	for {
		diff := cmp.Diff(want, p.picture())
		if diff == "" {
			return
		}
		select {
		case <-ticker.C:
		case <-late:
			p.Fatalf("after %s the world differs from the one without the fault (-):\n%s", deadline, diff)
		}
	}
}

// settled waits until the deployment is ready, or all of it is gone, and what
// depends on that is told too.
func (p *place) settled(step string) bed.World {
	p.Helper()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	late := time.After(deadline)
	for {
		world := p.picture()
		if step == "delete" && len(world) == 0 || step != "delete" && p.isReady() {
			return world
		}
		select {
		case <-ticker.C:
		case <-late:
			p.Fatalf("%s isn't through after %s: %v", step, deadline, world)
		}
	}
}

func (p *place) isReady() bool {
	p.Helper()
	deployment, model := p.deployment(), p.model()
	p.must(p.user.Get(p.Context(), client.ObjectKeyFromObject(deployment), deployment))
	p.must(p.user.Get(p.Context(), client.ObjectKeyFromObject(model), model))
	return deployment.Status.ObservedGeneration == deployment.Generation && deployment.Status.Phase == llmv1alpha1.PhaseReady &&
		deployment.Status.ReadyReplicas == deployment.Spec.Replicas && deployment.Status.Replicas == deployment.Spec.Replicas &&
		model.Status.Deployments == 1
}

// breakAt lets a fault happen to the n-th write from now on, events left out:
// they are nobody's state. The channel is closed when it has.
func (p *place) breakAt(n int, fault bed.Fault) <-chan struct{} {
	happened := make(chan struct{})
	var mu sync.Mutex
	writes := 0
	p.wire.Disturb(func(_ int, call bed.Call) bed.Fault {
		if strings.HasSuffix(call.Path, "/events") {
			return bed.None
		}
		mu.Lock()
		defer mu.Unlock()
		if writes++; writes != n {
			return bed.None
		}
		close(happened)
		return fault
	})
	return happened
}

// TestTheWorldEndsTheSame for each step, each write of the operator in it, and
// each fault. How many writes there are depends on how fast pods get ready, so
// the search ends with the first run in which the fault has no write left.
func TestTheWorldEndsTheSame(t *testing.T) {
	faultless := newPlace(t)
	worlds := make([]bed.World, len(story))
	for i, step := range story {
		step.do(faultless)
		worlds[i] = faultless.settled(step.name)
	}
	faultless.stop()
	for at, step := range story {
		for _, fault := range []bed.Fault{bed.DieAfter, bed.LoseAnswer, bed.Fail, bed.Conflict} {
			t.Run(step.name+"/"+fault.String(), func(t *testing.T) {
				t.Parallel()
				n, hit := 1, true
				for ; hit && n <= mostWrites; n++ {
					t.Run(fmt.Sprint(n), func(t *testing.T) { hit = runWith(t, at, n, fault, worlds) })
				}
				if n < 3 || n > mostWrites {
					t.Errorf("%d writes were broken; this test no longer sees them", n-1)
				}
			})
		}
	}
}

// runWith lives the story up to a step and breaks it there. After a death it
// also ends the story.
// It reports whether there was a write to break.
func runWith(t *testing.T, at, n int, fault bed.Fault, worlds []bed.World) bool {
	p := newPlace(t)
	for i := range at {
		story[i].do(p)
		p.awaitWorld(worlds[i])
	}
	happened := p.breakAt(n, fault)
	story[at].do(p)
	hit := true
	if fault.Lethal() {
		hit = p.awaitDeath(happened, worlds[at])
	}
	p.awaitWorld(worlds[at])
	if !fault.Lethal() {
		select {
		case <-happened:
		default:
			hit = false
		}
	}
	p.wire.Disturb(nil)
	if last := len(story) - 1; at != last && fault.Lethal() {
		story[last].do(p) // what a death left unrecorded would stay
		p.awaitWorld(worlds[last])
	}
	return hit
}

// awaitDeath waits for the operator's death, or for the world to end without
// it, and starts the next process.
func (p *place) awaitDeath(happened <-chan struct{}, end bed.World) bool {
	p.Helper()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	late := time.After(deadline)
	for {
		select {
		case <-happened:
			p.stop()
			p.wire.Disturb(nil)
			p.start()
			return true
		case <-ticker.C:
			if cmp.Equal(end, p.picture()) {
				return false
			}
		case <-late:
			p.Fatal("neither death nor an end")
		}
	}
}
