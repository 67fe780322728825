package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
)

// Status is how a platform stands.
type Status struct {
	Stacks []Stack `json:"stacks"`
	// InferencePool are the served versions of the API, as version (group).
	InferencePool []string `json:"inferencePool"`
	// Istio are the versions of Istio, as its operator is told or its image says.
	Istio []string `json:"istio"`
}

// Stack is how one stack stands.
type Stack struct {
	Name string `json:"name"`
	// Ready is how many components are, as 3/4.
	Ready      string                             `json:"ready"`
	Reason     string                             `json:"reason,omitempty"`
	Message    string                             `json:"message,omitempty"`
	Components []platformv1alpha1.ComponentStatus `json:"components"`
}

// The definitions of both InferencePool APIs, the stable one first.
var inferencePools = []string{"inferencepools.inference.networking.k8s.io", "inferencepools.inference.networking.x-k8s.io"}

var istios = schema.GroupVersionKind{Group: "sailoperator.io", Version: "v1", Kind: "IstioList"}

// Ask reads how a stack stands, or all of them if name is empty.
func Ask(ctx context.Context, kube client.Reader, name string) (Status, error) {
	status := Status{Stacks: []Stack{}, InferencePool: []string{}, Istio: []string{}}
	list := &platformv1alpha1.PlatformStackList{}
	if err := kube.List(ctx, list); err != nil && !isNoMatch(err) && !apierrors.IsNotFound(err) {
		return status, err
	}
	for i := range list.Items {
		if name == "" || list.Items[i].Name == name {
			status.Stacks = append(status.Stacks, summed(&list.Items[i]))
		}
	}
	if name != "" && len(status.Stacks) == 0 {
		return status, fmt.Errorf("there is no PlatformStack %s; slipway stack status lists all", name)
	}
	for _, definition := range inferencePools {
		versions, err := served(ctx, kube, definition)
		if err != nil {
			return status, err
		}
		status.InferencePool = append(status.InferencePool, versions...)
	}
	var err error
	status.Istio, err = istioVersions(ctx, kube)
	return status, err
}

// summed tells of a stack all its components, also those that nobody has looked at yet.
func summed(stack *platformv1alpha1.PlatformStack) Stack {
	made := Stack{Name: stack.Name, Ready: stack.Status.Ready, Components: []platformv1alpha1.ComponentStatus{}}
	if made.Ready == "" {
		made.Ready = fmt.Sprintf("0/%d", len(stack.Spec.Components))
	}
	if ready := condition.Find(stack.Status.Conditions, condition.Ready); ready != nil {
		made.Reason, made.Message = ready.Reason, ready.Message
	}
	told := map[string]bool{}
	for _, each := range stack.Status.Components {
		told[each.Name] = true
		made.Components = append(made.Components, each)
	}
	for _, each := range stack.Spec.Components {
		if !told[each.Name] {
			made.Components = append(made.Components, platformv1alpha1.ComponentStatus{
				Name: each.Name, Phase: platformv1alpha1.PhaseWaiting, Message: "nobody has looked at it yet",
			})
		}
	}
	return made
}

// served are the versions that a definition serves, with its group.
func served(ctx context.Context, kube client.Reader, name string) ([]string, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := kube.Get(ctx, client.ObjectKey{Name: name}, definition); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	var versions []string
	for _, each := range definition.Spec.Versions {
		if each.Served {
			versions = append(versions, fmt.Sprintf("%s (%s)", each.Name, definition.Spec.Group))
		}
	}
	return versions, nil
}

// istioVersions are those that the operator is told to run; without it, those of the
// images of istiod.
func istioVersions(ctx context.Context, kube client.Reader) ([]string, error) {
	versions := []string{}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(istios)
	if err := kube.List(ctx, list); err != nil && !isNoMatch(err) && !apierrors.IsNotFound(err) {
		return versions, err
	}
	for _, each := range list.Items {
		if version, _, _ := unstructured.NestedString(each.Object, "spec", "version"); version != "" {
			versions = append(versions, version)
		}
	}
	if len(versions) == 0 {
		daemons := &appsv1.DeploymentList{}
		if err := kube.List(ctx, daemons, client.MatchingLabels{"app": "istiod"}); err != nil {
			return versions, err
		}
		for _, each := range daemons.Items {
			for _, container := range each.Spec.Template.Spec.Containers {
				image, _, _ := strings.Cut(container.Image, "@")
				if _, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":"); tagged {
					versions = append(versions, tag)
				}
			}
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions), nil
}

// counted is what the engine's message says of how many are ready, which the line says
// already.
var counted = regexp.MustCompile(`^(\d+ components are|the component is) ready(; |$)|; \d+ of \d+ components are ready$`)

// Print writes a status for people: a line for each component.
func Print(out io.Writer, status Status) error {
	lines := &strings.Builder{}
	for _, stack := range status.Stacks {
		fmt.Fprintf(lines, "%s: %s components are ready", stack.Name, stack.Ready)
		if rest := counted.ReplaceAllString(stack.Message, ""); rest != "" {
			fmt.Fprintf(lines, "; %s", rest)
		}
		fmt.Fprintf(lines, "\n\n")
		table := tabwriter.NewWriter(lines, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "COMPONENT\tVERSION\tPHASE\tWAITS FOR")
		for _, each := range stack.Components {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", each.Name, orDash(each.Version), orDash(string(each.Phase)), waitsFor(each))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		lines.WriteString("\n")
	}
	if len(status.Stacks) == 0 {
		lines.WriteString("There is no PlatformStack. slipway stack apply --preset xks begins.\n\n")
	}
	fmt.Fprintf(lines, "InferencePool API: %s\n", orNot(status.InferencePool))
	fmt.Fprintf(lines, "Istio version: %s\n", orNot(status.Istio))
	var text strings.Builder
	for line := range strings.Lines(lines.String()) {
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// waitsFor is what a component waits for, or what else is to be said of it.
func waitsFor(each platformv1alpha1.ComponentStatus) string {
	switch {
	case len(each.WaitsFor) > 0:
		return strings.Join(each.WaitsFor, ", ")
	case each.Phase == platformv1alpha1.PhaseReady:
		return ""
	}
	return each.Message
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func orNot(texts []string) string {
	if len(texts) == 0 {
		return "not installed"
	}
	return strings.Join(texts, ", ")
}

// IsAbsent reports whether an error says that there is no such stack: not this one, or
// none, since a cluster doesn't know the kind.
func IsAbsent(err error) bool { return apierrors.IsNotFound(err) || isNoMatch(err) }

// isNoMatch reports whether an API isn't served at all.
func isNoMatch(err error) bool {
	var discovery *apierrors.StatusError
	return meta.IsNoMatchError(err) || errors.As(err, &discovery) && discovery.ErrStatus.Code == 404
}
