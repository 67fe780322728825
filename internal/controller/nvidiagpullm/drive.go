package nvidiagpullm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/ollama"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// Ollama is what is asked of a server.
type Ollama interface {
	Tags(ctx context.Context) ([]ollama.Model, error)
	Loaded(ctx context.Context) ([]ollama.Running, error)
	Pull(ctx context.Context, model string, insecure bool, progress func(ollama.Progress)) error
	Load(ctx context.Context, model string, keepAlive time.Duration) error
	Unload(ctx context.Context, model string) error
	Generate(ctx context.Context, model, prompt string, limits ollama.Limits) (ollama.Answer, error)
	Copy(ctx context.Context, source, destination string) error
	Delete(ctx context.Context, model string) error
}

// Bounds of steps.
const (
	pullTimeout  = 24 * time.Hour
	loadTimeout  = 30 * time.Minute
	shortTimeout = 30 * time.Second
	// firstPause and longestPause are between tries of a step that failed for a
	// reason that may pass; each is twice the one before.
	firstPause   = time.Second
	longestPause = 2 * time.Minute
	// longestWithoutRoom is between tries where there was no room, of which some
	// begin the fetch anew. More room, another pod and another spec are tried at
	// once.
	longestWithoutRoom = 10 * time.Minute
	// keepLoaded is how long a model of a pod that goes on stays in memory.
	keepLoaded = -1
	// keepShortly is for a pod that ends soon.
	keepShortly = 5 * time.Minute
)

// collect takes over what a step came to. What it found out is written down in
// this pass, and the step is dropped after that; a failure is noted at once.
func (r *Reconciler) collect(f *facts) {
	key := client.ObjectKeyFromObject(f.resource)
	ended := r.jobs.ended(key)
	switch {
	case ended == nil:
		return
	case errors.Is(ended.err, ollama.ErrStorage) && f.pod != nil && !nvidiagpullm.IsPruning(f.pod):
		r.damaged.set(key, "yes") // the pod is made again, and clears it up
		r.jobs.drop(key, ended)
		return
	case ended.err != nil:
		// The spec may have changed since: what failed is told of the one that asked.
		r.failures.note(key, failure{
			generation: ended.generation, place: ended.place, err: explain(f.resource, ended),
			longest: longestPauseOf(ended.err),
		}, r.Now())
		r.jobs.drop(key, ended)
		return
	case ended.step.kind == stepLoad:
		r.confirmed.set(key, modelIn(ended.pod, ended.step.model))
	case ended.step.kind == stepUnload:
		r.dropped.set(key, modelIn(ended.pod, ended.step.model))
	case ended.step.kind == stepFinish:
		f.finished = true
	case ended.answer != nil && ended.run == nvidiagpullm.Run(f.resource) && ended.index == len(f.answers):
		f.answers = append(f.answers, *ended.answer)
		r.heard.remember(key, ended.run, f.answers)
	}
	r.failures.forget(key)
	f.ended = ended
}

// modelIn names a model in a pod's server.
func modelIn(pod types.UID, model string) string { return string(pod) + "/" + model }

// doubt takes a model off the list of those in memory as long as nobody has heard
// the server say that it is loaded: it lists one that it still loads, too. What the
// status says was heard before the operator was started.
func (r *Reconciler) doubt(f *facts) {
	model := normal(nvidiagpullm.Model(f.resource))
	if f.pod == nil || f.resource.Status.ModelLoaded == model ||
		r.confirmed.of(client.ObjectKeyFromObject(f.resource)) == modelIn(f.pod.UID, model) {
		return
	}
	f.server.loaded = slices.DeleteFunc(f.server.loaded, func(name string) bool { return name == model })
}

// former is the model that was loaded before, unless the server was told to drop
// it: it does so when the last who asks it something is answered.
func (r *Reconciler) former(f *facts) string {
	former := f.resource.Status.ModelLoaded
	if r.dropped.of(client.ObjectKeyFromObject(f.resource)) == modelIn(f.pod.UID, former) {
		return ""
	}
	return former
}

// place is what a step depends on beside the spec: the server, and the room that
// its store has. The room is known only once a pass has looked at the claim.
func (f *facts) place() string {
	if f.pod == nil {
		return f.room
	}
	return string(f.pod.UID) + " " + f.room
}

