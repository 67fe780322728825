// Package bundle turns operators' bundles into manifests and charts on this machine:
// it brings a bundle, lets internal/olm and internal/chart make of it what is wanted,
// and writes that whole or not at all. It asks no cluster.
package bundle

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/certificate"
	"github.com/slipway-dev/slipway/internal/chart"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/olm"
	"github.com/slipway-dev/slipway/internal/registry/bundle"
)

// Who makes the certificates of webhooks.
const (
	CertManager = chart.CertManager
	SelfSigned  = chart.SelfSigned
	Provided    = chart.Provided // in charts only
)

// What stands for namespaces in --watch-namespace.
const (
	everyNamespace = "*"
	ownNamespace   = "."
)

// Request says what is to be made of a bundle.
type Request struct {
	Reference string
	// Namespace to install into.
	Namespace string
	// Watch are namespaces to look after, * for all, . for Namespace; empty leaves it
	// to the bundle.
	Watch []string
	// Exclude are jq expressions.
	Exclude []string
	// Certificates is CertManager, which stands for the empty one, or SelfSigned. It is
	// what a chart's value says if nobody sets it, which may also be Provided.
	Certificates string
	// CreateNamespace adds the namespace itself.
	CreateNamespace bool
}

// Maker makes objects of bundles.
type Maker struct {
	Source bundle.Source
	// Progress takes a line for each bundle.
	Progress io.Writer
	Now      func() time.Time
}

// Extract brings a bundle and gives the objects that OLM would create of it, in the
// order of applying.
func (m Maker) Extract(ctx context.Context, request Request) ([]*unstructured.Unstructured, error) {
	_, made, err := m.bring(ctx, request.Reference)
	if err != nil {
		return nil, err
	}
	objects, err := m.objects(ctx, made, request)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(m.Progress, "%s %s: %d objects for namespace %s\n", made.Package, made.Version(), len(objects), request.Namespace)
	if request.Certificates == SelfSigned && len(made.WebhookServices()) > 0 {
		fmt.Fprintf(m.Progress, "the certificates of its webhooks end on %s, and nobody renews them: extract and apply again before\n",
			m.Now().Add(certificate.LongLife).UTC().Format(time.DateOnly))
	}
	m.warn(made, objects)
	return objects, nil
}

// warn tells of objects that a plain Kubernetes has no kind for.
func (m Maker) warn(made *olm.Bundle, objects []*unstructured.Unstructured) {
	defined := map[string]bool{}
	for _, each := range made.Definitions {
		group, _, _ := unstructured.NestedString(each.Object, "spec", "group")
		defined[group] = true
	}
	count := map[string]int{}
	for _, each := range objects {
		if group := each.GroupVersionKind().Group; strings.HasSuffix(group, ".openshift.io") && !defined[group] {
			count[group]++
		}
	}
	for _, group := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(m.Progress, "%d objects are of %s, which OpenShift serves; elsewhere add --exclude '.apiVersion | startswith(\"%s/\")'\n", count[group], group, group)
	}
}

// bring fetches and reads a bundle.
func (m Maker) bring(ctx context.Context, reference string) (bundle.Bundle, *olm.Bundle, error) {
	found, err := m.Source.Fetch(ctx, reference)
	if err != nil {
		return found, nil, err
	}
	if found.Digest != "" {
		fmt.Fprintf(m.Progress, "%s has digest %s\n", found.Source, found.Digest)
	}
	made, err := olm.Parse(found.Files)
	if err != nil {
		return found, nil, fmt.Errorf("%s: %w", found.Source, err)
	}
	return found, made, nil
}

func (m Maker) objects(ctx context.Context, made *olm.Bundle, request Request) ([]*unstructured.Unstructured, error) {
	// Read first: a mistake in an expression needs no key to be made.
	exclusions, err := parseExclusions(request.Exclude)
	if err != nil {
		return nil, err
	}
	options := olm.Options{Namespace: request.Namespace, Watch: watch(request)}
	switch request.Certificates {
	case CertManager, "":
	case SelfSigned:
		if options.Certificates, err = selfSigned(made.WebhookServices(), request.Namespace, m.Now()); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("--certificates %q: write %s or %s", request.Certificates, CertManager, SelfSigned)
	}
	objects, err := made.Objects(options)
	if err != nil {
		return nil, err
	}
	if request.CreateNamespace {
		objects = slices.Insert(objects, 0, namespace(request.Namespace))
		slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return object.Compare(object.Of(a), object.Of(b)) })
	}
	return olm.Exclude(ctx, objects, exclusions)
}

func parseExclusions(texts []string) ([]olm.Exclusion, error) {
	exclusions := make([]olm.Exclusion, 0, len(texts))
	for _, text := range texts {
		exclusion, err := olm.ParseExclusion(text)
		if err != nil {
			return nil, fmt.Errorf("--exclude %w", err)
		}
		exclusions = append(exclusions, exclusion)
	}
	return exclusions, nil
}

// watch puts names in the place of what stands for them.
func watch(request Request) []string {
	made := make([]string, 0, len(request.Watch))
	for _, each := range request.Watch {
		switch each {
		case everyNamespace:
			each = olm.AllNamespaces
		case ownNamespace:
			each = request.Namespace
		}
		made = append(made, each)
	}
	return made
}

func namespace(name string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	made.SetName(name)
	return made
}

// selfSigned makes a certificate for each Service, each with an authority of its own
// whose key nobody keeps. Nobody renews them, so they are good for long.
func selfSigned(services []string, namespace string, now time.Time) (olm.Certificates, error) {
	made := olm.Certificates{Given: map[string]olm.Certificate{}}
	for _, service := range services {
		pair, err := certificate.Issue(rand.Reader, olm.CertificateHosts(service, namespace), now, certificate.LongLife)
		if err != nil {
			return made, err
		}
		made.Given[service] = olm.Certificate{CA: pair.CA, Cert: pair.Cert, Key: pair.Key}
	}
	return made, nil
}
