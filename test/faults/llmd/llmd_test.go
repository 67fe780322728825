// Package llmd kills the operator after each single write of an Llmd's life: its
// creation, its upgrade, the moves of its release to another name and to another
// namespace, and its deletion. The releases must end as they do without the fault,
// and a deleted Llmd must leave none behind. Writes that are refused or whose
// answers are lost may make a release fail; then one retry must mend it.
package llmd

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/llmd"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/faults/story"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// life is that of a release, which is upgraded, then gets another name, and then
// another namespace: it is uninstalled where it was and installed where it shall be.
func life(dir string) story.Story {
	return story.Story{
		Controllers: []string{"llmd"},
		Second:      true,
		Beside:      beside,
		Resource:    func(namespace string) client.Object { return one(dir, namespace) },
		Steps: []story.Step{
			{Name: "create", Writes: 15, Missing: unready, Do: func(p *story.Place) {
				p.Must(p.User.Create(p.Context(), one(dir, p.Namespace)))
			}},
			{Name: "upgrade", Writes: 5, Missing: unready, Do: func(p *story.Place) {
				change(p, func(spec *componentsv1alpha1.LlmdSpec) { spec.ModelService.Version = "1.1.0" })
			}},
			{Name: "rename", Writes: 20, From: 1, By: 2, Missing: unready, Do: func(p *story.Place) {
				change(p, func(spec *componentsv1alpha1.LlmdSpec) { spec.ModelService.ReleaseName = "renamed" })
			}},
			{Name: "move", Writes: 20, From: 2, By: 2, Missing: unready, Do: func(p *story.Place) {
				change(p, func(spec *componentsv1alpha1.LlmdSpec) { spec.Namespace = p.Second() })
			}},
			{Name: "delete", Writes: 8, Missing: story.Left, Do: func(p *story.Place) {
				p.Must(client.IgnoreNotFound(p.User.Delete(p.Context(), one(dir, p.Namespace))))
			}},
		},
	}
}

func one(dir, namespace string) *componentsv1alpha1.Llmd {
	off := &componentsv1alpha1.ChartSpec{Enabled: new(false)}
	return &componentsv1alpha1.Llmd{
		ObjectMeta: metav1.ObjectMeta{Name: componentsv1alpha1.LlmdName},
		Spec: componentsv1alpha1.LlmdSpec{Charts: componentsv1alpha1.Charts{
			Namespace: namespace, Infra: off, GatewayAPI: off,
			ModelService: &componentsv1alpha1.ChartSpec{
				Chart: fixture.Name, Version: "1.0.0", Repository: &componentsv1alpha1.Repository{URL: dir},
			},
		}},
	}
}

func change(p *story.Place, how func(*componentsv1alpha1.LlmdSpec)) {
	p.Helper()
	changed := one("", p.Namespace)
	p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(changed), changed))
	before := changed.DeepCopy()
	how(&changed.Spec)
	p.Must(p.User.Patch(p.Context(), changed, client.MergeFrom(before)))
}

// beside shows the one Llmd, without the revisions, of which faults make more, and
// which releases there are.
func beside(p *story.Place) bed.World {
	p.Helper()
	world := bed.World{}
	found := one("", p.Namespace)
	err := p.User.Get(p.Context(), client.ObjectKeyFromObject(found), found)
	p.Must(client.IgnoreNotFound(err))
	if err == nil {
		world["Llmd"] = []any{condition.IsCurrent(found.Status.Conditions, condition.Ready, found.Generation), len(found.Status.Releases), found.Finalizers}
	}
	for where, namespace := range map[string]string{"": p.Namespace, "second ": p.Second()} {
		if releases := releasesIn(p, namespace); releases != nil {
			world[where+"releases"] = releases
		}
	}
	return world
}

