// Package stack is the engine of PlatformStacks: one pass of it brings the
// components of a stack a step nearer to the spec. The operator runs it, and so
// does the command line where there is no operator yet. Whatever a component is
// from, it becomes a Helm release (package helmrelease); this package adds the
// order, hooks, pull secrets, approvals, and what is there from elsewhere.
//
// It keeps no state but caches: what was done is in Helm's storage and in the
// resource's status. A pass may die anywhere, and the next one goes on.
//
//	component                                   what a pass does
//	can't be rendered, or its source be had     tells it; what runs is left as it is
//	nothing is due                              hooks that are kept, drift
//	due, a dependency isn't ready               waits
//	due, first, is there from elsewhere         leaves it, by existing: Leave
//	due, a definition loses what is stored      refuses
//	due, a definition loses fields              waits for an approval, by approval: Manual
//	due                                         records, pull secrets, hooks before, release
//	release ready                               hooks after; then it is ready
package stack

import (
	"context"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
	"github.com/slipway-dev/slipway/internal/render/source"
)

// Finalizer is on a PlatformStack as long as there may be releases of it.
const Finalizer = "platform.slipway.dev/slipway"

// Options of an engine. Config, Client, Charts and Now are required.
type Options struct {
	// Config reaches the API server.
	Config *rest.Config
	// Client reads and writes PlatformStacks, past every cache.
	Client client.Client
	// Charts fetches what components are from.
	Charts *registry.Client
	// Credentials for a repository of a registry where no pull secret has some; nil:
	// none.
	Credentials func(ctx context.Context, host, repository string) (registry.Credentials, error)
	// OwnRights does everything with Config's own rights, whatever account a stack
	// names: for a person, who has them.
	OwnRights bool
	// Log gets the Helm SDK's lines; nil drops them.
	Log slog.Handler
	Now func() time.Time
}

// Engine runs stacks. It is safe for concurrent use, one pass for each stack at a
// time in one process of the cluster.
type Engine struct {
	options   Options
	hands     *lru.Cache // *hands by account
	fetched   *lru.Cache // *made by what was asked for
	explained *lru.Cache // explanation by what doesn't get ready
	making    sync.Mutex // of hands
}

// Bounds of what is kept to save requests.
const (
	maxHands     = 32
	maxFetched   = 64
	maxExplained = 256
)

// New makes an engine.
func New(options Options) *Engine {
	if options.Log == nil {
		options.Log = slog.DiscardHandler
	}
	return &Engine{options: options, hands: lru.New(maxHands), fetched: lru.New(maxFetched), explained: lru.New(maxExplained)}
}

// Result is what a pass came to.
type Result struct {
	// Stack as it was written last; nil when it is gone.
	Stack *platformv1alpha1.PlatformStack
	// Outcome of the whole, as its Ready condition tells it.
	Outcome condition.Outcome
	// Acted is true when something was done that the next pass must look at.
	Acted bool
	// Again is when to run again at the latest.
	Again time.Duration
	// Followed are the objects whose changes concern the stack, and Rights those with
	// which they may be watched.
	Followed []Followed
	Rights   *rest.Config
	// Left are releases that a deleted stack leaves behind, since they couldn't be
	// uninstalled in TeardownDeadline.
	Left []platformv1alpha1.StackRelease
}

// Run brings a stack, as it was read from the server, a step nearer to its spec,
// and writes its status. It is called again after Result.Again at the latest, and
// whenever something of it changed. The error is what kept the pass from being
// told in the status: a conflict, or an API server that doesn't answer.
func (e *Engine) Run(ctx context.Context, stack *platformv1alpha1.PlatformStack) (Result, error) {
	p := e.begin(stack)
	if stack.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(stack, Finalizer) {
		return Result{}, nil // nobody waits for us
	}
	if err := p.hold(ctx); err != nil {
		return Result{Stack: p.current}, err
	}
	fault := p.run(ctx)
	if ctx.Err() != nil {
		return Result{Stack: p.current}, ctx.Err()
	}
	status, outcome := p.report(fault, metav1.NewTime(e.options.Now()))
	if p.stack.DeletionTimestamp != nil && (fault == nil && len(status.Releases) == 0 || p.tooLate()) {
		return Result{Outcome: outcome, Left: status.Releases}, p.letGo(ctx)
	}
	if err := p.write(ctx, func(s *platformv1alpha1.PlatformStackStatus) { *s = status }); err != nil {
		return Result{Stack: p.current}, err
	}
	result := Result{Stack: p.current, Outcome: outcome, Acted: p.acted(), Again: p.again(outcome), Followed: p.followed()}
	if p.hand != nil {
		result.Rights = p.hand.config
	}
	return result, nil
}

