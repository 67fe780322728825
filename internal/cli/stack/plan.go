package stack

import (
	"context"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	engine "github.com/slipway-dev/slipway/internal/reconcile/stack"
)

// Planned is what applying a stack would do about one component.
type Planned struct {
	Name      string        `json:"name"`
	Namespace string        `json:"namespace"`
	Wave      int           `json:"wave,omitempty"` // from 1; 0 for what is uninstalled
	Action    engine.Action `json:"action"`
	From      string        `json:"from,omitempty"`
	To        string        `json:"to,omitempty"`
	Digest    string        `json:"digest,omitempty"`
	Images    []string      `json:"images,omitempty"`
	// ImagesChanged, Gained, Lost, Warnings and Refused are a line for each change.
	ImagesChanged []string `json:"imagesChanged,omitempty"`
	Gained        []string `json:"permissionsGained,omitempty"`
	Lost          []string `json:"permissionsLost,omitempty"`
	Warnings      []string `json:"warnings,omitempty"`
	Refused       []string `json:"refused,omitempty"`
	Message       string   `json:"message,omitempty"`
	Fault         string   `json:"fault,omitempty"`
}

// Planner is the engine's, as far as it writes nothing.
type Planner interface {
	Plan(ctx context.Context, stack *platformv1alpha1.PlatformStack) ([]engine.Planned, error)
}

// Plan tells what applying a stack would do. The API server, where it knows PlatformStacks
// already, is asked whether it would take it.
func Plan(ctx context.Context, kube client.Client, planner Planner, wanted *platformv1alpha1.PlatformStack) ([]Planned, error) {
	asked := wanted.DeepCopy()
	object, err := asWritten(wanted)
	if err != nil {
		return nil, err
	}
	err = kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldManager), client.ForceOwnership, client.DryRunAll)
	if err != nil && !isNoMatch(err) {
		return nil, err
	}
	live := &platformv1alpha1.PlatformStack{}
	err = kube.Get(ctx, client.ObjectKeyFromObject(wanted), live)
	switch {
	case err == nil:
		asked.ObjectMeta, asked.Status = *live.ObjectMeta.DeepCopy(), live.Status
	case !apierrors.IsNotFound(err) && !isNoMatch(err):
		return nil, err
	}
	found, err := planner.Plan(ctx, asked)
	if err != nil {
		return nil, err
	}
	plan := make([]Planned, 0, len(found))
	for _, each := range found {
		plan = append(plan, planned(each))
	}
	return plan, nil
}

func planned(from engine.Planned) Planned {
	made := Planned{
		Name: from.Name, Namespace: from.Namespace, Wave: from.Wave, Action: from.Action, From: from.From, To: from.To,
		Digest: from.Digest, Images: from.Images, Message: from.Message,
	}
	if from.Fault != nil {
		made.Fault = strings.Join(strings.Fields(from.Fault.Error()), " ")
	}
	difference := from.Difference
	made.ImagesChanged, made.Gained, made.Lost = difference.Images, difference.Gained, difference.Lost
	made.Warnings, made.Refused = difference.Warnings, difference.Errors
	return made
}

// Faults says why a plan can't be carried out as it is; empty if it can.
func Faults(plan []Planned) []string {
	var faults []string
	for _, each := range plan {
		if each.Fault != "" {
			faults = append(faults, each.Name+": "+each.Fault)
		}
		for _, line := range each.Refused {
			faults = append(faults, each.Name+": "+line)
		}
	}
	return faults
}

// PrintPlan writes a plan for people, wave by wave.
func PrintPlan(out io.Writer, plan []Planned) error {
	text := &strings.Builder{}
	wave := -1
	for _, each := range plan {
		if each.Wave != wave {
			wave = each.Wave
			title := fmt.Sprintf("wave %d", wave)
			if wave == 0 {
				title = "in the end"
			}
			fmt.Fprintln(text, title)
		}
		each.print(text)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (p Planned) print(text *strings.Builder) {
	fmt.Fprintf(text, "  %s %s", strings.ToLower(string(p.Action)), p.Name)
	switch {
	case p.Action == engine.ActionUpgrade && p.From != "" && p.From != p.To && p.To != "":
		fmt.Fprintf(text, " %s -> %s", p.From, p.To)
	case p.To != "":
		fmt.Fprintf(text, " %s", p.To)
	}
	fmt.Fprintf(text, " in namespace %s\n", p.Namespace)
	line := func(what, about string) { fmt.Fprintf(text, "      %s: %s\n", what, about) }
	if p.Fault != "" {
		line("fault", p.Fault)
	}
	switch p.Action {
	case engine.ActionLeave:
		line("why", p.Message)
	case engine.ActionInstall:
		for _, image := range p.Images {
			line("image", image)
		}
		if len(p.Gained) > 0 {
			line("permissions", fmt.Sprintf("%d; -o yaml lists them", len(p.Gained)))
		}
	case engine.ActionUpgrade:
		for _, each := range p.ImagesChanged {
			line("image", each)
		}
		for _, each := range p.Gained {
			line("permission gained", each)
		}
		for _, each := range p.Lost {
			line("permission lost", each)
		}
	}
	for _, each := range p.Warnings {
		line("loses", each)
	}
	for _, each := range p.Refused {
		line("refused", each)
	}
}
