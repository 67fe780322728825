package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/chart"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/olm"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/registry/auth"
	"github.com/slipway-dev/slipway/internal/registry/bundle"
	"github.com/slipway-dev/slipway/internal/registry/manifests"
	"github.com/slipway-dev/slipway/internal/registry/signature"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// ReasonSourceUnavailable is the reason of a component whose source can't be had.
const ReasonSourceUnavailable = "SourceUnavailable"

// How long what was fetched stands: a tag may come to mean another image, a
// directory may change.
const (
	tagFor  = 10 * time.Minute
	pathFor = 5 * time.Second
)

// made is what a component installs.
type made struct {
	chart *helm.Chart
	// archive is what the chart was read from.
	archive []byte
	// digest of the bundle, the chart's archive or the manifests.
	digest string
	// version as the status tells it.
	version string
	// certificates are those that a bundle's webhooks are served with.
	certificates []chart.Certificate
	// objects of a bundle or of manifests; nil for a chart.
	objects []*unstructured.Unstructured
	// namespaces are made beside the release, since they are never deleted.
	namespaces []*unstructured.Unstructured
	// pinned: nothing but this can come of what was asked for.
	pinned bool
	at     time.Time
}

// fetch gives what a component installs. Its error is condition's.
func (p *pass) fetch(ctx context.Context, c platformstack.Component) (*made, error) {
	key := object.Hash([]any{p.stack.Name, c.Name, c.Namespace, c.Spec.Source, p.hand.config.Impersonate.UserName, p.stack.Annotations[platformstack.AnnotationRetry]})
	stands := tagFor
	if from := c.Spec.Source.Manifests; from != nil && from.Path != "" || isPath(c.Spec.Source.Bundle) {
		stands = pathFor
	}
	known, is := p.fetched.Get(key)
	if is {
		if old := known.(*made); old.pinned || p.options.Now().Sub(old.at) < stands { //nolint:forcetypeassert // nothing else is kept
			return old, nil
		}
	}
	fresh, err := p.bring(ctx, c)
	var unavailable *registry.UnavailableError
	switch {
	case err == nil:
		fresh.at = p.options.Now()
		p.fetched.Add(key, fresh)
		return fresh, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &unavailable) && is:
		return known.(*made), nil //nolint:forcetypeassert // nothing else is kept
	case errors.As(err, &unavailable):
		return nil, condition.Wait(ReasonSourceUnavailable, "%w", err)
	case condition.IsStop(err) || condition.IsWait(err):
		return nil, err
	}
	return nil, condition.Stop(ReasonSourceUnavailable, "%w", err)
}

func isPath(from *platformv1alpha1.BundleSource) bool {
	return from != nil && (strings.HasPrefix(from.Image, "/") || strings.HasPrefix(from.Image, "."))
}

func (p *pass) bring(ctx context.Context, c platformstack.Component) (*made, error) {
	switch from := c.Spec.Source; {
	case from.Bundle != nil:
		return p.bundle(ctx, c, from.Bundle)
	case from.Chart != nil:
		return p.chart(ctx, c, from.Chart)
	case from.Manifests != nil:
		return p.manifests(ctx, c, from.Manifests)
	}
	return nil, condition.Stop(condition.ReasonInvalidSpec, "it has no source; write a bundle, a chart or manifests")
}

// images is how bundles and artifacts are fetched.
func (p *pass) images(key string) (bundle.Source, error) {
	from := bundle.Source{Registry: p.options.Charts, Credentials: p.credentials}
	if key == "" {
		return from, nil
	}
	var err error
	if from.Key, err = signature.ParseKey([]byte(key)); err != nil {
		return from, condition.Stop(condition.ReasonInvalidSpec, "key: %w", err)
	}
	return from, nil
}

// credentials for a repository: those of the pull secrets, or else our own.
func (p *pass) credentials(ctx context.Context, host, repository string) (registry.Credentials, error) {
	for _, secret := range p.stack.Spec.PullSecrets {
		given, err := auth.ParseGiven(p.sources[platformstack.PullSource(secret)][dockerConfig])
		if err != nil {
			continue // told where it is copied
		}
		if found, err := given.Find(ctx, host, repository); err != nil || found.Username != "" || found.Token != "" {
			return found, err
		}
	}
	if p.options.Credentials == nil {
		return registry.Credentials{}, nil
	}
	return p.options.Credentials(ctx, host, repository)
}

