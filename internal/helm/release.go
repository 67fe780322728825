package helm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartcommon "helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/kube"
	releaser "helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// PendingGrace is how long a release may stay in a pending state before it
// counts as abandoned by a process that died. It is longer than any timeout
// that a request may carry.
const PendingGrace = MaxTimeout + time.Minute

// MaxTimeout bounds the time of one action.
const MaxTimeout = 30 * time.Minute

// Request asks for a release.
type Request struct {
	Name   string
	Chart  *Chart
	Values map[string]any
	// Timeout of the whole action, at most MaxTimeout.
	Timeout time.Duration
	// Wait until every object is ready, in place of hooks only.
	Wait bool
	// ForceConflicts takes over fields that someone else has changed.
	ForceConflicts bool
	// TakeOwnership adopts objects that exist and belong to no release.
	TakeOwnership bool
	// DryRun renders against the cluster and writes nothing.
	DryRun bool
}

// PendingError means that another process is at work on the release.
type PendingError struct {
	Release Release
	// Left is the time after which the release counts as abandoned.
	Left time.Duration
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("release %s is %s since %s: another process is at work on it; wait for it, or, if it has died, try again in %s",
		e.Release.Name, e.Release.Status, e.Release.Changed.UTC().Format(time.RFC3339), e.Left.Round(time.Second))
}

// Apply installs the release, or upgrades the one that is there, and returns it
// as it then is. CRDs in the chart are left alone: Helm never upgrades them, so
// that they are whoever's who calls. Values are the request's alone; those of
// an earlier revision are forgotten, so that the same request is always the
// same release.
//
// It returns a *PendingError while another process is at work. An action that is
// interrupted leaves a failed or pending release, which the next call takes up.
func (c *Client) Apply(ctx context.Context, request Request) (Release, error) {
	if request.Timeout <= 0 || request.Timeout > MaxTimeout {
		return Release{}, fmt.Errorf("a timeout of %s is out of bounds; choose one up to %s", request.Timeout, MaxTimeout)
	}
	configuration, err := c.configuration()
	if err != nil {
		return Release{}, err
	}
	current, err := last(configuration, request.Name)
	exists := err == nil
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Release{}, err
	}
	if exists && common.Status(current.Status).IsPending() && !request.DryRun {
		if err := c.abandon(configuration, current); err != nil {
			return Release{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, request.Timeout)
	defer cancel()
	var result releaser.Releaser
	if !exists || common.Status(current.Status) == common.StatusUninstalled {
		result, err = install(configuration, c.namespace, request).RunWithContext(ctx, request.Chart.chart, request.Values)
	} else {
		result, err = upgrade(configuration, c.namespace, request).RunWithContext(ctx, request.Name, request.Chart.chart, request.Values)
	}
	if err != nil {
		return Release{}, explain(request.Name, err)
	}
	return convert(result)
}

// abandon marks a release as failed that has been pending for too long, so that
// the next action may go on from it.
func (c *Client) abandon(configuration *action.Configuration, current Release) error {
	if left := PendingGrace - c.now().Sub(current.Changed); left > 0 {
		return &PendingError{Release: current, Left: left}
	}
	found, err := configuration.Releases.Get(current.Name, current.Revision)
	if err != nil {
		return fmt.Errorf("read release %s: %w", current.Name, err)
	}
	rel, ok := found.(*release.Release)
	if !ok {
		return fmt.Errorf("a release of type %T can't be taken up", found)
	}
	rel.SetStatus(common.StatusFailed, "the process that worked on it has ended")
	return configuration.Releases.Update(rel)
}

func install(configuration *action.Configuration, namespace string, request Request) *action.Install {
	run := action.NewInstall(configuration)
	run.ReleaseName = request.Name
	run.Namespace = namespace
	run.SkipCRDs = true
	run.ServerSideApply = true
	run.ForceConflicts = request.ForceConflicts
	run.TakeOwnership = request.TakeOwnership
	run.WaitStrategy = waitStrategy(request.Wait)
	run.WaitForJobs = request.Wait
	run.Timeout = request.Timeout
	run.PostRenderStrategy = action.PostRenderStrategyNoHooks
	if request.DryRun {
		run.DryRunStrategy = action.DryRunServer
	}
	return run
}

func upgrade(configuration *action.Configuration, namespace string, request Request) *action.Upgrade {
	run := action.NewUpgrade(configuration)
	run.Namespace = namespace
	run.SkipCRDs = true
	run.ServerSideApply = "true"
	run.ForceConflicts = request.ForceConflicts
	run.TakeOwnership = request.TakeOwnership
	run.ResetValues = true
	run.MaxHistory = MaxHistory
	run.WaitStrategy = waitStrategy(request.Wait)
	run.WaitForJobs = request.Wait
	run.Timeout = request.Timeout
	run.PostRenderStrategy = action.PostRenderStrategyNoHooks
	if request.DryRun {
		run.DryRunStrategy = action.DryRunServer
	}
	return run
}

func waitStrategy(wait bool) kube.WaitStrategy {
	if wait {
		return kube.StatusWatcherStrategy
	}
	return kube.HookOnlyStrategy
}

// Template renders a request without a cluster, as `helm template` does, and
// returns the objects as YAML documents. kubeVersion is the version that the
// chart is told (v1.36.0); the SDK's own if empty.
func Template(request Request, namespace, kubeVersion string) (string, error) {
	configuration := action.NewConfiguration()
	run := install(configuration, namespace, request)
	run.DryRunStrategy = action.DryRunClient
	run.Replace = true // Skips the search for a release of the same name.
	if kubeVersion != "" {
		version, err := chartcommon.ParseKubeVersion(kubeVersion)
		if err != nil {
			return "", err
		}
		run.KubeVersion = version
	}
	rendered, err := run.RunWithContext(context.Background(), request.Chart.chart, request.Values)
	if err != nil {
		return "", explain(request.Name, err)
	}
	result, err := convert(rendered)
	return result.Manifest, err
}

// Uninstall removes a release, its objects and its history. A release that isn't
// there is ErrNotFound. It returns when the deletions are accepted: the SDK's own
// wait counts an object as gone that it hasn't looked at yet. Objects are deleted
// in the foreground, so that a Deployment is gone once its pods are.
func (c *Client) Uninstall(name string, timeout time.Duration) error {
	if timeout <= 0 || timeout > MaxTimeout {
		return fmt.Errorf("a timeout of %s is out of bounds; choose one up to %s", timeout, MaxTimeout)
	}
	configuration, err := c.configuration()
	if err != nil {
		return err
	}
	run := action.NewUninstall(configuration)
	run.WaitStrategy = kube.HookOnlyStrategy
	run.DeletionPropagation = "foreground"
	run.Timeout = timeout
	_, err = run.Run(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err != nil {
		return fmt.Errorf("uninstall release %s: %w", name, err)
	}
	return nil
}

// explain adds the way out to the errors of the SDK that have one.
func explain(name string, err error) error {
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status) && apierrors.IsConflict(err), strings.Contains(err.Error(), "conflict occurred while applying object"):
		return fmt.Errorf("release %s: %w; someone else has changed these fields: undo the change, "+
			"put it into the release's values, or take the fields over with --force-conflicts", name, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("release %s isn't done in time: %w; try again with a longer --timeout", name, err)
	default:
		return fmt.Errorf("release %s: %w", name, err)
	}
}
