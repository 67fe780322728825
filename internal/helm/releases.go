package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	sdk "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/release"
)

// Releases carries out single actions on the releases of a namespace. It decides
// nothing, and waits for hooks only. It is safe for concurrent use on different
// releases.
type Releases struct {
	config    *rest.Config
	account   string
	namespace string
	log       slog.Handler
}

// NewReleases works on the releases in namespace. Objects are made with the
// rights of a ServiceAccount of it, or with config's own if account is empty;
// records are always kept with config's own. log gets the SDK's lines.
func NewReleases(config *rest.Config, namespace, account string, log slog.Handler) *Releases {
	setFieldManager()
	if log == nil {
		log = slog.DiscardHandler
	}
	return &Releases{config: config, namespace: namespace, account: account, log: log}
}

// Impersonate gives a configuration with a ServiceAccount's rights; the same one
// if account is empty.
func Impersonate(config *rest.Config, namespace, account string) *rest.Config {
	if account == "" {
		return config
	}
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + account}
	return config
}

// Make is a revision to make.
type Make struct {
	Request
	// Config is stored with the revision (release.Revision.Config).
	Config string
	// Number is the revision's number: the newest one's and one.
	Number int
	// Labels are put on every object, hooks included.
	Labels map[string]string
	// CreateNamespace makes the release's namespace if it isn't there.
	CreateNamespace bool
}

// session is the SDK, connected for one action.
type session struct {
	*action.Configuration
	wait []kube.WaitOption
}

// open connects the SDK. Nothing is read or written after ctx ends; hooks are
// waited for until the timeout.
func (r *Releases) open(ctx context.Context, timeout time.Duration) (*session, func(), error) {
	if timeout <= 0 || timeout > MaxTimeout {
		return nil, nil, fmt.Errorf("a timeout of %s is out of bounds; choose one up to %s", timeout, MaxTimeout)
	}
	own := leashed(ctx, r.config)
	getter, err := newGetter(Impersonate(own, r.namespace, r.account), r.namespace)
	if err != nil {
		return nil, nil, err
	}
	records, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, nil, err
	}
	configuration := action.NewConfiguration(action.ConfigurationSetLogger(r.log))
	if err := configuration.Init(getter, r.namespace, "secrets"); err != nil {
		return nil, nil, err
	}
	secrets := driver.NewSecrets(records.CoreV1().Secrets(r.namespace))
	secrets.SetLogger(r.log)
	configuration.Releases = storage.Init(secrets)
	configuration.Releases.MaxHistory = MaxHistory
	waiting, cancel := context.WithTimeout(ctx, timeout)
	return &session{Configuration: configuration, wait: []kube.WaitOption{kube.WithWaitContext(waiting)}}, cancel, nil
}

// Install makes the first revision of a release, or the next of one that was
// uninstalled and whose history was kept.
func (r *Releases) Install(ctx context.Context, request Make) error {
	loaded, err := request.Chart.fresh()
	if err != nil {
		return err
	}
	session, end, err := r.open(ctx, request.Timeout)
	if err != nil {
		return err
	}
	defer end()
	run := install(session.Configuration, r.namespace, request.Request)
	run.Replace = request.Number > 1
	run.Labels = request.mark()
	run.CreateNamespace = request.CreateNamespace
	run.WaitOptions = session.wait
	if len(request.Labels) > 0 {
		run.PostRenderer, run.PostRenderStrategy = labeler(request.Labels), action.PostRenderStrategySeparate
	}
	_, err = run.RunWithContext(ctx, loaded, values(request.Values))
	return err
}

// Upgrade makes the next revision of a release.
func (r *Releases) Upgrade(ctx context.Context, request Make) error {
	loaded, err := request.Chart.fresh()
	if err != nil {
		return err
	}
	session, end, err := r.open(ctx, request.Timeout)
	if err != nil {
		return err
	}
	defer end()
	run := upgrade(session.Configuration, r.namespace, request.Request)
	run.Labels = request.mark()
	// Helm would copy these from the revision before; "null" drops them.
	run.Labels[labelSettled], run.Labels[labelFault] = "null", "null"
	run.WaitOptions = session.wait
	if len(request.Labels) > 0 {
		run.PostRenderer, run.PostRenderStrategy = labeler(request.Labels), action.PostRenderStrategySeparate
	}
	_, err = run.RunWithContext(ctx, request.Name, loaded, values(request.Values))
	return err
}

// mark is what the new revision's Secret says.
func (m Make) mark() map[string]string {
	return map[string]string{labelConfig: m.Config, labelRevision: strconv.Itoa(m.Number)}
}

// values are a copy for the SDK, which changes what it is given.
func values(given map[string]any) map[string]any {
	copied, _ := deepCopy(given).(map[string]any)
	if copied == nil {
		return map[string]any{}
	}
	return copied
}

func deepCopy(value any) any {
	switch v := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, each := range v {
			copied[key] = deepCopy(each)
		}
		return copied
	case []any:
		copied := make([]any, len(v))
		for i, each := range v {
			copied[i] = deepCopy(each)
		}
		return copied
	default:
		return value
	}
}

