package simulatordeployment

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/readiness"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// facts are all that a reconcile knows before it writes.
type facts struct {
	deployment *simv1alpha1.SimulatorDeployment
	served     simulatordeployment.Served
	// wanted are the objects that the spec asks for, once they are rendered.
	wanted []*unstructured.Unstructured
}

func (f *facts) input() simulatordeployment.Input {
	return simulatordeployment.Input{Deployment: f.deployment, Served: f.served}
}

// gather reads the resource and what the cluster serves. It returns nil when the
// resource is gone.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*facts, error) {
	deployment := &simv1alpha1.SimulatorDeployment{}
	if err := r.Client.Get(ctx, key, deployment); err != nil {
		r.memory.Forget(key)
		return nil, client.IgnoreNotFound(err)
	}
	versions, err := r.served.Versions(ctx)
	if err != nil {
		return nil, fmt.Errorf("find out which optional APIs are served: %w", err)
	}
	if err := r.watch.follow(ctx, versions); err != nil {
		return nil, err
	}
	return &facts{deployment: r.memory.Latest(deployment), served: simulatordeployment.ServedOf(versions)}, nil
}

// neighbours are the other resources of the namespace, each as it was written
// last. After a claim of which nobody knows the outcome they come from the server,
// and are remembered as they are there. Its caller holds the claims.
func (r *Reconciler) neighbours(ctx context.Context, claims *stripe, self *simv1alpha1.SimulatorDeployment) ([]*simv1alpha1.SimulatorDeployment, error) {
	var reader client.Reader = r.Client
	unsure := claims.unsure.Has(self.Namespace)
	if unsure {
		reader = r.Server
	}
	var list simv1alpha1.SimulatorDeploymentList
	if err := reader.List(ctx, &list, client.InNamespace(self.Namespace)); err != nil {
		return nil, err
	}
	claims.unsure.Delete(self.Namespace)
	var others []*simv1alpha1.SimulatorDeployment
	for i := range list.Items {
		other := &list.Items[i]
		if unsure {
			r.memory.Remember(other.DeepCopy())
		}
		if other.UID != self.UID {
			others = append(others, r.memory.Latest(other))
		}
	}
	return others, nil
}

// diagnose finds what keeps each part from serving. Parts that serve, and parts
// that aren't there yet, have no finding.
func (r *Reconciler) diagnose(ctx context.Context, facts *facts, result apply.Result) (map[simulatordeployment.Component]diagnosis.Finding, error) {
	found := map[simulatordeployment.Component]diagnosis.Finding{}
	for _, part := range simulatordeployment.Parts(facts.deployment) {
		workload := workloadOf(result, part.Name)
		if workload == nil || isServing(workload) {
			continue
		}
		evidence, err := r.Evidence.Gather(ctx, workload, part.Selector)
		if err != nil {
			return nil, err
		}
		evidence.Levers = simulatordeployment.Levers(facts.deployment, part.Component)
		finding, is := diagnosis.Diagnose(evidence)
		if part.Component == simulatordeployment.Picker && (!is || !isProgress(finding)) {
			if lacking, err := r.lackingRight(ctx, facts); err != nil || lacking != nil {
				if err != nil {
					return nil, err
				}
				finding, is = *lacking, true
			}
		}
		if is {
			found[part.Component] = finding
		}
	}
	return found, nil
}

// lookForRights is how often a picker's rights are looked at that it lacks.
const lookForRights = 10 * time.Second

// lackingRight asks the API server whether the picker's account may do what a
// picker does. A picker without its rights runs, and serves nothing.
func (r *Reconciler) lackingRight(ctx context.Context, facts *facts) (*diagnosis.Finding, error) {
	account := simulatordeployment.PickerAccount(facts.deployment)
	namespace := facts.deployment.Namespace
	for _, rule := range simulatordeployment.PickerRules(facts.served) {
		for _, resource := range rule.Resources {
			review := &authorizationv1.LocalSubjectAccessReview{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User: "system:serviceaccount:" + namespace + ":" + account,
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: "list", Group: rule.APIGroups[0], Resource: resource,
					},
				},
			}
			if err := r.Client.Create(ctx, review); err != nil {
				return nil, fmt.Errorf("ask for the rights of ServiceAccount %s: %w", account, err)
			}
			if !review.Status.Allowed {
				return &diagnosis.Finding{
					Reason: reasonPickerForbidden,
					Message: fmt.Sprintf("the picker's ServiceAccount %s may not list %s in namespace %s, so it finds no pods; "+
						"remove what takes that right from Role and RoleBinding %s", account, resource, namespace, account),
				}, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // nothing is lacking
}

// workloadOf finds a part's Deployment in what is live.
func workloadOf(result apply.Result, name string) *unstructured.Unstructured {
	for _, live := range result.Live {
		if live.GetKind() == "Deployment" && live.GetName() == name {
			return live
		}
	}
	return nil
}

func isServing(workload *unstructured.Unstructured) bool {
	return readiness.Evaluate(workload).Status == readiness.Ready
}

func isProgress(finding diagnosis.Finding) bool {
	return finding.Reason == diagnosis.ReasonStarting || finding.Reason == diagnosis.ReasonProgressing
}

// record is the one writer of a resource's status.
type record = reconcile.Record[*simv1alpha1.SimulatorDeployment, simv1alpha1.SimulatorDeploymentStatus]

func (r *Reconciler) record(facts *facts) *record {
	return &record{
		Writer: r.Client, Events: r.Events, Memory: &r.memory, Object: facts.deployment,
		Parts: func(d *simv1alpha1.SimulatorDeployment) reconcile.StatusParts[simv1alpha1.SimulatorDeploymentStatus] {
			return reconcile.StatusParts[simv1alpha1.SimulatorDeploymentStatus]{
				Status: &d.Status, ObservedGeneration: d.Status.ObservedGeneration,
				Conditions: d.Status.Conditions, Inventory: &d.Status.Inventory,
			}
		},
		Starting: func() simv1alpha1.SimulatorDeploymentStatus { return starting(facts, metav1.NewTime(r.Now())) },
	}
}
