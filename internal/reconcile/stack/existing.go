package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/chart"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
)

// workloads are the kinds by which an installation is known, beside definitions.
func workloads() []string { return []string{"Deployment", "StatefulSet", "DaemonSet"} }

// existing says what of a component is there from elsewhere, in a sentence; empty
// when nothing is, or when it shall be adopted.
func (p *pass) existing(ctx context.Context, s *stand) (string, error) {
	c := s.component
	if c.Spec.Existing == platformv1alpha1.ExistingAdopt {
		return "", nil
	}
	if newest := s.report.Newest; newest != nil && !newest.Ours {
		return fmt.Sprintf("Helm release %s in namespace %s is there from elsewhere and left alone; set existing: Adopt to take it over", c.Name, c.Namespace), nil
	}
	known, err := s.made.definitions()
	if err != nil {
		return "", err
	}
	objects, err := p.rendered(s.made, c)
	if err != nil {
		return "", err
	}
	if s.made.objects == nil {
		known = nil // what a chart defined once may be left over from itself
	}
	for _, each := range objects {
		if slices.Contains(workloads(), each.GetKind()) {
			known = append(known, each)
		}
	}
	var found []string
	for _, each := range known {
		foreign, err := p.isForeign(ctx, c, each)
		if err != nil {
			return "", err
		}
		if foreign {
			found = append(found, each.GetKind()+" "+each.GetName())
		}
	}
	if len(found) == 0 {
		return "", nil
	}
	return fmt.Sprintf("%s: there from elsewhere and left alone; set existing: Adopt to take it over", listed(found)), nil
}

// isForeign reports whether an object is there that no stack has made.
func (p *pass) isForeign(ctx context.Context, c platformstack.Component, wanted *unstructured.Unstructured) (bool, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(wanted.GroupVersionKind())
	key := client.ObjectKeyFromObject(wanted)
	if wanted.GetKind() != kindDefinition && (key.Namespace == "" || key.Namespace == chart.Namespace) {
		key.Namespace = c.Namespace
	}
	err := p.hand.client.Get(ctx, key, live)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return false, nil
	case apierrors.IsForbidden(err):
		return false, condition.Wait(condition.ReasonForbidden, "%s can't be read: %w", object.Of(wanted).Display(), err)
	case err != nil:
		return false, condition.Retry(condition.ReasonRetrying, "read %s: %w", object.Of(wanted).Display(), err)
	}
	ours := live.Annotations[object.AnnotationReleaseName] == c.Name && live.Annotations[object.AnnotationReleaseNamespace] == c.Namespace
	return live.Labels[platformstack.LabelStack] == "" && !ours, nil
}

// handOver gives definitions that this stack has made to the release that is about to
// have them among its templates: one that a version before had in its crds/, which Helm
// doesn't count as its own, or one that stayed when the component was elsewhere. What
// belongs to another release of the stack stays with it, and Helm says so.
func (p *pass) handOver(ctx context.Context, s *stand) error {
	of := s.component.Release()
	objects, err := p.templated(s.made, s.component)
	if err != nil {
		return err
	}
	live, err := p.live(ctx, definitionsOf(objects))
	if err != nil {
		return err
	}
	for _, each := range live {
		holder := platformv1alpha1.StackRelease{
			Name: each.GetAnnotations()[object.AnnotationReleaseName], Namespace: each.GetAnnotations()[object.AnnotationReleaseNamespace],
		}
		if each.GetLabels()[platformstack.LabelStack] != p.stack.Name || holder.Name == of.Name && holder.Namespace == of.Namespace || p.holds(holder) {
			continue
		}
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"labels":      map[string]any{object.LabelManagedBy: object.ManagedByHelm},
			"annotations": map[string]any{object.AnnotationReleaseName: of.Name, object.AnnotationReleaseNamespace: of.Namespace},
		}})
		if err != nil {
			return err
		}
		named := object.Of(each).Display()
		err = p.hand.client.Patch(ctx, each, client.RawPatch(types.MergePatchType, text), client.FieldOwner(helm.FieldManager))
		if client.IgnoreNotFound(err) != nil {
			return explained(err, named)
		}
	}
	return nil
}

// holds reports whether a release is one of the stack's.
func (p *pass) holds(release platformv1alpha1.StackRelease) bool {
	return slices.ContainsFunc(p.recorded(), func(each platformv1alpha1.StackRelease) bool {
		return each.Name == release.Name && each.Namespace == release.Namespace
	})
}

// rendered are the objects of a component: a chart's by its values.
func (p *pass) rendered(m *made, c platformstack.Component) ([]*unstructured.Unstructured, error) {
	if m.objects != nil {
		return m.objects, nil
	}
	return p.templated(m, c)
}

// templated are the objects that a component's chart gives, without its crds/.
func (p *pass) templated(m *made, c platformstack.Component) ([]*unstructured.Unstructured, error) {
	// The SDK changes a chart that it renders without a cluster.
	own, err := helm.LoadArchive(m.archive)
	if err != nil {
		return nil, err
	}
	server, err := discovery.NewDiscoveryClientForConfig(p.hand.config)
	if err != nil {
		return nil, err
	}
	running, err := server.ServerVersion()
	if err != nil {
		return nil, condition.Retry(condition.ReasonRetrying, "read the version of Kubernetes: %w", err)
	}
	text, err := helm.Template(helm.Request{Name: c.Name, Chart: own, Values: clone(c.Values), Timeout: c.Timeout}, c.Namespace, running.GitVersion)
	if err != nil {
		return nil, condition.Stop(condition.ReasonInvalidSpec, "the chart can't be rendered with these values: %w", err)
	}
	return parse([]byte(text))
}

// parse reads YAML documents.
func parse(text []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		each := &unstructured.Unstructured{}
		err := decoder.Decode(&each.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(each.Object) > 0:
			objects = append(objects, each)
		}
	}
}

// live are the definitions that are there of those that are wanted.
func (p *pass) live(ctx context.Context, wanted []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var live []*unstructured.Unstructured
	for _, each := range wanted {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(each.GroupVersionKind())
		err := p.hand.client.Get(ctx, client.ObjectKey{Name: each.GetName()}, found)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			return nil, condition.Wait(condition.ReasonForbidden, "%s can't be read: %w", object.Of(each).Display(), err)
		case err != nil:
			return nil, condition.Retry(condition.ReasonRetrying, "read %s: %w", object.Of(each).Display(), err)
		}
		live = append(live, found)
	}
	return live, nil
}
