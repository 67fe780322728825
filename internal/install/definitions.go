package install

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"

	charts "github.com/slipway-dev/slipway/helm-charts"
	"github.com/slipway-dev/slipway/internal/helm"
)

// definitionTimeout bounds the wait until the API server serves a new kind, or
// has forgotten an old one. It takes about a second; a minute means that
// something is broken.
const definitionTimeout = time.Minute

var definitionsResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// definitionFiles are the embedded files of the kinds' definitions, sorted.
func definitionFiles() ([]string, error) {
	return fs.Glob(charts.Files, charts.CRDs+"/*.yaml")
}

// definitions reads the embedded definitions.
func definitions() ([]*unstructured.Unstructured, error) {
	files, err := definitionFiles()
	if err != nil {
		return nil, err
	}
	list := make([]*unstructured.Unstructured, 0, len(files))
	for _, file := range files {
		content, err := fs.ReadFile(charts.Files, file)
		if err != nil {
			return nil, err
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &definition.Object); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		list = append(list, definition)
	}
	return list, nil
}

// applyDefinitions brings the definitions of the kinds to this version and waits
// until they are served. Helm only ever creates what is in a chart's crds/, so
// that an upgrade would otherwise leave the old ones. Fields are taken over from
// whoever applied them before (`kubectl apply -f crds/`): a definition is ours
// alone.
func (i *Installer) applyDefinitions(ctx context.Context) error {
	list, err := definitions()
	if err != nil {
		return err
	}
	resource := i.dynamic.Resource(definitionsResource)
	created, configured := 0, 0
	for _, definition := range list {
		before, err := resource.Get(ctx, definition.GetName(), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read the definition %s: %w", definition.GetName(), err)
		}
		existed := err == nil
		after, err := resource.Apply(ctx, definition.GetName(), definition, metav1.ApplyOptions{FieldManager: helm.FieldManager, Force: true})
		if err != nil {
			return fmt.Errorf("apply the definition %s: %w", definition.GetName(), err)
		}
		switch {
		case !existed:
			created++
		case before.GetGeneration() != after.GetGeneration():
			configured++
		}
		if established(after) {
			continue
		}
		if err := i.awaitDefinition(ctx, definition.GetName(), established); err != nil {
			return fmt.Errorf("the API server doesn't serve %s; see kubectl describe crd %s: %w", definition.GetName(), definition.GetName(), err)
		}
	}
	i.report(Event{Text: definitionSummary(len(list), created, configured), Final: true})
	return nil
}

func definitionSummary(all, created, configured int) string {
	parts := []string{}
	if created > 0 {
		parts = append(parts, fmt.Sprintf("%d created", created))
	}
	if configured > 0 {
		parts = append(parts, fmt.Sprintf("%d updated", configured))
	}
	if unchanged := all - created - configured; unchanged > 0 {
		parts = append(parts, fmt.Sprintf("%d unchanged", unchanged))
	}
	return "definitions: " + strings.Join(parts, ", ")
}

// awaitDefinition waits until a definition is as wanted, or, with no want, until
// it is gone; at most definitionTimeout.
func (i *Installer) awaitDefinition(ctx context.Context, name string, wanted func(*unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithTimeout(ctx, definitionTimeout)
	defer cancel()
	resource := i.dynamic.Resource(definitionsResource)
	byName := fields.OneTermEqualSelector("metadata.name", name).String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = byName
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = byName
			return resource.Watch(ctx, options)
		},
	}
	gone := func(store cache.Store) (bool, error) { return wanted == nil && len(store.List()) == 0, nil }
	_, err := watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, gone, func(event watch.Event) (bool, error) {
		if event.Type == watch.Deleted {
			return wanted == nil, nil
		}
		object, ok := event.Object.(*unstructured.Unstructured)
		return ok && wanted != nil && wanted(object), nil
	})
	return err
}

// established says whether the API server serves a definition's kind.
func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, each := range conditions {
		condition, _ := each.(map[string]any)
		if condition["type"] == string(apiextensionsv1.Established) {
			return condition["status"] == string(apiextensionsv1.ConditionTrue)
		}
	}
	return false
}
