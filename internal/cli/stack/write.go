package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	charts "github.com/slipway-dev/slipway/helm-charts"
)

// fieldManager is who a PlatformStack's spec is from.
const fieldManager = "slipway-stack"

// definition is the file of the kind's own definition, and its name.
const (
	definitionFile = charts.CRDs + "/platform.slipway.dev_platformstacks.yaml"
	definitionName = "platformstacks.platform.slipway.dev"
	definitionTime = time.Minute
	definitionLook = 200 * time.Millisecond
)

// Define makes the definition of PlatformStacks where it is missing, and waits until it
// is served. It reports whether it was made. One that is there is left as it is: it is
// the operator's installation that upgrades it.
func Define(ctx context.Context, kube client.Client) (bool, error) {
	made := false
	present := &apiextensionsv1.CustomResourceDefinition{}
	err := kube.Get(ctx, client.ObjectKey{Name: definitionName}, present)
	if apierrors.IsNotFound(err) {
		definition, err := definitionObject()
		if err != nil {
			return false, err
		}
		err = kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(definition), client.FieldOwner(fieldManager))
		if err != nil {
			return false, fmt.Errorf("the definition of PlatformStacks can't be made: %w", err)
		}
		made = true
	} else if err != nil {
		return false, err
	}
	err = wait.PollUntilContextTimeout(ctx, definitionLook, definitionTime, true, func(ctx context.Context) (bool, error) {
		// The definition says that it is served a moment before it is.
		err := kube.List(ctx, &platformv1alpha1.PlatformStackList{}, client.Limit(1))
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsNotFound(err), isNoMatch(err):
			return false, nil
		}
		return false, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = errors.New("the API server doesn't serve PlatformStacks although they are defined; look at: kubectl describe crd " + definitionName)
	}
	return made, err
}

func definitionObject() (*unstructured.Unstructured, error) {
	text, err := charts.Files.ReadFile(definitionFile)
	if err != nil {
		return nil, err
	}
	definition := &unstructured.Unstructured{}
	return definition, yaml.Unmarshal(text, &definition.Object)
}

// Write applies a PlatformStack, server-side, and gives it as it is then. force takes
// over fields that someone else has set.
func Write(ctx context.Context, kube client.Client, wanted *platformv1alpha1.PlatformStack, force bool) (*platformv1alpha1.PlatformStack, error) {
	object, err := asWritten(wanted)
	if err != nil {
		return nil, err
	}
	options := []client.ApplyOption{client.FieldOwner(fieldManager)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	err = kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
	switch {
	case apierrors.IsConflict(err):
		return nil, fmt.Errorf("PlatformStack %s was changed by someone else: %w; take it over with --force-conflicts", wanted.Name, err)
	case err != nil:
		return nil, err
	}
	written := &platformv1alpha1.PlatformStack{}
	return written, kube.Get(ctx, client.ObjectKeyFromObject(wanted), written)
}

// asWritten is what a user wrote: neither a status nor what only the server sets.
func asWritten(stack *platformv1alpha1.PlatformStack) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stack)
	if err != nil {
		return nil, err
	}
	made := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(made.Object, "status")
	unstructured.RemoveNestedField(made.Object, "metadata", "creationTimestamp")
	made.SetGroupVersionKind(platformv1alpha1.GroupVersion.WithKind(platformv1alpha1.KindPlatformStack))
	return made, nil
}

// Text is a stack as a user would write it, as YAML.
func Text(stack *platformv1alpha1.PlatformStack) ([]byte, error) {
	object, err := asWritten(stack)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(object.Object)
}

// approve puts an approval on a stack, beside others that are there. The stack's
// resource version makes sure that what is approved is what was seen.
func approve(ctx context.Context, kube client.Client, stack *platformv1alpha1.PlatformStack, component, digest string) error {
	kept := []string{}
	for _, each := range strings.Split(stack.Annotations[platformv1alpha1.AnnotationApprove], ",") {
		if name, _, found := strings.Cut(strings.TrimSpace(each), "="); found && name != component {
			kept = append(kept, strings.TrimSpace(each))
		}
	}
	kept = append(kept, component+"="+digest)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": stack.ResourceVersion,
		"annotations":     map[string]any{platformv1alpha1.AnnotationApprove: strings.Join(kept, ",")},
	}})
	if err != nil {
		return err
	}
	return kube.Patch(ctx, stack, client.RawPatch("application/merge-patch+json", patch))
}