// pass is one pass over one stack.
type pass struct {
	*Engine
	// stack and before are what it was when the pass began, and don't change; current
	// is what was written last.
	stack, before *platformv1alpha1.PlatformStack
	current       *platformv1alpha1.PlatformStack
	hand          *hands
	sources       map[source.Source]source.Data
	waves         [][]platformstack.Component
	removals      []*removal
	stands        map[string]*stand
	pruned        bool

	mu sync.Mutex // of current and stands, while components go in parallel
}

func (e *Engine) begin(stack *platformv1alpha1.PlatformStack) *pass {
	own := stack.DeepCopy()
	return &pass{Engine: e, stack: own, before: own, current: own, stands: map[string]*stand{}}
}

// parallel is how many components of a wave go at the same time.
const parallel = 4

// run does all that is done in a pass. Its error is of the whole stack.
func (p *pass) run(ctx context.Context) error {
	var err error
	if p.hand, err = p.handsFor(p.stack); err != nil {
		return err
	}
	if p.sources, err = p.gather(ctx); err != nil {
		return p.advised(err)
	}
	if p.waves, err = platformstack.Waves(platformstack.Input{Stack: p.stack, Sources: p.sources}); err != nil {
		return err
	}
	p.remove(ctx)
	for _, components := range p.waves {
		var together sync.WaitGroup
		slots := make(chan struct{}, parallel)
		for _, each := range components {
			together.Go(func() {
				slots <- struct{}{}
				made := p.component(ctx, each)
				p.certify(ctx, made)
				<-slots
				p.mu.Lock()
				p.stands[each.Name] = made
				p.mu.Unlock()
			})
		}
		together.Wait()
	}
	return p.advised(p.prunePullSecrets(ctx))
}

// hold puts the finalizer on the stack.
func (p *pass) hold(ctx context.Context) error {
	if controllerutil.ContainsFinalizer(p.stack, Finalizer) {
		return nil
	}
	changed := p.stack.DeepCopy()
	controllerutil.AddFinalizer(changed, Finalizer)
	if err := p.options.Client.Patch(ctx, changed, client.MergeFromWithOptions(p.stack, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	p.stack, p.current = changed, changed
	return nil
}

// letGo lets a deleted stack go.
func (p *pass) letGo(ctx context.Context) error {
	changed := p.current.DeepCopy()
	controllerutil.RemoveFinalizer(changed, Finalizer)
	err := p.options.Client.Patch(ctx, changed, client.MergeFromWithOptions(p.current, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

// write changes the status.
func (p *pass) write(ctx context.Context, change func(*platformv1alpha1.PlatformStackStatus)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	written, err := reconcile.WriteStatus(ctx, p.options.Client, p.current, func(s *platformv1alpha1.PlatformStack) { change(&s.Status) })
	if err == nil {
		p.current = written
	}
	return err
}

// record names releases in the status, before they are made.
func (p *pass) record(ctx context.Context, releases []platformv1alpha1.StackRelease) error {
	return p.write(ctx, func(s *platformv1alpha1.PlatformStackStatus) {
		s.Releases = platformstack.Record(s.Releases, releases...)
	})
}

// recorded are the releases that the status names.
func (p *pass) recorded() []platformv1alpha1.StackRelease {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current.Status.Releases
}

// advised adds the way out to an error about rights that aren't there.
func (p *pass) advised(err error) error {
	outcome := condition.Classify(err)
	if err == nil || outcome.Silent || outcome.Message == "" {
		return err
	}
	if told := p.advice(outcome.Message); told != outcome.Message {
		return condition.Wait(condition.ReasonForbidden, "%s", told)
	}
	return err
}
