package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/helm"
)

// named is how many resources a refusal names before it only counts.
const named = 3

// Removal says what is taken out.
type Removal struct {
	// DeleteDefinitions deletes the definitions of the kinds too. Resources of a
	// kind go with its definition, so that it is refused while there are any.
	DeleteDefinitions bool
	// Force removes the operator although resources of its kinds exist. They and
	// their pods stay and are no longer looked after.
	Force   bool
	Timeout time.Duration
}

// RemainingError means that resources exist which need the operator.
type RemainingError struct {
	// Kinds are the plurals of the kinds that have resources, with their group.
	Kinds []string
	// Examples are some of the resources, as kind namespace/name.
	Examples []string
	// More says that there are others.
	More bool
	// DefinitionsToo says that the definitions were to be deleted.
	DefinitionsToo bool
}

func (e *RemainingError) Error() string {
	examples := strings.Join(e.Examples, ", ")
	if e.More {
		examples += " and others"
	}
	text := fmt.Sprintf("resources that need the operator still exist (%s); delete them first with kubectl delete %s --all --all-namespaces",
		examples, strings.Join(e.Kinds, ","))
	if !e.DefinitionsToo {
		text += ", or leave them unattended with --force"
	}
	return text
}

// Uninstall removes the operator's release, and the definitions if told to. It
// returns what stays, as lines for the user with the command that removes it.
func (i *Installer) Uninstall(ctx context.Context, removal Removal) ([]string, error) {
	list, err := definitions()
	if err != nil {
		return nil, err
	}
	remaining, err := i.remaining(ctx, list)
	if err != nil {
		return nil, err
	}
	if remaining != nil && (removal.DeleteDefinitions || !removal.Force) {
		remaining.DefinitionsToo = removal.DeleteDefinitions
		return nil, remaining
	}
	if err := i.removeRelease(ctx, removal.Timeout); err != nil {
		return nil, err
	}
	if removal.DeleteDefinitions {
		if err := i.deleteDefinitions(ctx, list); err != nil {
			return nil, err
		}
	}
	return i.stays(ctx, list)
}

// removeRelease removes the release, if there is one, and waits until its pods
// are gone.
func (i *Installer) removeRelease(ctx context.Context, timeout time.Duration) error {
	release, err := i.helm.Get(Release)
	if errors.Is(err, helm.ErrNotFound) {
		i.report(Event{Text: fmt.Sprintf("release %s isn't installed in namespace %s", Release, i.namespace), Final: true})
		return nil
	}
	if err != nil {
		return err
	}
	i.report(Event{Text: "release " + Release + ": removing"})
	if err := i.helm.Uninstall(Release, timeout); err != nil {
		return err
	}
	objects, err := manifests(release)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	changed, err := i.changes(ctx)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		if err := i.waitUntilGone(ctx, object.GetName(), changed); err != nil {
			return err
		}
	}
	i.report(Event{Text: "release " + Release + " removed", Final: true})
	return nil
}

// waitUntilGone waits until a Deployment, and with it its pods, is gone.
func (i *Installer) waitUntilGone(ctx context.Context, name string, changed <-chan struct{}) error {
	for {
		_, err := i.kube.AppsV1().Deployments(i.namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("read deployment %s: %w", name, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("deployment %s is being deleted and isn't gone yet: %w; see kubectl get pods --namespace %s", name, ctx.Err(), i.namespace)
		}
	}
}

// remaining looks for resources of the kinds; nil means that there are none.
func (i *Installer) remaining(ctx context.Context, list []*unstructured.Unstructured) (*RemainingError, error) {
	found := &RemainingError{}
	for _, definition := range list {
		resource, err := servedResource(definition)
		if err != nil {
			return nil, err
		}
		objects, err := i.dynamic.Resource(resource).List(ctx, metav1.ListOptions{Limit: named + 1})
		if apierrors.IsNotFound(err) {
			continue // The definition isn't installed.
		}
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", resource.GroupResource(), err)
		}
		if len(objects.Items) > 0 {
			found.Kinds = append(found.Kinds, resource.GroupResource().String())
		}
		for _, object := range objects.Items {
			if len(found.Examples) == named {
				found.More = true
				break
			}
			name := strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
			found.Examples = append(found.Examples, object.GetKind()+" "+name)
		}
	}
	if len(found.Kinds) == 0 {
		return nil, nil
	}
	return found, nil
}

// servedResource is the resource that a definition stores.
func servedResource(definition *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, each := range versions {
		version, _ := each.(map[string]any)
		name, _ := version["name"].(string)
		if version["storage"] == true && name != "" {
			return schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("the definition %s stores no version", definition.GetName())
}

// deleteDefinitions deletes the definitions and waits until they are gone: a new
// installation would find them terminating.
func (i *Installer) deleteDefinitions(ctx context.Context, list []*unstructured.Unstructured) error {
	for _, definition := range list {
		err := i.dynamic.Resource(definitionsResource).Delete(ctx, definition.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the definition %s: %w", definition.GetName(), err)
		}
	}
	for _, definition := range list {
		if err := i.awaitDefinition(ctx, definition.GetName(), nil); err != nil {
			return fmt.Errorf("the definition %s is being deleted and isn't gone yet; see kubectl describe crd %s: %w", definition.GetName(), definition.GetName(), err)
		}
	}
	i.report(Event{Text: "definitions deleted", Final: true})
	return nil
}

// stays lists what is left of an installation.
func (i *Installer) stays(ctx context.Context, list []*unstructured.Unstructured) ([]string, error) {
	lines := []string{}
	names := []string{}
	for _, definition := range list {
		found, err := i.dynamic.Resource(definitionsResource).Get(ctx, definition.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the definition %s: %w", definition.GetName(), err)
		}
		if found.GetDeletionTimestamp() == nil {
			names = append(names, found.GetName())
		}
	}
	if len(names) > 0 {
		lines = append(lines, fmt.Sprintf("the definitions stay, and with them every resource; remove them with: kubectl delete crd %s", strings.Join(names, " ")))
	}
	_, err := i.kube.CoreV1().Namespaces().Get(ctx, i.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return lines, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", i.namespace, err)
	}
	return append(lines, fmt.Sprintf("namespace %s stays; remove it with: kubectl delete namespace %s", i.namespace, i.namespace)), nil
}
