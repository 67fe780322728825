package stack

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/registry/auth"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
	"github.com/slipway-dev/slipway/internal/render/source"
)

// dockerConfig is the key of a Secret of type kubernetes.io/dockerconfigjson.
const dockerConfig = corev1.DockerConfigJsonKey

// labelCopyOf is on each copy of a pull secret, with the stack's name. Objects of
// releases have another one.
const labelCopyOf = "platform.slipway.dev/pull-secret-of"

// keyPullSecrets is where charts and ServiceAccounts take pull secrets.
const keyPullSecrets = "imagePullSecrets"

// pullNames are the names of the stack's pull secrets.
func (p *pass) pullNames() []string {
	var names []string
	for _, each := range p.stack.Spec.PullSecrets {
		if !slices.Contains(names, each.Name) {
			names = append(names, each.Name)
		}
	}
	return names
}

// withPullSecrets adds pull secrets to values, at the place where the chart takes
// them. Those that the user gave stay.
func (m *made) withPullSecrets(values map[string]any, names []string) map[string]any {
	var list []any
	for _, name := range names {
		list = append(list, map[string]any{"name": name})
	}
	merged := clone(values)
	usual := m.chart.DefaultValues()
	if _, takes := usual[keyPullSecrets]; takes || m.objects != nil {
		if given, _ := merged[keyPullSecrets].([]any); len(given) == 0 {
			merged[keyPullSecrets] = list
		}
		return merged
	}
	global, _ := usual["global"].(map[string]any)
	if _, takes := global[keyPullSecrets]; takes {
		own, _ := merged["global"].(map[string]any)
		own = clone(own)
		if given, _ := own[keyPullSecrets].([]any); len(given) == 0 {
			own[keyPullSecrets] = list
		}
		merged["global"] = own
	}
	return merged
}

// places makes the namespaces that a component needs, which are never deleted.
func (p *pass) places(ctx context.Context, s *stand) error {
	wanted := slices.Clone(s.made.namespaces)
	if !slices.ContainsFunc(wanted, func(n *unstructured.Unstructured) bool { return n.GetName() == s.component.Namespace }) {
		own := &unstructured.Unstructured{}
		own.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		own.SetName(s.component.Namespace)
		wanted = append(wanted, own)
	}
	for _, each := range wanted {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(each.GroupVersionKind())
		err := p.hand.client.Get(ctx, client.ObjectKeyFromObject(each), live)
		if err == nil && isMerged(live.Object, map[string]any{"metadata": each.Object["metadata"]}) {
			continue
		}
		if err == nil || apierrors.IsNotFound(err) {
			err = p.applyOne(ctx, each)
		}
		if err != nil {
			return explained(err, "namespace "+each.GetName())
		}
	}
	return nil
}

// applyOne writes an object that this package makes itself.
func (p *pass) applyOne(ctx context.Context, wanted *unstructured.Unstructured) error {
	return p.hand.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted.DeepCopy()), client.FieldOwner(fieldManager), client.ForceOwnership)
}

func explained(err error, what string) error {
	switch {
	case apierrors.IsForbidden(err):
		return condition.Wait(condition.ReasonForbidden, "%s: %w", what, err)
	case apierrors.IsInvalid(err):
		return condition.Stop(condition.ReasonInvalidObject, "%s: %w", what, err)
	}
	return condition.Retry(condition.ReasonApplyFailed, "%s: %w", what, err)
}

