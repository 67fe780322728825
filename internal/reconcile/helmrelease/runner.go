package helmrelease

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/release"
)

// Bounds of what is kept to save requests. Nothing depends on it.
const (
	maxRecords   = 4096  // revisions, about 1 KiB each
	maxManifests = 512   // objects of revisions
	maxChecked   = 65536 // objects that were compared with the release
	maxEngines   = 64    // service accounts
	maxNotes     = 1024  // releases
)

// Runner runs releases. It is safe for concurrent use on different releases.
type Runner struct {
	options Options
	clock   clock.PassiveClock
	// records and manifests are by the UID and version of the Secret that they were
	// read from, checked by the digest of what was compared.
	records, manifests, checked, engines, notes *lru.Cache
	making                                      sync.Mutex // of engines
}

// note is what is remembered of a release between Runs.
type note struct {
	// acted: what the last Run did may not be in the cache yet.
	acted bool
	// fault is what kept an action from being stored, for the given config.
	fault       error
	config      string
	at          time.Time
	corrections int
	drift       object.Digest
	uninstalls  int
}

// New makes a runner.
func New(options Options) *Runner {
	r := &Runner{
		options: options, clock: options.Clock,
		records: lru.New(maxRecords), manifests: lru.New(maxManifests), checked: lru.New(maxChecked),
		engines: lru.New(maxEngines), notes: lru.New(maxNotes),
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	return r
}

// again is when to look after an action: at once, with a breath for the cache.
const again = 10 * time.Millisecond

func (r *Runner) run(ctx context.Context, want Want) (Report, error) {
	want.Timeout = cmp.Or(want.Timeout, release.DefaultTimeout)
	if want.Timeout < 0 || want.Timeout > helm.MaxTimeout {
		return Report{}, condition.Stop(condition.ReasonInvalidSpec, "a timeout of %s is out of bounds; choose one up to %s", want.Timeout, helm.MaxTimeout)
	}
	key := types.NamespacedName{Namespace: want.Namespace, Name: want.Name}
	remembered := r.recall(key)
	seen, err := r.look(ctx, want, remembered, remembered.acted || r.options.Cache == nil)
	if err != nil {
		return seen.report(), err
	}
	if seen.decision.Kind.Acts() && !seen.newest {
		// The cache may be behind: what acts is decided by the server's word.
		if seen, err = r.look(ctx, want, remembered, true); err != nil {
			return seen.report(), err
		}
	}
	report := seen.report()
	remembered.acted = seen.decision.Kind.Acts()
	if !remembered.acted {
		r.remember(key, remembered)
		return report, nil
	}
	if err := r.standing(remembered, seen); err != nil {
		report.Again = faultFor
		return report, err
	}
	err = r.act(ctx, want, seen, &remembered)
	r.remember(key, remembered)
	report.Acted = err == nil
	report.Again = again
	switch {
	case condition.IsStop(err):
		report.Again = faultFor
	case err != nil:
		report.Again = waitFor
	}
	return report, err
}

func (r *Runner) recall(key types.NamespacedName) note {
	if known, there := r.notes.Get(key); there {
		return known.(note) //nolint:forcetypeassert // nothing else is kept
	}
	return note{}
}

func (r *Runner) remember(key types.NamespacedName, n note) {
	if n == (note{}) {
		r.notes.Remove(key)
		return
	}
	r.notes.Add(key, n)
}

// faultFor is how long a fault that only another spec mends stands before the
// chart is rendered again, in case it was the cluster that changed.
const faultFor = 5 * time.Minute

// waitFor is when to try again what someone else must make possible, since not
// every such thing is watched.
const waitFor = 30 * time.Second

// standing gives the fault of an action that would only fail again.
func (r *Runner) standing(n note, seen *sight) error {
	if n.fault != nil && n.config == seen.config && condition.IsStop(n.fault) && r.clock.Now().Sub(n.at) < faultFor &&
		(seen.decision.Kind == release.Install || seen.decision.Kind == release.Upgrade) {
		return n.fault
	}
	return nil
}

// engine applies and reads objects with a service account's rights.
func (r *Runner) engine(want Want) (*apply.Engine, error) {
	r.making.Lock()
	defer r.making.Unlock()
	account := types.NamespacedName{Name: want.ServiceAccount}
	if want.ServiceAccount != "" {
		account.Namespace = want.Namespace
	}
	if known, there := r.engines.Get(account); there {
		return known.(*apply.Engine), nil //nolint:forcetypeassert // nothing else is kept
	}
	writer := r.options.Client
	if want.ServiceAccount != "" {
		var err error
		writer, err = client.New(helm.Impersonate(r.options.Config, want.Namespace, want.ServiceAccount),
			client.Options{Scheme: r.options.Client.Scheme(), Mapper: r.options.Client.RESTMapper()})
		if err != nil {
			return nil, fmt.Errorf("connect as service account %s: %w", account, err)
		}
	}
	made := apply.New(apply.Options{Client: writer, Cache: r.options.Cache, FieldManager: helm.FieldManager})
	r.engines.Add(account, made)
	return made, nil
}

// sight is what a look at a release found.
type sight struct {
	newest    bool // all of it was read from the server
	config    string
	stored    []helm.Stored // the oldest first
	objects   []held
	readiness readiness.Result
	drift     []drifted
	remaining []string
	decision  release.Decision
}

func (s *sight) last() *helm.Stored {
	if s == nil || len(s.stored) == 0 {
		return nil
	}
	return &s.stored[len(s.stored)-1]
}

func (s *sight) report() Report {
	if s == nil {
		return Report{}
	}
	report := Report{Decision: s.decision, Readiness: s.readiness, Config: s.config, Again: s.decision.Again}
	for _, each := range s.drift {
		report.Drift = append(report.Drift, each.sentence)
	}
	report.Live = s.live()
	if last := s.last(); last != nil {
		newest := last.Revision
		report.Newest = &newest
		report.Last = Action{Kind: s.lastKind(), Time: newest.Changed, Result: string(newest.Status), Detail: newest.Description}
	}
	return report
}

// live are the objects that are there.
func (s *sight) live() []*unstructured.Unstructured {
	var live []*unstructured.Unstructured
	for _, each := range s.objects {
		if each.live != nil {
			live = append(live, each.live)
		}
	}
	return live
}

func (s *sight) lastKind() release.Kind {
	last := s.last()
	switch {
	case last.Status == release.Uninstalled || last.Status == release.Uninstalling:
		return release.Uninstall
	case last.RolledBackTo != 0:
		return release.Rollback
	case len(s.stored) == 1 && last.Number == 1:
		return release.Install
	}
	return release.Upgrade
}

// look reads everything that a decision needs, and decides.
func (r *Runner) look(ctx context.Context, want Want, n note, newest bool) (*sight, error) {
	s := &sight{newest: newest, config: configOf(want)}
	var err error
	if s.stored, err = r.history(ctx, want, newest); err != nil {
		return s, err
	}
	state := release.State{
		History: helm.Revisions(s.stored), Patience: want.Timeout, Grace: helm.PendingGrace, Now: r.clock.Now(),
	}
	if !want.Removed {
		state.Wanted = &release.Wanted{
			Config: s.config, Timeout: want.Timeout, Remediation: want.Remediation, Test: want.Test,
			Drift: want.Drift.Mode, Unavailable: want.Unavailable, Hold: want.Hold,
		}
		if want.Chart == nil && want.Unavailable == "" {
			state.Wanted.Unavailable = "the chart isn't there yet"
		}
	}
	if last := s.last(); last != nil && !want.Removed && !last.Status.IsPending() && last.Status != release.Uninstalling {
		if err := r.lookAtObjects(ctx, want, s); err != nil {
			return s, err
		}
	}
	if last := s.last(); last != nil && last.Status == release.Uninstalled {
		if s.remaining, err = r.remaining(ctx, want, s); err != nil {
			return s, err
		}
	}
	if want.Explain != nil && len(s.objects) > 0 && s.readiness.Status != readiness.Ready {
		s.readiness.Message = cmp.Or(want.Explain(ctx, s.live()), s.readiness.Message)
	}
	state.Readiness, state.Remaining = s.readiness, s.remaining
	for _, each := range s.drift {
		state.Drift = append(state.Drift, each.sentence)
	}
	state.Contested = n.contested(state.Drift, r.clock.Now())
	s.decision = release.Next(state)
	return s, nil
}

// Drift that comes back contestedAfter times is corrected once in contestedFor.
const (
	contestedAfter = 5
	contestedFor   = time.Minute
)

func (n note) contested(drift []string, now time.Time) bool {
	return len(drift) > 0 && n.corrections >= contestedAfter && n.drift == object.Hash(asAny(drift)) && now.Sub(n.at) < contestedFor
}

func asAny(words []string) []any {
	list := make([]any, len(words))
	for i, word := range words {
		list[i] = word
	}
	return list
}

// configOf is the digest of what is asked for, as far as it changes what is made.
func configOf(want Want) string {
	if want.Removed || want.Chart == nil {
		return ""
	}
	h := object.NewHasher()
	h.Value(cmp.Or(want.Digest, want.Chart.Digest()))
	if len(want.Values) > 0 {
		h.Value(want.Values)
	}
	h.Value("labels")
	if len(want.Labels) > 0 {
		h.Value(want.Labels)
	}
	h.Value(want.Again)
	return h.Sum().String()
}
