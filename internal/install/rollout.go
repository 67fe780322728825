package install

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// terminalGrace is how long a fault that only the user can mend is looked at
// before the wait is given up: pods of an earlier revision are still there for a
// moment, and a registry may just be receiving the image.
const terminalGrace = 10 * time.Second

// levers are the words by which whoever installs the operator knows what can be
// changed.
var levers = diagnosis.Levers{
	Image:        "--image",
	PullSecrets:  "--set imagePullSecrets[0].name",
	CPU:          "--set resources.requests.cpu",
	Memory:       "--set resources.limits.memory",
	Replicas:     "--set replicas",
	NodeSelector: "--set nodeSelector",
	Tolerations:  "--set tolerations",
}

// NotReadyError means that the operator is installed and doesn't run.
type NotReadyError struct {
	Deployment string
	// Waited is how long.
	Waited  time.Duration
	Finding diagnosis.Finding
}

func (e *NotReadyError) Error() string {
	text := fmt.Sprintf("deployment %s isn't ready after %s: %s", e.Deployment, e.Waited.Round(time.Second), e.Finding.Message)
	if e.Finding.Next != "" {
		text += "; next: " + e.Finding.Next
	}
	return text
}

// waitForRelease waits until every Deployment of a release is ready.
func (i *Installer) waitForRelease(ctx context.Context, release helm.Release, timeout time.Duration) error {
	objects, err := manifests(release)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		if err := i.waitForDeployment(ctx, object.GetName(), timeout); err != nil {
			return err
		}
	}
	return nil
}

// waitForDeployment looks at a Deployment whenever it, a pod or an event of the
// namespace changes, until it is ready, the time is up, or a fault that only the
// user can mend has lasted for terminalGrace.
func (i *Installer) waitForDeployment(ctx context.Context, name string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	changed, err := i.changes(ctx)
	if err != nil {
		return err
	}
	started := i.now()
	evidence := &reconcile.Evidence{Cached: i.client, Server: i.client, Now: i.now}
	grace := time.NewTimer(0)
	<-grace.C
	var last diagnosis.Finding
	for {
		ready, finding, err := i.look(ctx, evidence, name)
		if ready || err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			if finding.Terminal != last.Terminal || finding.Reason != last.Reason {
				grace.Stop()
				if finding.Terminal {
					grace.Reset(terminalGrace)
				}
			}
			last = finding
			i.report(Event{Text: fmt.Sprintf("deployment %s: %s", name, finding.Message)})
		}
		select {
		case <-changed:
		case <-grace.C:
			return &NotReadyError{Deployment: name, Waited: i.now().Sub(started), Finding: last}
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return &NotReadyError{Deployment: name, Waited: i.now().Sub(started), Finding: last}
			}
			return ctx.Err()
		}
	}
}

// look tells whether a Deployment is ready, and if not, why.
func (i *Installer) look(ctx context.Context, evidence *reconcile.Evidence, name string) (bool, diagnosis.Finding, error) {
	deployment, err := i.kube.AppsV1().Deployments(i.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, diagnosis.Finding{}, fmt.Errorf("deployment %s in namespace %s was deleted by someone else; install it again", name, i.namespace)
	}
	if err != nil {
		return false, diagnosis.Finding{}, err
	}
	object, err := asUnstructured(deployment)
	if err != nil {
		return false, diagnosis.Finding{}, err
	}
	result := readiness.Evaluate(object)
	if result.Status == readiness.Ready {
		i.report(Event{Text: fmt.Sprintf("deployment %s ready (%d of %d)", name, deployment.Status.ReadyReplicas, deployment.Status.Replicas), Final: true})
		return true, diagnosis.Finding{}, nil
	}
	facts, err := evidence.Gather(ctx, object, deployment.Spec.Selector.MatchLabels)
	if err != nil {
		return false, diagnosis.Finding{}, err
	}
	facts.Levers = levers
	finding, found := diagnosis.Diagnose(facts)
	if !found {
		finding = diagnosis.Finding{Reason: result.Reason, Message: result.Message}
	}
	return false, ownWords(finding), nil
}

// ownWords puts a finding about a probe into words for the operator's own
// container. Its port and its paths are the program's, so that advice about them
// would lead nowhere.
func ownWords(finding diagnosis.Finding) diagnosis.Finding {
	switch finding.Reason {
	case diagnosis.ReasonNotAnswering:
		finding.Message = "the operator has started and isn't ready yet"
	case diagnosis.ReasonProbeFailed:
		finding.Message = "the operator doesn't answer its probes; its log says why"
	}
	return finding
}

func asUnstructured(deployment *appsv1.Deployment) (*unstructured.Unstructured, error) {
	deployment.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(deployment)
	return &unstructured.Unstructured{Object: content}, err
}

// changes returns a channel that holds a token whenever a Deployment, a pod or an
// event of the namespace has changed since the last was taken. It ends with ctx.
func (i *Installer) changes(ctx context.Context) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { tell() },
		UpdateFunc: func(any, any) { tell() },
		DeleteFunc: func(any) { tell() },
	}
	factory := informers.NewSharedInformerFactoryWithOptions(i.kube, 0, informers.WithNamespace(i.namespace))
	for _, informer := range []cache.SharedIndexInformer{
		factory.Apps().V1().Deployments().Informer(),
		factory.Core().V1().Pods().Informer(),
		factory.Core().V1().Events().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	factory.StartWithContext(ctx)
	return changed, nil
}