// Rollback repeats an earlier revision. from is what failed: it is marked as
// faulted first, whatever becomes of the rollback.
func (r *Releases) Rollback(ctx context.Context, name string, to, from int, force bool, timeout time.Duration) error {
	if err := r.Mark(ctx, name, from, FaultFailed); err != nil {
		return err
	}
	return r.Repeat(ctx, name, to, force, timeout)
}

// Repeat repeats an earlier revision at a person's word, as `helm rollback` does. It
// marks nothing as faulted, by which whoever looks after the release knows that someone
// wanted it so.
func (r *Releases) Repeat(ctx context.Context, name string, to int, force bool, timeout time.Duration) error {
	session, end, err := r.open(ctx, timeout)
	if err != nil {
		return err
	}
	defer end()
	run := action.NewRollback(session.Configuration)
	run.Version = to
	run.ServerSideApply = "true"
	run.ForceConflicts = force
	run.MaxHistory = MaxHistory
	run.Timeout = timeout
	run.WaitStrategy, run.WaitOptions = kube.HookOnlyStrategy, session.wait
	return run.Run(name)
}

// Test runs the test hooks of the newest revision. What came of each is stored
// with it; the error says so too.
func (r *Releases) Test(ctx context.Context, name string, timeout time.Duration) error {
	session, end, err := r.open(ctx, timeout)
	if err != nil {
		return err
	}
	defer end()
	run := action.NewReleaseTesting(session.Configuration)
	run.Namespace = r.namespace
	run.Timeout = timeout
	run.WaitOptions = session.wait
	_, shutdown, err := run.Run(name)
	if shutdown != nil {
		err = errors.Join(err, shutdown())
	}
	return err
}

// Uninstall deletes the objects of a release and keeps its history, as
// uninstalled. It returns when the deletions are accepted. hooks false leaves
// out the chart's deletion hooks.
func (r *Releases) Uninstall(ctx context.Context, name string, hooks bool, timeout time.Duration) error {
	return r.uninstall(ctx, name, timeout, func(run *action.Uninstall) {
		run.KeepHistory, run.DisableHooks = true, !hooks
	})
}

// Forget deletes the history of an uninstalled release.
func (r *Releases) Forget(ctx context.Context, name string) error {
	return r.uninstall(ctx, name, callTimeout, func(*action.Uninstall) {})
}

func (r *Releases) uninstall(ctx context.Context, name string, timeout time.Duration, set func(*action.Uninstall)) error {
	session, end, err := r.open(ctx, timeout)
	if err != nil {
		return err
	}
	defer end()
	run := action.NewUninstall(session.Configuration)
	run.IgnoreNotFound = true
	run.DeletionPropagation = "foreground"
	run.Timeout = timeout
	run.WaitStrategy, run.WaitOptions = kube.HookOnlyStrategy, session.wait
	set(run)
	_, err = run.Run(name)
	return err
}

// Fail marks a revision as failed, with the sentence that `helm history` shows.
func (r *Releases) Fail(ctx context.Context, name string, number int, fault Fault, sentence string) error {
	return r.update(ctx, name, number, func(rel *sdk.Release) {
		rel.SetStatus(common.StatusFailed, sentence)
		if fault != "" {
			rel.Labels[labelFault] = fmt.Sprintf("%d-%s", number, fault)
		}
		delete(rel.Labels, labelSettled)
	})
}

// Settle marks a revision as good. One that was failed for being late is
// deployed again.
func (r *Releases) Settle(ctx context.Context, name string, revision release.Revision) error {
	if revision.Status == release.Deployed && !revision.Faulted {
		return r.patch(ctx, name, revision.Number, map[string]any{labelSettled: strconv.Itoa(revision.Number)})
	}
	return r.update(ctx, name, revision.Number, func(rel *sdk.Release) {
		rel.SetStatus(common.StatusDeployed, "Ready after its time was over")
		rel.Labels[labelSettled] = strconv.Itoa(revision.Number)
		delete(rel.Labels, labelFault)
	})
}

// Mark notes a fault of a revision, whatever its status is.
func (r *Releases) Mark(ctx context.Context, name string, number int, fault Fault) error {
	return r.patch(ctx, name, number, map[string]any{labelFault: fmt.Sprintf("%d-%s", number, fault), labelSettled: nil})
}

// patch changes labels of a revision's Secret alone.
func (r *Releases) patch(ctx context.Context, name string, number int, labels map[string]any) error {
	client, err := kubernetes.NewForConfig(leashed(ctx, r.config))
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Secrets(r.namespace).Patch(ctx, secretName(name, number), types.MergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

// secretName is what Helm's storage calls the Secret of a revision.
func secretName(name string, number int) string {
	return fmt.Sprintf("%s.%s.v%d", storage.HelmStorageType, name, number)
}

func (r *Releases) update(ctx context.Context, name string, number int, change func(*sdk.Release)) error {
	session, end, err := r.open(ctx, callTimeout)
	if err != nil {
		return err
	}
	defer end()
	found, err := session.Releases.Get(name, number)
	if err != nil {
		return fmt.Errorf("read revision %d of release %s: %w", number, name, err)
	}
	rel, ok := found.(*sdk.Release)
	if !ok {
		return fmt.Errorf("a release of type %T can't be changed", found)
	}
	rel.Labels = maps.Clone(rel.Labels)
	if rel.Labels == nil {
		rel.Labels = map[string]string{}
	}
	change(rel)
	return session.Releases.Update(rel)
}
