// Package apply is the one engine that makes a cluster hold the objects that a
// resource wants, and no others of that resource's. It sorts, records, applies,
// prunes, in an order in which it may die after every single write and be
// started again (docs/adr/0003-apply-engine.md). It knows no kind of Slipway's,
// renders nothing, never takes over an object that it wasn't given, and never
// touches a field that it doesn't render.
package apply

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/object"
)

// Bounds of an engine, where its options name none.
const (
	defaultManager          = "slipway"
	defaultCallTimeout      = 30 * time.Second
	defaultEstablishTimeout = 2 * time.Second
	// defaultMemory is 16 objects for each of 4,000 resources. A record takes
	// about 250 bytes.
	defaultMemory = 64_000
	// attempts bounds how often one object is read and written again within a
	// pass because someone else wrote in between.
	attempts = 3
)

// When to look again where no watch tells of the change.
const (
	lookSoon  = 2 * time.Second
	lookLater = 30 * time.Second
)

// Options of an engine. Only Client is required.
type Options struct {
	// Client writes, and knows the scheme and the kinds that are served.
	Client client.Client
	// Reader reads from the API server itself, past every cache (a manager's
	// GetAPIReader). Nil: Client, which must then not cache unstructured objects.
	Reader client.Reader
	// Cache reads owned kinds without a request. It must refuse kinds that it
	// holds no informer for (cache.Options.ReaderFailOnMissingInformer), which are
	// then read from the server, and must keep managedFields. Nil: every read goes
	// to the server.
	Cache client.Reader
	// FieldManager owns the fields that we render; "slipway" if empty.
	FieldManager string
	// Clock times the wait for custom resource definitions; the real one if nil.
	Clock clock.Clock
	// CallTimeout bounds one request; 30 s if zero.
	CallTimeout time.Duration
	// EstablishTimeout bounds how long one pass waits for the definitions that it
	// applied to be served; 2 s if zero. What comes later is a condition.Wait.
	EstablishTimeout time.Duration
	// Memory bounds how many objects are remembered as unchanged; 64,000 if zero.
	// An object beyond it is applied again at each pass, which changes nothing.
	Memory int
	// OnWrite is told of each request that may have written, after it.
	OnWrite func(Write)
}

// Write is one request to the API server that may have changed an object.
type Write struct {
	Verb   string // "apply", "patch" or "delete"
	Object object.Ref
	Err    error // nil when it took effect
}

// Engine applies and prunes. It is safe for concurrent use, one pass for each
// owner at a time.
type Engine struct {
	client           client.Client
	server           client.Reader
	cache            client.Reader
	manager          client.FieldOwner
	clock            clock.Clock
	callTimeout      time.Duration
	establishTimeout time.Duration
	memory           *memory
	onWrite          func(Write)
}

// New makes an engine.
func New(o Options) *Engine {
	e := &Engine{
		client:           o.Client,
		server:           o.Reader,
		cache:            o.Cache,
		manager:          client.FieldOwner(or(o.FieldManager, defaultManager)),
		clock:            o.Clock,
		callTimeout:      or(o.CallTimeout, defaultCallTimeout),
		establishTimeout: or(o.EstablishTimeout, defaultEstablishTimeout),
		memory:           newMemory(or(o.Memory, defaultMemory)),
		onWrite:          o.OnWrite,
	}
	if e.server == nil {
		e.server = o.Client
	}
	if e.clock == nil {
		e.clock = clock.RealClock{}
	}
	if e.onWrite == nil {
		e.onWrite = func(Write) {}
	}
	return e
}

func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// Inventory is where an owner keeps the list of what was made for it, usually
// in its own status. The engine saves before it creates and after it deleted.
type Inventory interface {
	// Load gives what was saved last.
	Load(ctx context.Context) ([]object.Ref, error)
	// Save replaces the list. It must fail with a conflict when the list was
	// changed since Load or the last Save (a patch that carries the
	// resourceVersion): otherwise a stale cache would make the engine forget
	// objects.
	Save(ctx context.Context, refs []object.Ref) error
}

// Action says what became of an object.
type Action string

// The actions of a change set.
const (
	Created    Action = "created"
	Configured Action = "configured"
	Unchanged  Action = "unchanged"
	Deleted    Action = "deleted"
	Skipped    Action = "skipped"
	Failed     Action = "failed"
)

// Change is what became of one object.
type Change struct {
	Object  object.Ref
	Action  Action
	Message string // why, where the action doesn't say it
}

// Result is what a pass did.
type Result struct {
	// Changes of wanted objects in apply order, then of pruned ones in the order
	// of teardown.
	Changes []Change
	// Live is what is there of wanted, in apply order, without managedFields. An
	// object that couldn't be written is in it as it was.
	Live []*unstructured.Unstructured
	// Again is when to look again at the latest, since no watch tells of what is
	// waited for; zero when one does.
	Again time.Duration
}

// Wrote reports whether the pass changed anything in the cluster beside the
// inventory.
func (r Result) Wrote() bool {
	for _, change := range r.Changes {
		switch change.Action {
		case Created, Configured, Deleted:
			return true
		case Unchanged, Skipped, Failed:
		}
	}
	return false
}

// lookAgain shortens the time until the next look to at most after; zero leaves
// it.
func (r *Result) lookAgain(after time.Duration) {
	if after > 0 && (r.Again == 0 || after < r.Again) {
		r.Again = after
	}
}
