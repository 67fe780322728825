// Package story lives a story of what a user does with a custom resource, with an
// operator in a namespace of its own, and breaks it: the operator is killed at
// one of its writes, or the write is refused, or its answer is lost. It knows no
// kind; the packages beside it tell the stories.
package story

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/test/bed"
)

const (
	// deadline bounds the wait for the world to end as it must.
	deadline = 3 * time.Minute
	// look is the time between two looks at the whole world, which no one watch
	// shows.
	look = 50 * time.Millisecond
	// lastCalls is how many of the operator's requests a failure tells of.
	lastCalls = 40
)

// Place is one run's namespace, with an operator that works for it alone.
type Place struct {
	*testing.T
	Namespace string
	// User is who applies resources, undisturbed.
	User client.WithWatch

	api         *rest.Config
	controllers []string
	beyond      []string // namespaces that the operator sees, too
	wire        *bed.Wire
	stop        func()
}

// NewPlace makes a namespace and starts the operator's controllers for it; all of
// them if none is named.
func NewPlace(t *testing.T, api *rest.Config, controllers ...string) *Place {
	t.Helper()
	p := laidOut(t, api, controllers)
	p.open()
	return p
}

// laidOut is a place without an operator yet.
func laidOut(t *testing.T, api *rest.Config, controllers []string) *Place {
	t.Helper()
	p := &Place{T: t, User: bed.Client(t, api), api: api, controllers: controllers, wire: &bed.Wire{}}
	p.Namespace = bed.Namespace(t, p.User)
	return p
}

func (p *Place) open() {
	p.Helper()
	p.start()
	p.Cleanup(func() { p.stop() })
}

// Second is the name of a namespace beside the place's own, which the operator
// sees in a story that has one.
func (p *Place) Second() string { return p.Namespace + "-second" }

// start starts an operator process.
func (p *Place) start() {
	p.Helper()
	scheme := runtime.NewScheme()
	p.Must(controller.AddToScheme(scheme))
	limits := controller.CacheOptions()
	limits.DefaultNamespaces = map[string]cache.Config{p.Namespace: {}}
	for _, each := range p.beyond {
		limits.DefaultNamespaces[each] = cache.Config{}
	}
	mgr, err := ctrl.NewManager(p.wire.Through(p.api), ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Cache: limits,
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Client:     client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Controller: config.Controller{MaxConcurrentReconciles: 2, SkipNameValidation: new(true)},
	})
	if err == nil {
		err = controller.Setup(mgr, controller.Options{Controllers: p.controllers})
	}
	p.Must(err)
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

// Must ends the run on an error.
func (p *Place) Must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// Await looks again and again until nothing is missing; what is missing is what
// the function returns.
func (p *Place) Await(missing func() string) {
	p.Helper()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	late := time.After(deadline)
	for {
		told := missing()
		if told == "" {
			return
		}
		select {
		case <-ticker.C:
		case <-late:
			calls := p.wire.Take()
			p.Fatalf("after %s: %s\nthe operator's last requests: %v", deadline, told, calls[max(0, len(calls)-lastCalls):])
		}
	}
}

// BreakAt lets a fault happen to the operator's n-th write from now on, those
// left out that are nobody's state: events, and questions about rights. The
// channel is closed when it has.
func (p *Place) BreakAt(n int, fault bed.Fault) <-chan struct{} {
	happened := make(chan struct{})
	writes := 0
	var mu sync.Mutex
	p.wire.Disturb(func(_ int, call bed.Call) bed.Fault {
		mu.Lock()
		defer mu.Unlock()
		if isStateless(call) {
			return bed.None
		}
		if writes++; writes != n {
			return bed.None
		}
		close(happened)
		return fault
	})
	return happened
}

// BreakEvery lets a fault happen to every other write, the first one or the
// second.
func (p *Place) BreakEvery(first bool, fault bed.Fault) {
	writes := 0
	var mu sync.Mutex
	p.wire.Disturb(func(_ int, call bed.Call) bed.Fault {
		mu.Lock()
		defer mu.Unlock()
		if isStateless(call) {
			return bed.None
		}
		if writes++; (writes%2 == 1) == first {
			return fault
		}
		return bed.None
	})
}

// BreakFirst lets a fault happen to every other one of the first writes. The
// channel is closed when they are over.
func (p *Place) BreakFirst(writes int, fault bed.Fault) <-chan struct{} {
	over := make(chan struct{})
	n := 0
	var mu sync.Mutex
	p.wire.Disturb(func(_ int, call bed.Call) bed.Fault {
		mu.Lock()
		defer mu.Unlock()
		if isStateless(call) || n > writes {
			return bed.None
		}
		if n++; n > writes {
			close(over)
			return bed.None
		}
		if n%2 == 1 {
			return bed.None
		}
		return fault
	})
	return over
}

// Mend ends all faults.
func (p *Place) Mend() { p.wire.Disturb(nil) }

// Restart ends the operator and starts the next one, which nothing disturbs.
func (p *Place) Restart() {
	p.Helper()
	p.stop()
	p.Mend()
	p.start()
}

func isStateless(call bed.Call) bool {
	return strings.HasSuffix(call.Path, "/events") || strings.HasSuffix(call.Path, "subjectaccessreviews")
}

// IsSo is for a channel that closes when something happens.
func IsSo(happened <-chan struct{}) bool {
	select {
	case <-happened:
		return true
	default:
		return false
	}
}

// AwaitDeath waits for the operator's death, or until the world has ended without
// it. It reports which.
func (p *Place) AwaitDeath(happened <-chan struct{}, ended func() bool) bool {
	p.Helper()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	late := time.After(deadline)
	for {
		select {
		case <-happened:
			return true
		case <-ticker.C:
			if ended() {
				return false
			}
		case <-late:
			p.Fatal("neither death nor an end")
		}
	}
}

// differs tells how the world differs from the one without faults: first by name,
// since whoever reads it may see no more than the beginning.
func differs(want, got bed.World) string {
	var missing, left, other []string
	for name := range want {
		if found, there := got[name]; !there {
			missing = append(missing, name)
		} else if !cmp.Equal(want[name], found) {
			other = append(other, name)
		}
	}
	for name := range got {
		if _, wanted := want[name]; !wanted {
			left = append(left, name)
		}
	}
	if len(missing)+len(left)+len(other) == 0 {
		return ""
	}
	for _, names := range [][]string{missing, left, other} {
		slices.Sort(names)
	}
	told := fmt.Sprintf("the world differs from the one without the fault: missing %v, left over %v, different %v", missing, left, other)
	for _, name := range slices.Backward(other) { // custom resources, which say why, have the latest names
		told += fmt.Sprintf("\n%s (-without, +with the fault):\n%s", name, cmp.Diff(want[name], got[name]))
	}
	return told
}
