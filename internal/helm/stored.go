package helm

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	common "helm.sh/helm/v4/pkg/release/common"
	sdk "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/internal/release"
)

// The labels by which the Secret of a revision says what Slipway knows of it.
// Helm copies the labels of one revision to the next, and to a rollback, so each
// value names the revision that it is about.
const (
	labelConfig   = "slipway.dev/config"   // the digest of what was asked for
	labelRevision = "slipway.dev/revision" // N: Slipway made revision N
	labelSettled  = "slipway.dev/settled"  // N: revision N was ready
	labelFault    = "slipway.dev/fault"    // N-late, N-failed or N-interrupted
)

// Fault is what failed about a revision.
type Fault string

// The faults.
const (
	FaultFailed      Fault = "failed"
	FaultLate        Fault = "late"
	FaultInterrupted Fault = "interrupted"
)

// SecretLabels select the Secrets that hold a release's revisions.
func SecretLabels(name string) map[string]string {
	return map[string]string{"owner": "helm", "name": name}
}

// MaxRelease bounds a stored release, unpacked. Packed, it fits a Secret (1 MiB).
const MaxRelease = 64 << 20

// Stored is a revision with what Helm applied for it.
type Stored struct {
	release.Revision
	Manifest string // the rendered objects, hooks left out
	Secret   SecretKey

	labels map[string]string
}

// SecretKey names the Secret that a revision was read from, and its version.
type SecretKey struct {
	Name    string
	UID     types.UID
	Version string
}

// Decode reads the Secret of a revision. Complete is to be called on all of a
// release.
func Decode(secret *corev1.Secret) (Stored, error) {
	rel, err := decode(secret.Data["release"])
	if err != nil || rel.Info == nil {
		return Stored{}, fmt.Errorf("the record %s/%s of a Helm release can't be read: %w; delete it if it is broken",
			secret.Namespace, secret.Name, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	key := SecretKey{Name: secret.Name, UID: secret.UID, Version: secret.ResourceVersion}
	stored := Stored{Manifest: rel.Manifest, Secret: key, labels: secret.Labels, Revision: release.Revision{
		Number: rel.Version, Status: release.Status(rel.Info.Status), Description: rel.Info.Description,
		Changed: changed(rel, secret.Labels["modifiedAt"]), RolledBackTo: rel.Info.RollbackRevision,
	}}
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		stored.Chart, stored.Version, stored.AppVersion = rel.Chart.Metadata.Name, rel.Chart.Metadata.Version, rel.Chart.Metadata.AppVersion
	}
	for _, hook := range rel.Hooks {
		if slices.Contains(hook.Events, sdk.HookTest) {
			stored.Tests = append(stored.Tests, release.TestHook{
				Name: hook.Kind + "/" + hook.Name, Phase: hook.LastRun.Phase.String(), Completed: hook.LastRun.CompletedAt,
			})
		}
	}
	return stored, nil
}

// changed is when the revision's action ended, as far as the record tells.
func changed(rel *sdk.Release, modified string) time.Time {
	latest := rel.Info.LastDeployed
	if seconds, err := strconv.ParseInt(modified, 10, 64); err == nil && time.Unix(seconds, 0).After(latest) {
		latest = time.Unix(seconds, 0)
	}
	if rel.Info.Status == common.StatusUninstalled || rel.Info.Status == common.StatusUninstalling {
		latest = rel.Info.Deleted
	}
	return latest.UTC()
}

// decode unpacks what Helm's driver packed: base64 of gzip of JSON.
func decode(packed []byte) (*sdk.Release, error) {
	raw, err := base64.StdEncoding.DecodeString(string(packed))
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b, 0x08}) {
		reader, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		if raw, err = io.ReadAll(io.LimitReader(reader, MaxRelease+1)); err != nil {
			return nil, err
		}
		if len(raw) > MaxRelease {
			return nil, fmt.Errorf("it unpacks to more than %d bytes", MaxRelease)
		}
	}
	rel := &sdk.Release{}
	return rel, json.Unmarshal(raw, rel)
}

// Complete works out what a release's revisions can tell only together, and
// sorts them, the oldest first.
func Complete(revisions []Stored) {
	slices.SortFunc(revisions, func(a, b Stored) int { return cmp.Compare(a.Number, b.Number) })
	for i := range revisions {
		r := &revisions[i]
		own := strconv.Itoa(r.Number)
		fault, is := strings.CutPrefix(r.labels[labelFault], own+"-")
		r.Settled = r.labels[labelSettled] == own
		r.Faulted = is
		r.Late, r.Interrupted = is && Fault(fault) == FaultLate, is && Fault(fault) == FaultInterrupted
		if r.RolledBackTo == 0 {
			r.Ours = r.labels[labelRevision] == own
			r.Config = ""
			if r.Ours {
				r.Config = r.labels[labelConfig]
			}
			continue
		}
		r.Config, r.Ours = repeated(revisions[:i], r), remedy(revisions[:i], r)
	}
}

// repeated is the config of the revision that a rollback repeats.
func repeated(before []Stored, rollback *Stored) string {
	for i := range before {
		if before[i].Number == rollback.RolledBackTo {
			return before[i].Config
		}
	}
	if rollback.labels[labelRevision] == strconv.Itoa(rollback.RolledBackTo) {
		return rollback.labels[labelConfig]
	}
	return ""
}

// remedy reports whether a rollback is ours: before we begin one we mark what we
// go back from as faulted. Where that is no longer kept, since the history is
// being deleted, it is ours if what it repeats was.
func remedy(before []Stored, rollback *Stored) bool {
	for _, r := range slices.Backward(before) {
		if r.RolledBackTo == 0 {
			return r.Faulted && r.Ours
		}
	}
	return rollback.labels[labelRevision] != ""
}

// Revisions are the revisions alone.
func Revisions(stored []Stored) []release.Revision {
	list := make([]release.Revision, len(stored))
	for i := range stored {
		list[i] = stored[i].Revision
	}
	return list
}
