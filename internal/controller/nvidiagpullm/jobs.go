package nvidiagpullm

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/internal/ollama"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// job is a step under way or done.
type job struct {
	step       step
	generation int64     // of the spec that asked for it
	pod        types.UID // of the server that was asked
	place      string    // as facts.place told when it began
	run        string    // of the prompts, as nvidiagpullm.Run names it
	index      int       // of the prompt
	percent    int       // of a pull
	done       bool
	err        error
	answer     *nvidiagpullm.Answer
	cancel     context.CancelFunc
	finished   chan struct{}
}

// followedBy is what goes on after a job that has ended; nil if nothing does.
func (j *job) followedBy(what step) *job {
	switch what {
	case step{}:
		return nil
	case j.step:
		return j // the server was asked a moment before
	default:
		return &job{step: what}
	}
}

// jobs run steps beside the reconciles, at most one for each resource. What a job
// found out is fetched with ended; wake tells when to.
type jobs struct {
	// base ends when the operator does; every job ends with it.
	base context.Context //nolint:containedctx // the life of the process, not of a call
	// wake is told when a job is done or has got on.
	wake func(types.NamespacedName)

	mu      sync.Mutex
	running map[types.NamespacedName]*job
}

// look gives a copy of what goes on for a resource, nil if nothing does.
func (j *jobs) look(key types.NamespacedName) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.running[key]; found != nil {
		copied := *found
		return &copied
	}
	return nil
}

// start runs a step unless one runs.
func (j *jobs) start(key types.NamespacedName, made *job, carry func(context.Context, func(percent int)) (*nvidiagpullm.Answer, error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.running == nil {
		j.running = map[types.NamespacedName]*job{}
	}
	if j.running[key] != nil {
		return
	}
	ctx, cancel := context.WithCancel(j.base)
	made.cancel, made.finished = cancel, make(chan struct{})
	j.running[key] = made
	go func() {
		defer close(made.finished)
		defer cancel()
		answer, err := carry(ctx, func(percent int) { j.progress(key, made, percent) })
		j.mu.Lock()
		made.done, made.answer, made.err = true, answer, err
		j.mu.Unlock()
		j.wake(key)
	}()
}

// progress wakes the reconcile when another whole tenth is through: a status
// that changed with every percent would be written a hundred times.
func (j *jobs) progress(key types.NamespacedName, of *job, percent int) {
	j.mu.Lock()
	turned := percent/10 != of.percent/10
	of.percent = percent
	j.mu.Unlock()
	if turned {
		j.wake(key)
	}
}

// ended gives a job that is done; nil if none is. It stays until it is dropped,
// when what it found out is written down.
func (j *jobs) ended(key types.NamespacedName) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.running[key]; found != nil && found.done {
		return found
	}
	return nil
}

// drop forgets a job, so that another one can start.
func (j *jobs) drop(key types.NamespacedName, ended *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.running[key] == ended {
		delete(j.running, key)
	}
}

// stop ends what goes on for a resource and waits until it has ended.
func (j *jobs) stop(key types.NamespacedName) {
	j.mu.Lock()
	found := j.running[key]
	j.mu.Unlock()
	if found == nil {
		return
	}
	found.cancel()
	<-found.finished
	j.drop(key, found)
}

// normal is a model's name as Ollama lists it, or the name itself where Ollama
// would not take it.
func normal(model string) string {
	reference, err := ollama.ParseReference(model)
	if err != nil {
		return model
	}
	return reference.String()
}

// heard remembers the answers of a run until the cache shows them.
type heard struct {
	mu    sync.Mutex
	known map[types.NamespacedName]run
}

type run struct {
	name    string
	answers []nvidiagpullm.Answer
}

// latest is the longer one of what is written down and what was heard of a run.
func (h *heard) latest(key types.NamespacedName, name string, written []nvidiagpullm.Answer) []nvidiagpullm.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := h.known[key]; last.name == name && len(last.answers) > len(written) {
		return slices.Clone(last.answers)
	}
	return written
}

func (h *heard) remember(key types.NamespacedName, name string, answers []nvidiagpullm.Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.known = map[types.NamespacedName]run{}
	}
	h.known[key] = run{name: name, answers: slices.Clone(answers)}
}

func (h *heard) forget(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, key)
}