func (p *pass) bundle(ctx context.Context, c platformstack.Component, spec *platformv1alpha1.BundleSource) (*made, error) {
	from, err := p.images(spec.Key)
	if err != nil {
		return nil, err
	}
	reference := spec.Image
	if spec.Digest != "" && !strings.Contains(reference, "@") {
		reference += "@" + spec.Digest
	}
	found, err := from.Fetch(ctx, reference)
	if err != nil {
		return nil, err
	}
	if spec.Digest != "" && found.Digest != spec.Digest {
		return nil, fmt.Errorf("%s has digest %s, not %s; correct one of them", found.Source, cmp.Or(found.Digest, "none"), spec.Digest)
	}
	parsed, err := olm.Parse(found.Files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", found.Source, err)
	}
	objects, err := parsed.Objects(olm.Options{Namespace: chart.Namespace, Watch: watched(spec, c.Namespace)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", found.Source, err)
	}
	var exclusions []olm.Exclusion
	for _, text := range spec.Exclude {
		exclusion, err := olm.ParseExclusion(text)
		if err != nil {
			return nil, condition.Stop(condition.ReasonInvalidSpec, "exclude: %w", err)
		}
		exclusions = append(exclusions, exclusion)
	}
	if objects, err = olm.Exclude(ctx, objects, exclusions); err != nil {
		return nil, err
	}
	var certificates []chart.Certificate
	for _, service := range parsed.WebhookServices() {
		certificates = append(certificates, chart.Certificate{Service: service, Secret: olm.CertificateSecret(service)})
	}
	wrapped, err := p.wrap(parsed.Package, parsed.Version(), parsed.CSV.Spec.MinKubeVersion, certificates, objects)
	if err != nil {
		return nil, err
	}
	wrapped.digest, wrapped.version, wrapped.pinned = found.Digest, parsed.Version(), found.Digest != "" && strings.Contains(reference, "@")
	return wrapped, nil
}

// watched are the namespaces that an operator looks after. "*" stands for every
// one, and "." for its own.
func watched(spec *platformv1alpha1.BundleSource, own string) []string {
	var made []string
	for _, each := range spec.WatchNamespaces {
		switch each {
		case "*":
			each = olm.AllNamespaces
		case ".", own:
			each = chart.Namespace
		}
		made = append(made, each)
	}
	return made
}

func (p *pass) chart(ctx context.Context, c platformstack.Component, spec *platformv1alpha1.ChartSource) (*made, error) {
	login := registry.Credentials{Username: c.Credentials.Username, Password: c.Credentials.Password, Token: c.Credentials.Token, CA: c.Credentials.CA}
	if _, rest, isOCI := strings.Cut(spec.Repository.URL, "://"); spec.Repository.SecretRef == nil && isOCI && strings.HasPrefix(spec.Repository.URL, "oci") {
		host, path, _ := strings.Cut(rest, "/")
		found, err := p.credentials(ctx, host, strings.Trim(path+"/"+spec.Name, "/"))
		if err != nil {
			return nil, err
		}
		found.CA = login.CA
		login = found
	}
	archive, err := p.options.Charts.Chart(ctx, registry.Chart{Repository: spec.Repository.URL, Name: spec.Name, Version: spec.Version, Digest: spec.Digest}, login)
	if err != nil {
		return nil, err
	}
	loaded, err := helm.LoadArchive(archive.Data)
	if err != nil {
		return nil, condition.Stop(condition.ReasonInvalidObject, "%w", err)
	}
	return &made{chart: loaded, archive: archive.Data, digest: archive.Digest, version: archive.Version, pinned: spec.Digest != ""}, nil
}

func (p *pass) manifests(ctx context.Context, c platformstack.Component, spec *platformv1alpha1.ManifestsSource) (*made, error) {
	images, err := p.images(spec.Key)
	if err != nil {
		return nil, err
	}
	found, err := manifests.Source{Images: images}.Fetch(ctx, manifests.Where{Path: spec.Path, Image: spec.Image, URL: spec.URL, Digest: spec.Digest})
	if err != nil {
		return nil, err
	}
	wrapped, err := p.wrap(c.Name, spec.Version, "", nil, found.Objects)
	if err != nil {
		return nil, err
	}
	wrapped.digest, wrapped.version, wrapped.pinned = found.Digest, spec.Version, spec.Digest != ""
	return wrapped, nil
}

// applied is what an apply hook installs.
func (p *pass) applied(hook platformstack.Hook) (*made, error) {
	objects, err := hookObjects(hook)
	if err != nil {
		return nil, err
	}
	return p.wrap(hook.Release.Name, "", "", nil, objects)
}

// hookObjects are what an apply hook names.
func hookObjects(hook platformstack.Hook) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for i, each := range hook.Apply.Objects {
		read := &unstructured.Unstructured{}
		if err := read.UnmarshalJSON(each.Raw); err != nil || read.GetName() == "" {
			return nil, condition.Stop(condition.ReasonInvalidObject, "hook %s: objects[%d] needs apiVersion, kind and metadata.name", hook.Name, i)
		}
		objects = append(objects, read)
	}
	return objects, nil
}
