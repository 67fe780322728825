// Package helmrelease carries out, one action at a time, what package release
// decides for a Helm release, and reports what is live. It learns what happened
// from Helm's storage and keeps no state of its own but caches that save
// requests. It knows no kind of Slipway's, fetches no chart and makes no
// namespace unless it is asked to.
package helmrelease

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/release"
)

// Want is a release that shall be, or shall be gone.
type Want struct {
	Name      string
	Namespace string
	// Removed: the release shall be gone, and so shall its objects. Of the other
	// fields only Timeout and ServiceAccount count then.
	Removed bool
	// Chart is what to install; nil when it can't be had at the moment, in which
	// case Unavailable says why and what runs is left as it is.
	Chart       *helm.Chart
	Unavailable string
	// Hold says what must come before the next install or upgrade; the decision is
	// then a Wait with release.ReasonHeld where one is due. Everything else goes on.
	Hold string
	// Digest of the chart's archive, sha256:…. Together with Values, Labels and
	// Again it makes the config, by which a change is known.
	Digest string
	// Values are merged already and complete.
	Values map[string]any
	// Timeout of each action, and of the wait for readiness after it; five minutes
	// if zero, at most helm.MaxTimeout.
	Timeout     time.Duration
	Remediation release.Remediation
	// Test runs the chart's test hooks on each new revision once it is ready.
	Test  bool
	Drift release.DriftPolicy
	// CRDs says what happens with what is in the chart's crds/.
	CRDs CRDPolicy
	// ForceConflicts takes over fields that someone else has changed.
	ForceConflicts bool
	// TakeOwnership adopts objects that exist and belong to no release.
	TakeOwnership bool
	// ToAdopt is what a user sets to have TakeOwnership; empty: takeOwnership.
	ToAdopt string
	// CreateNamespace makes the release's namespace if it isn't there. It is never
	// deleted.
	CreateNamespace bool
	// Labels are put on every object of the chart, its hooks included. Pods don't
	// get them from their workload.
	Labels map[string]string
	// DefinitionLabels are put on what is in the chart's crds/. They are no part of the
	// config.
	DefinitionLabels map[string]string
	// ServiceAccount of the release's namespace with whose rights the objects are
	// made; our own rights if empty. The release is always stored with our own.
	ServiceAccount string
	// Again makes the same chart and values another config when it changes: what a
	// user sets to have a failed release tried again.
	Again string
	// Explain, if set, says why objects of the release don't get ready, where that is
	// known; empty otherwise. It is asked only while they don't.
	Explain func(ctx context.Context, live []*unstructured.Unstructured) string
}

// CRDPolicy says what happens with a chart's crds/. They are never deleted.
type CRDPolicy string

// The policies. The empty one is CRDsCreateReplace.
const (
	CRDsCreate        CRDPolicy = "Create"        // make those that aren't there
	CRDsCreateReplace CRDPolicy = "CreateReplace" // and bring the others up to date
	CRDsSkip          CRDPolicy = "Skip"
)

// Options of a Runner. Config and Client are required.
type Options struct {
	// Config reaches the API server for Helm.
	Config *rest.Config
	// Client writes objects and knows the kinds that are served; it must not cache
	// unstructured objects.
	Client client.Client
	// Cache reads objects without a request, as apply.Options.Cache does. It is also
	// asked for the metadata (metav1.PartialObjectMetadata) of the Secrets that hold
	// releases: those with the label owner=helm. A kind that it refuses with
	// cache.ErrResourceNotCached is read from the server. Nil: every read is a
	// request.
	Cache client.Reader
	// Log gets the SDK's lines; nil drops them.
	Log slog.Handler
	// Clock is the real one if nil.
	Clock clock.PassiveClock
}

// Report is how a release stands.
type Report struct {
	// Newest is the newest stored revision; nil when there is none.
	Newest *release.Revision
	// Decision is what was decided, before it was carried out.
	Decision release.Decision
	// Acted is true when the decision was carried out: the next Run tells what came
	// of it, and Again asks for it at once.
	Acted bool
	// Live are the objects of the newest revision that are there, without
	// managedFields. Missing ones count in Readiness.
	Live      []*unstructured.Unstructured
	Readiness readiness.Result
	// Drift names what differs from the newest revision, a sentence each.
	Drift []string
	// Config is the digest of what is wanted, as it is stored with a revision.
	Config string
	Last   Action
	// Again is when to Run again at the latest; zero when a watch tells.
	Again time.Duration
}

// Action is the last action on a release, as the storage tells.
type Action struct {
	Kind   release.Kind // Install, Upgrade, Rollback or Uninstall
	Time   time.Time
	Result string // Helm's status: deployed, failed, …
	Detail string // Helm's description
}

// Gone reports whether nothing of a removed release is left that is ours: one
// that somebody else made and that we never touched stays theirs.
func (r Report) Gone() bool {
	return r.Decision.Kind == release.Nothing &&
		(r.Decision.Reason == release.ReasonUninstalled || r.Decision.Reason == release.ReasonNotOurs)
}

// Outcome is the report as a condition tells it. An error that Run returned comes
// before it (condition.Classify).
func (r Report) Outcome() condition.Outcome {
	outcome := condition.Outcome{Reason: r.Decision.Reason, Message: r.Decision.Message, Verdict: condition.Waiting}
	switch r.Decision.Kind { //nolint:exhaustive // the others are on their way
	case release.Nothing:
		outcome.Verdict = condition.Done
	case release.Stop:
		outcome.Verdict = condition.Stopped
	}
	return outcome
}

// Run looks at a release, carries out at most one action, and reports. It is
// called again until Report.Again is zero and nothing changes; after an action
// that is at once. The caller runs one Run for each release at a time, in one
// process of the cluster.
//
// The error is condition's: a Stop for what only another spec can mend, a Wait
// for what someone else must do, or what is retried. The report is filled beside
// an error as far as it is known.
func (r *Runner) Run(ctx context.Context, want Want) (Report, error) {
	return r.run(ctx, want)
}

// Look reads a release from the server and decides, and carries nothing out: what
// Run would do next.
func (r *Runner) Look(ctx context.Context, want Want) (Report, error) {
	want.Timeout = cmp.Or(want.Timeout, release.DefaultTimeout)
	seen, err := r.look(ctx, want, note{}, true)
	return seen.report(), err
}
