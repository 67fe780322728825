// Package llmmodel keeps LLMModels: it counts who uses one, and holds back its
// deletion while anyone does. It makes no objects; the pods are LLMDeployment's.
package llmmodel

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// Finalizer holds back the deletion of a model that is in use. It is there only
// while the model is used, so that an uninstalled operator strands no model that
// nobody needs.
const Finalizer = "llm.example.com/in-use"

// Reconciler keeps LLMModels.
type Reconciler struct {
	Client client.Client
	Now    func() time.Time

	memory reconcile.Memory[*llmv1alpha1.LLMModel]
}

// +kubebuilder:rbac:groups=llm.example.com,resources=llmmodels,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=llm.example.com,resources=llmmodels/status,verbs=update;patch
// +kubebuilder:rbac:groups=llm.example.com,resources=llmmodels/finalizers,verbs=update

// Reconcile keeps the finalizer and the status true.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	err := r.keep(ctx, req.NamespacedName)
	return reconcile.End(condition.Classify(client.IgnoreNotFound(err)), 0)
}

// keep sets the finalizer while the model is used, takes it away when it no
// longer is, and reports who uses it.
func (r *Reconciler) keep(ctx context.Context, key types.NamespacedName) error {
	model, users, err := r.gather(ctx, key)
	if err != nil || model == nil {
		return err
	}
	model, err = r.protect(ctx, model, len(users) > 0)
	if err != nil || model == nil {
		return err
	}
	status := report(model, users, metav1.NewTime(r.Now()))
	model, err = reconcile.WriteStatus(ctx, r.Client, model, func(m *llmv1alpha1.LLMModel) { m.Status = status })
	if err == nil {
		r.memory.Remember(model)
	}
	return err
}

// gather reads the model, nil when it is gone, and the sorted names of the
// deployments that use it.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*llmv1alpha1.LLMModel, []string, error) {
	model := &llmv1alpha1.LLMModel{}
	if err := r.Client.Get(ctx, key, model); err != nil {
		r.memory.Forget(key)
		return nil, nil, client.IgnoreNotFound(err)
	}
	deployments := &llmv1alpha1.LLMDeploymentList{}
	err := r.Client.List(ctx, deployments,
		client.InNamespace(key.Namespace),
		client.MatchingFields{reconcile.IndexModelRef: key.Name},
		client.UnsafeDisableDeepCopy) // only names are read
	if err != nil {
		return nil, nil, err
	}
	var users []string
	for i := range deployments.Items {
		users = append(users, deployments.Items[i].Name)
	}
	slices.Sort(users)
	return r.memory.Latest(model), users, nil
}

// protect adds or removes the finalizer and returns the model as it then is, or
// nil when its deletion went through.
func (r *Reconciler) protect(ctx context.Context, model *llmv1alpha1.LLMModel, used bool) (*llmv1alpha1.LLMModel, error) {
	deleting := model.DeletionTimestamp != nil
	if used == controllerutil.ContainsFinalizer(model, Finalizer) || used && deleting {
		return model, nil // also: no finalizer may be added to what is being deleted
	}
	before := model.DeepCopy()
	if used {
		controllerutil.AddFinalizer(model, Finalizer)
	} else {
		controllerutil.RemoveFinalizer(model, Finalizer)
	}
	// With the lock, a finalizer that someone else adds meanwhile isn't lost.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, model, patch); err != nil {
		return nil, err
	}
	r.memory.Remember(model.DeepCopy())
	if deleting && len(model.Finalizers) == 0 {
		return nil, nil
	}
	return model, nil
}