// releasesIn are the releases of a namespace that stand.
func releasesIn(p *story.Place, namespace string) []string {
	p.Helper()
	var secrets corev1.SecretList
	p.Must(p.User.List(p.Context(), &secrets, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm"}))
	if len(secrets.Items) == 0 {
		return nil
	}
	standing := []string{}
	for i := range secrets.Items {
		if labels := secrets.Items[i].Labels; labels["status"] != "superseded" && labels["status"] != "failed" {
			standing = append(standing, labels["name"]+" "+labels["status"])
		}
	}
	slices.Sort(standing)
	return standing
}

func unready(p *story.Place, _ bed.World) string {
	p.Helper()
	found := one("", p.Namespace)
	p.Must(client.IgnoreNotFound(p.User.Get(p.Context(), client.ObjectKeyFromObject(found), found)))
	ready := condition.Find(found.Status.Conditions, condition.Ready)
	switch {
	case ready == nil || ready.ObservedGeneration != found.Generation:
		return "nothing is told yet"
	case ready.Status != metav1.ConditionTrue:
		return ready.Message
	default:
		return ""
	}
}

// TestTheWorldEndsTheSame breaks each write once, and every other one of many. A
// release whose process dies again and again is made again after growing pauses,
// for which no test waits.
func TestTheWorldEndsTheSame(t *testing.T) {
	told := life(charts(t))
	worlds := told.Worlds(t, api)
	told.Rounds(t, api, worlds, bed.DieAfter)
	for _, fault := range []bed.Fault{bed.LoseAnswer, bed.Fail, bed.Conflict} {
		t.Run("one retry mends/"+fault.String(), func(t *testing.T) {
			t.Parallel()
			retried(told.Place(t, api), told, worlds, fault)
		})
	}
}

// many are the writes of which every other one is broken, more than Helm makes for
// one revision of the chart.
const many = 13

// retried breaks every other write at the beginning of each step. Helm tries no
// write again, so a revision may fail, and then the user is told so and asks for
// another.
func retried(p *story.Place, told story.Story, worlds []bed.World, fault bed.Fault) {
	p.Helper()
	for at, step := range told.Steps {
		over := p.BreakFirst(many, fault)
		step.Do(p)
		p.Await(func() string {
			if differs := told.Differs(p, worlds[at]); differs != "" && !story.IsSo(over) && !stalled(p) {
				return differs
			}
			return ""
		})
		p.Mend()
		asked := false
		p.Await(func() string {
			if !asked && stalled(p) {
				asked = true
				again(p, step.Name)
			}
			return told.Differs(p, worlds[at])
		})
		p.Logf("%s: asked for another try: %v", step.Name, asked)
	}
}

// stalled tells whether the user must act.
func stalled(p *story.Place) bool {
	p.Helper()
	found := one("", p.Namespace)
	err := p.User.Get(p.Context(), client.ObjectKeyFromObject(found), found)
	p.Must(client.IgnoreNotFound(err))
	return err == nil && condition.IsCurrent(found.Status.Conditions, condition.Stalled, found.Generation)
}

func again(p *story.Place, why string) {
	p.Helper()
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, llmd.AnnotationRetry, why)
	p.Must(p.User.Patch(p.Context(), one("", p.Namespace), client.RawPatch(types.MergePatchType, []byte(body))))
}

// science is the life of a DataScienceCluster's component that is removed and
// comes back.
func science(dir string) story.Story {
	told := life(dir)
	told.Controllers = []string{"llmd", "datasciencecluster"}
	managed := told.Steps[0]
	told.Steps = []story.Step{
		{Name: "managed", Missing: managed.Missing, Do: func(p *story.Place) { manage(p, dir, componentsv1alpha1.Managed) }},
		{Name: "removed", Writes: 10, By: 2, Missing: func(p *story.Place, world bed.World) string {
			if world["Llmd"] != nil {
				return "there is an Llmd"
			}
			return story.Left(p, world)
		}, Do: func(p *story.Place) { manage(p, dir, componentsv1alpha1.Removed) }},
	}
	return told
}

// manage makes the cluster, which goes with the test, or changes the state of its
// component.
func manage(p *story.Place, dir string, state componentsv1alpha1.ManagementState) {
	p.Helper()
	cluster := &datascienceclusterv2.DataScienceCluster{ObjectMeta: metav1.ObjectMeta{Name: "default-dsc"}}
	err := p.User.Get(p.Context(), client.ObjectKeyFromObject(cluster), cluster)
	p.Must(client.IgnoreNotFound(err))
	before := cluster.DeepCopy()
	cluster.Spec.Components.Llmd = &componentsv1alpha1.DSCLlmd{ManagementState: state, Charts: one(dir, p.Namespace).Spec.Charts}
	if err == nil {
		p.Must(p.User.Patch(p.Context(), cluster, client.MergeFrom(before)))
		return
	}
	p.Cleanup(func() {
		if err := p.User.Delete(context.WithoutCancel(p.Context()), cluster); err != nil {
			p.Error(err)
		}
	})
	p.Must(p.User.Create(p.Context(), cluster))
}

// TestRemoved breaks writes of what a DataScienceCluster does to a component that
// shall be gone: every other one, since most are those of the Llmd's deletion.
func TestRemoved(t *testing.T) {
	told := science(charts(t))
	told.Rounds(t, api, told.Worlds(t, api), bed.DieAfter)
}
