// Package helm is the one door to the Helm SDK: it renders, checks, installs,
// upgrades and uninstalls releases of charts. It decides nothing about when a
// release is due, knows no kind of Slipway's and never reaches a registry.
//
// Four of the SDK's defaults are not Slipway's, because each surprises:
//
//   - Field manager. The SDK signs its writes with the name of the running
//     program, so that the same release installed by `slipway`, by
//     `kubectl-slipway` and by `helm` would conflict with itself. Here it is
//     always "helm", so that a user may change from one to another.
//   - Server-side apply. An upgrade by default goes on as the release began,
//     which for one that Helm 3 made means client-side patches for ever. Here
//     every write is a server-side apply; the SDK moves the old field ownership
//     over.
//   - Conflicts. They aren't forced unless a request says so: a field that
//     someone else took is their decision until a person says otherwise. The
//     error names the fields and the way out.
//   - Waiting. The SDK waits without a word about what it waits for, and an
//     empty strategy is an error. Here a release waits for its hooks only
//     unless a request asks for more, and whoever needs progress watches the
//     objects.
//
// The one post-renderer puts labels on objects; whatever else Slipway changes in
// a chart it changes through values. The strategy is always set, because the SDK
// by default sends hooks through together with the templates, where two objects
// of one name would get in each other's way.
//
// There are two sides to it. Client is for a person who installs one thing and
// waits. Releases is for releases at run time: single actions, each of which may
// die at any point, that another package decides on (package release).
package helm

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	releaser "helm.sh/helm/v4/pkg/release"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/client-go/rest"
)

// FieldManager signs every object of every release. It is what the helm command
// uses.
const FieldManager = "helm"

// MaxHistory is how many revisions of a release are kept, each in a Secret.
const MaxHistory = 10

// ErrNotFound means that there is no such release.
var ErrNotFound = errors.New("release not found")

// Release is what a release's newest revision says.
type Release struct {
	Name       string
	Namespace  string
	Revision   int
	Status     string // as `helm list` prints it: deployed, failed, pending-install, …
	Chart      string // name and version
	AppVersion string
	Manifest   string // the rendered objects, hooks left out
	Changed    time.Time
}

// Client works on the releases of one namespace. It is safe for concurrent use
// on different releases.
type Client struct {
	config    *rest.Config
	namespace string
	log       slog.Handler
	now       func() time.Time
}

// setFieldManager sets the SDK's field manager, which is a variable of its
// package, once.
var setFieldManager = sync.OnceFunc(func() { kube.ManagedFieldsManager = FieldManager })

// New returns a client for the releases in namespace. The SDK's own log lines go
// to log; now is the clock.
func New(config *rest.Config, namespace string, log slog.Handler, now func() time.Time) *Client {
	setFieldManager()
	return &Client{config: config, namespace: namespace, log: log, now: now}
}

// configuration connects the SDK to the cluster, with releases stored in
// Secrets, where the helm command finds them. It is made anew for each action,
// because it caches what the cluster serves.
func (c *Client) configuration() (*action.Configuration, error) {
	getter, err := newGetter(c.config, c.namespace)
	if err != nil {
		return nil, err
	}
	configuration := action.NewConfiguration(action.ConfigurationSetLogger(c.log))
	if err := configuration.Init(getter, c.namespace, "secrets"); err != nil {
		return nil, err
	}
	configuration.Releases.MaxHistory = MaxHistory
	return configuration, nil
}

// Get returns the newest revision of a release, or ErrNotFound.
func (c *Client) Get(name string) (Release, error) {
	configuration, err := c.configuration()
	if err != nil {
		return Release{}, err
	}
	return last(configuration, name)
}

// last returns the newest revision of a release, or ErrNotFound.
func last(configuration *action.Configuration, name string) (Release, error) {
	found, err := configuration.Releases.Last(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return Release{}, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err != nil {
		return Release{}, fmt.Errorf("read release %s: %w", name, err)
	}
	return convert(found)
}

// convert takes what Slipway uses from the SDK's release.
func convert(found releaser.Releaser) (Release, error) {
	rel, ok := found.(*release.Release)
	if !ok || rel == nil {
		return Release{}, fmt.Errorf("a release of type %T can't be read; it was written by another version of Helm", found)
	}
	result := Release{Name: rel.Name, Namespace: rel.Namespace, Revision: rel.Version, Manifest: rel.Manifest}
	if rel.Info != nil {
		result.Status = rel.Info.Status.String()
		result.Changed = rel.Info.LastDeployed
	}
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		result.Chart = rel.Chart.Metadata.Name + "-" + rel.Chart.Metadata.Version
		result.AppVersion = rel.Chart.Metadata.AppVersion
	}
	return result, nil
}