// prunes tells how the server of the pod is to start. That stays as it is for a
// pod that is there, since a change would be another pod, unless its store has to
// be cleared up.
func (r *Reconciler) prunes(f *facts) bool {
	key := client.ObjectKeyFromObject(f.resource)
	if f.pod != nil && nvidiagpullm.IsPruning(f.pod) {
		r.damaged.forget(key)
		return true
	}
	return r.damaged.of(key) != ""
}

// drive starts the next step. Its error says what is waited for, or that nothing
// goes on before someone acts.
func (r *Reconciler) drive(f *facts) error {
	key := client.ObjectKeyFromObject(f.resource)
	if err := f.stopped(); err != nil {
		return err
	}
	if failed := r.failures.of(key, f.resource.Generation); failed != nil {
		if condition.IsStop(failed.err) || failed.place == f.place() && f.now.Before(failed.until) {
			f.retryAt = failed.until
			return failed.err
		}
	}
	if f.pod == nil || f.completed() || f.finished {
		return nil
	}
	what := next(f.resource, f.server, len(f.answers), r.former(f))
	if f.ended != nil {
		f.job = f.ended.followedBy(what) // told now, and begun when this one is written down
		return nil
	}
	f.job = r.jobs.look(key)
	if f.job != nil && f.job.pod != f.pod.UID {
		r.jobs.stop(key) // its server is gone
		f.job = nil
	}
	if f.job != nil && f.job.step.kind == stepPull && f.job.step.model != normal(nvidiagpullm.Model(f.resource)) {
		r.jobs.stop(key) // another model is wanted by now
		f.job = nil
	}
	if f.job == nil && what.kind != stepNone {
		r.jobs.start(key, &job{
			step: what, generation: f.resource.Generation, pod: f.pod.UID, place: f.place(), run: nvidiagpullm.Run(f.resource), index: len(f.answers),
		}, r.run(f, what))
		f.job = r.jobs.look(key)
	}
	return nil
}

// run is the function that carries a step out.
func (r *Reconciler) run(f *facts, what step) func(context.Context, func(int)) (*nvidiagpullm.Answer, error) {
	server, resource := r.Dial(f.pod), f.resource
	return func(ctx context.Context, progress func(int)) (*nvidiagpullm.Answer, error) {
		ctx, cancel := context.WithTimeout(ctx, limitOf(resource, what))
		defer cancel()
		switch what.kind {
		case stepPull:
			return nil, server.Pull(ctx, what.model, resource.Spec.InsecureRegistry, func(p ollama.Progress) { progress(p.Percent()) })
		case stepMark:
			return nil, server.Copy(ctx, what.model, nvidiagpullm.RunningAlias)
		case stepLoad:
			return nil, server.Load(ctx, what.model, keep(resource))
		case stepUnload:
			return nil, server.Unload(ctx, what.model)
		case stepFinish:
			return nil, server.Delete(ctx, nvidiagpullm.RunningAlias)
		case stepPrompt:
			return prompted(ctx, server, resource, what)
		}
		return nil, nil
	}
}

func keep(resource *infrav1.NvidiaGpuLlm) time.Duration {
	if nvidiagpullm.KeepsAlive(resource) {
		return keepLoaded
	}
	return keepShortly
}

func limitOf(resource *infrav1.NvidiaGpuLlm, what step) time.Duration {
	switch what.kind {
	case stepPull:
		return pullTimeout
	case stepLoad:
		return loadTimeout
	case stepPrompt:
		return time.Duration(max(resource.Spec.PromptTimeoutSeconds, 1)) * time.Second
	default:
		return shortTimeout
	}
}

