package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/release"
)

// Rollback asks for an earlier revision of a component.
type Rollback struct {
	Stack, Component string
	// Revision to go back to; 0 is the last one that was good.
	Revision int
	// Timeout of hooks of the chart.
	Timeout time.Duration
}

// Back repeats an earlier revision, and gives the one that it repeated. The engine
// leaves that alone until the stack's spec changes.
func Back(ctx context.Context, config *rest.Config, kube client.Client, asked Rollback) (release.Revision, error) {
	none := release.Revision{}
	stack := &platformv1alpha1.PlatformStack{}
	if err := kube.Get(ctx, client.ObjectKey{Name: asked.Stack}, stack); err != nil {
		return none, err
	}
	at := slices.IndexFunc(stack.Status.Releases, func(r platformv1alpha1.StackRelease) bool {
		return r.Component == asked.Component && r.Name == asked.Component
	})
	if at < 0 {
		return none, fmt.Errorf("PlatformStack %s has installed no component %s; slipway stack status %s lists them", asked.Stack, asked.Component, asked.Stack)
	}
	place := stack.Status.Releases[at]
	revisions, err := history(ctx, kube, place)
	if err != nil {
		return none, err
	}
	to, err := chosen(revisions, asked)
	if err != nil {
		return none, err
	}
	err = helm.NewReleases(config, place.Namespace, "", nil).Repeat(ctx, place.Name, to.Number, false, asked.Timeout)
	if err != nil {
		return none, fmt.Errorf("component %s can't go back to revision %d: %w", asked.Component, to.Number, err)
	}
	return to, nil
}

// history reads the revisions of a release, the oldest first.
func history(ctx context.Context, kube client.Reader, place platformv1alpha1.StackRelease) ([]release.Revision, error) {
	list := &corev1.SecretList{}
	if err := kube.List(ctx, list, client.InNamespace(place.Namespace), client.MatchingLabels(helm.SecretLabels(place.Name))); err != nil {
		return nil, err
	}
	stored := make([]helm.Stored, 0, len(list.Items))
	for i := range list.Items {
		each, err := helm.Decode(&list.Items[i])
		if err != nil {
			return nil, err
		}
		stored = append(stored, each)
	}
	helm.Complete(stored)
	return helm.Revisions(stored), nil
}

// chosen is the revision to go back to.
func chosen(revisions []release.Revision, asked Rollback) (release.Revision, error) {
	if len(revisions) == 0 {
		return release.Revision{}, fmt.Errorf("component %s has no revisions any more", asked.Component)
	}
	newest := revisions[len(revisions)-1]
	var there []string
	for _, each := range slices.Backward(revisions[:len(revisions)-1]) {
		good := !each.Faulted && (each.Status == release.Superseded || each.Status == release.Deployed) && (each.Settled || !each.Ours)
		if asked.Revision == each.Number || asked.Revision == 0 && good && !same(each, newest) {
			return each, nil
		}
		there = append(there, fmt.Sprint(each.Number))
	}
	if asked.Revision != 0 {
		if len(there) == 0 {
			there = []string{"none"}
		}
		return release.Revision{}, fmt.Errorf("component %s has no earlier revision %d; earlier ones are: %s", asked.Component, asked.Revision, strings.Join(there, ", "))
	}
	return release.Revision{}, fmt.Errorf("component %s has no good revision before revision %d to go back to", asked.Component, newest.Number)
}

// same reports whether going from one revision to the other would change nothing.
func same(one, newest release.Revision) bool {
	return one.Number == newest.RolledBackTo || one.Config != "" && one.Config == newest.Config
}
