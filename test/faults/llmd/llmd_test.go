// Package llmd kills the operator after each single write of an Llmd's creation and
// of its upgrade: the releases must end as they do without the fault, and a deleted
// Llmd must leave none behind.
package llmd

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/faults/story"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// life is that of a release, which is upgraded, and then gets another name: it is
// uninstalled under the old one and installed under the new.
func life(dir string) story.Story {
	return story.Story{
		Controllers: []string{"llmd"},
		Beside:      beside,
		Resource:    func(namespace string) client.Object { return one(dir, namespace) },
		Steps: []story.Step{
			{Name: "create", Writes: 15, Missing: unready, Do: func(p *story.Place) {
				p.Must(p.User.Create(p.Context(), one(dir, p.Namespace)))
			}},
			{Name: "upgrade", Writes: 5, Missing: unready, Do: func(p *story.Place) {
				change(p, func(spec *componentsv1alpha1.LlmdSpec) { spec.ModelService.Version = "1.1.0" })
			}},
			{Name: "rename", Writes: 20, Missing: unready, Do: func(p *story.Place) {
				change(p, func(spec *componentsv1alpha1.LlmdSpec) { spec.ModelService.ReleaseName = "renamed" })
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
	if err == nil && found.Spec.Namespace == p.Namespace {
		world["Llmd"] = []any{condition.IsCurrent(found.Status.Conditions, condition.Ready, found.Generation), len(found.Status.Releases), found.Finalizers}
	}
	var secrets corev1.SecretList
	p.Must(p.User.List(p.Context(), &secrets, client.InNamespace(p.Namespace), client.MatchingLabels{"owner": "helm"}))
	var deployed []string
	for i := range secrets.Items {
		if labels := secrets.Items[i].Labels; labels["status"] != "superseded" && labels["status"] != "failed" {
			deployed = append(deployed, labels["name"]+" "+labels["status"])
		}
	}
	slices.Sort(deployed)
	if len(secrets.Items) > 0 {
		world["releases"] = deployed
	}
	return world
}

func unready(p *story.Place, _ bed.World) string {
	p.Helper()
	found := one("", p.Namespace)
	p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(found), found))
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

// TestTheWorldEndsTheSame breaks each write once. A release whose process dies
// again and again is made again after growing pauses, for which no test waits.
func TestTheWorldEndsTheSame(t *testing.T) {
	told := life(charts(t))
	told.Single(t, api, told.Worlds(t, api), 2, bed.DieAfter)
}