// pullSecrets copies the stack's into a component's namespace.
func (p *pass) pullSecrets(ctx context.Context, c platformstack.Component) error {
	for _, each := range p.stack.Spec.PullSecrets {
		if err := p.copySecret(ctx, each, c.Namespace); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) copySecret(ctx context.Context, secret platformv1alpha1.PullSecret, namespace string) error {
	from := platformstack.PullSource(secret)
	data, is := p.sources[from]
	if !is {
		return condition.Wait(source.ReasonSourceNotFound, "%s doesn't exist; create it, or remove it from spec.pullSecrets", from)
	}
	if _, err := auth.ParseGiven(data[dockerConfig]); err != nil || len(data[dockerConfig]) == 0 {
		return condition.Stop(condition.ReasonInvalidSpec, "%s holds no logins under %s; write what docker login does, as type kubernetes.io/dockerconfigjson", from, dockerConfig)
	}
	if secret.Namespace == namespace {
		return nil // it is there already
	}
	live := &corev1.Secret{}
	err := p.hand.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: secret.Name}, live)
	switch {
	case err == nil && live.Labels[labelCopyOf] != p.stack.Name:
		return condition.Stop(condition.ReasonOwnedByAnother, "Secret %s in namespace %s is there from elsewhere; delete it, or give the pull secret another name", secret.Name, namespace)
	case err == nil && bytes.Equal(live.Data[dockerConfig], data[dockerConfig]):
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return explained(err, "Secret "+secret.Name+" in namespace "+namespace)
	}
	copied := &unstructured.Unstructured{}
	copied.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	copied.SetNamespace(namespace)
	copied.SetName(secret.Name)
	copied.SetLabels(map[string]string{labelCopyOf: p.stack.Name})
	copied.Object["type"] = string(corev1.SecretTypeDockerConfigJson)
	copied.Object["data"] = map[string]any{dockerConfig: base64.StdEncoding.EncodeToString(data[dockerConfig])}
	if err := p.applyOne(ctx, copied); err != nil {
		return explained(err, "Secret "+secret.Name+" in namespace "+namespace)
	}
	return nil
}

// attach puts the pull secrets on the ServiceAccounts of a release that has some
// without them.
func (p *pass) attach(ctx context.Context, s *stand) error {
	names := p.pullNames()
	if len(names) == 0 || s.made == nil || s.made.objects != nil {
		return nil
	}
	for _, live := range s.report.Live {
		if live.GetKind() != "ServiceAccount" || live.GetNamespace() != s.component.Namespace {
			continue
		}
		given, _, _ := unstructured.NestedSlice(live.Object, keyPullSecrets)
		wanted := slices.Clone(given)
		for _, name := range names {
			if !slices.ContainsFunc(given, func(each any) bool { one, _ := each.(map[string]any); return one["name"] == name }) {
				wanted = append(wanted, map[string]any{"name": name})
			}
		}
		if len(wanted) == len(given) {
			continue
		}
		text, err := json.Marshal(map[string]any{keyPullSecrets: wanted})
		if err == nil {
			err = p.hand.client.Patch(ctx, live.DeepCopy(), client.RawPatch(types.MergePatchType, text), client.FieldOwner(fieldManager))
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return explained(err, "ServiceAccount "+live.GetName())
		}
		s.acted = true
	}
	return nil
}

// prunePullSecrets deletes copies that are no longer wanted: all of them once the
// releases of a deleted stack are gone.
func (p *pass) prunePullSecrets(ctx context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := p.hand.client.List(ctx, list, client.MatchingLabels{labelCopyOf: p.stack.Name})
	if apierrors.IsForbidden(err) && len(p.stack.Spec.PullSecrets) == 0 {
		return nil // there never were any
	}
	if err != nil {
		return explained(err, "the copies of pull secrets can't be listed")
	}
	for i := range list.Items {
		each := &list.Items[i]
		if p.isCopyWanted(each) {
			continue
		}
		if err := p.hand.client.Delete(ctx, each, client.Preconditions{UID: &each.UID}); client.IgnoreNotFound(err) != nil {
			return explained(err, "Secret "+each.Name+" in namespace "+each.Namespace)
		}
		p.pruned = true
	}
	return nil
}

// isCopyWanted tells whether a copy of a pull secret is still of use: the spec names
// it, or what is on its way out may yet pull.
func (p *pass) isCopyWanted(copied *metav1.PartialObjectMetadata) bool {
	for _, each := range p.recorded() {
		leaving := slices.ContainsFunc(p.removals, func(r *removal) bool { return r.release == each && r.gone() })
		if each.Namespace == copied.Namespace && !leaving {
			return slices.Contains(p.pullNames(), copied.Name)
		}
	}
	return false
}