// prompted asks a prompt. An answer that takes too long is kept as far as it
// came, with a note: the next prompt has its turn.
func prompted(ctx context.Context, server Ollama, resource *infrav1.NvidiaGpuLlm, what step) (*nvidiagpullm.Answer, error) {
	// The tokens are bounded too: now and then Ollama misses that we have gone, and
	// would go on with an endless answer for ever, and with no other.
	limits := ollama.Limits{Bytes: nvidiagpullm.MaxAnswer, Tokens: nvidiagpullm.MaxAnswer}
	answer, err := server.Generate(ctx, what.model, what.prompt, limits)
	kept := &nvidiagpullm.Answer{Text: answer.Text}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		kept.Incomplete = fmt.Sprintf("cut after %d seconds (spec.promptTimeoutSeconds)", resource.Spec.PromptTimeoutSeconds)
	case err != nil:
		return nil, err
	case answer.Truncated:
		kept.Incomplete = fmt.Sprintf("cut after %d bytes", nvidiagpullm.MaxAnswer)
	}
	return kept, nil
}

// explain turns what a server said into what happens next.
func explain(resource *infrav1.NvidiaGpuLlm, ended *job) error {
	model := ended.step.model
	switch err := ended.err; {
	case errors.Is(err, ollama.ErrModelNotFound):
		return condition.Stop(reasonModelNotFound, "model %s doesn't exist in its registry; correct spec.model", model)
	case errors.Is(err, ollama.ErrNoSpace):
		return condition.Wait(reasonNoSpace, "there is no room for model %s; %s; it goes on when there is", model, moreRoom(resource))
	case errors.Is(err, ollama.ErrNoMemory):
		return condition.Stop(reasonNoMemory, "model %s doesn't fit into the pod's memory; raise spec.memory", model)
	case errors.Is(err, ollama.ErrRefused):
		return condition.Stop(reasonRefused, "model %s is refused: %w; correct spec.model, or use a registry that gives it to everybody", model, err)
	case errors.Is(err, ollama.ErrUnreachable):
		return condition.Wait(reasonServerGone, "the server in pod %s stopped answering; it is asked again", resource.Spec.LLMName)
	case ended.step.kind == stepPull:
		return condition.Wait(reasonPullFailed, "model %s can't be fetched: %w; it is tried again", model, err)
	default:
		return condition.Wait(reasonServerFailed, "the server in pod %s failed at %s of %s: %w; it is tried again",
			resource.Spec.LLMName, ended.step.kind, model, err)
	}
}

func moreRoom(resource *infrav1.NvidiaGpuLlm) string {
	if resource.Spec.PersistentStorage {
		return "raise spec.storageSize, or remove models that aren't needed"
	}
	return "set spec.persistentStorage and spec.storageSize, or free disk space on the node"
}

// stopped is a fault that was found for this very spec before the operator was
// started: it isn't tried again until the spec changes.
func (f *facts) stopped() error {
	stalled := condition.Find(f.resource.Status.Conditions, condition.Stalled)
	if stalled == nil || stalled.ObservedGeneration != f.resource.Generation || !isFinal(stalled.Reason) {
		return nil
	}
	return condition.Stop(stalled.Reason, "%s", stalled.Message)
}

// failures remember which resource's step failed, and when it is tried again.
type failures struct {
	mu    sync.Mutex
	known map[types.NamespacedName]*failure
}

type failure struct {
	generation int64
	place      string // as facts.place tells
	longest    time.Duration
	err        error
	count      int
	until      time.Time
}

// longestPauseOf is the longest pause after an error.
func longestPauseOf(err error) time.Duration {
	if errors.Is(err, ollama.ErrNoSpace) {
		return longestWithoutRoom
	}
	return longestPause
}

// of gives a resource's failure with its present spec.
func (f *failures) of(key types.NamespacedName, generation int64) *failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found := f.known[key]; found != nil && found.generation == generation {
		return found
	}
	return nil
}

func (f *failures) note(key types.NamespacedName, made failure, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[types.NamespacedName]*failure{}
	}
	if before := f.known[key]; before != nil && before.generation == made.generation {
		made.count = before.count + 1
	}
	made.until = now.Add(min(firstPause<<min(made.count, 10), made.longest))
	f.known[key] = &made
}

func (f *failures) forget(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, key)
}

// notes remember one word about each resource.
type notes struct {
	mu    sync.Mutex
	known map[types.NamespacedName]string
}

func (n *notes) set(key types.NamespacedName, word string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = map[types.NamespacedName]string{}
	}
	n.known[key] = word
}

func (n *notes) of(key types.NamespacedName) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known[key]
}

func (n *notes) forget(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, key)
}
