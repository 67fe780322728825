package stack

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
	"github.com/slipway-dev/slipway/internal/render/source"
)

// hands act with an account's rights.
type hands struct {
	config *rest.Config
	client client.Client
	runner *helmrelease.Runner
	// evidence reads past every cache, and only of what doesn't get ready.
	evidence *reconcile.Evidence
}

// handsFor are those of the account that a stack names.
func (e *Engine) handsFor(stack *platformv1alpha1.PlatformStack) (*hands, error) {
	account := platformv1alpha1.ServiceAccountReference{}
	if named := stack.Spec.ServiceAccount; named != nil && !e.options.OwnRights {
		account = *named
	}
	e.making.Lock()
	defer e.making.Unlock()
	if known, is := e.hands.Get(account); is {
		return known.(*hands), nil //nolint:forcetypeassert // nothing else is kept
	}
	config := helm.Impersonate(e.options.Config, account.Namespace, account.Name)
	writer, err := client.New(config, client.Options{Scheme: e.options.Client.Scheme(), Mapper: e.options.Client.RESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("connect as service account %s/%s: %w", account.Namespace, account.Name, err)
	}
	made := &hands{
		config: config, client: writer,
		runner:   helmrelease.New(helmrelease.Options{Config: config, Client: writer, Log: e.options.Log}),
		evidence: &reconcile.Evidence{Cached: reconcile.ForeignPods{Reader: writer, Server: writer}, Server: writer, Now: e.options.Now},
	}
	e.hands.Add(account, made)
	return made, nil
}

// maxForbidden bounds what is repeated of the API server's words about a right: the
// way out comes after it.
const maxForbidden = 300

// advice adds to a sentence about a right that isn't there where it would come
// from. Any other sentence stays.
func (p *pass) advice(message string) string {
	if !strings.Contains(message, "forbidden: User") && !strings.Contains(message, "attempting to grant RBAC permissions") {
		return message
	}
	message = condition.BoundTo(message, maxForbidden)
	switch named := p.stack.Spec.ServiceAccount; {
	case p.options.OwnRights:
		return message + "; you don't hold the rights that this takes: run the command as a cluster administrator"
	case named == nil:
		return message + "; to install operators takes rights that Slipway doesn't hold: name a ServiceAccount that does in spec.serviceAccount"
	default:
		return message + fmt.Sprintf("; bind what it takes to ServiceAccount %s in namespace %s, and let Slipway impersonate it", named.Name, named.Namespace)
	}
}

// gather reads what the spec refers to, without what isn't there.
func (p *pass) gather(ctx context.Context) (map[source.Source]source.Data, error) {
	found := map[source.Source]source.Data{}
	for _, each := range platformstack.Sources(p.stack) {
		data, err := reconcile.ReadSource(ctx, p.hand.client, each)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			return nil, condition.Wait(condition.ReasonForbidden, "%s can't be read: %w", each, err)
		case err != nil:
			return nil, condition.Retry(condition.ReasonRetrying, "%s can't be read: %w", each, err)
		}
		found[each] = data
	}
	return found, nil
}
