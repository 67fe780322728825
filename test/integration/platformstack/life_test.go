package platformstack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/reconcile/stack"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// records are the Secrets in which Helm keeps releases, by release and status.
func records(t *testing.T, namespaces ...string) []string {
	t.Helper()
	var names []string
	for _, namespace := range namespaces {
		var list corev1.SecretList
		if err := kube.List(t.Context(), &list, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm"}); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			labels := list.Items[i].Labels
			names = append(names, namespace+"/"+labels["name"]+" "+labels["version"]+" "+labels["status"])
		}
	}
	return names
}

// TestABundleAChartAndManifests installs one of each in order, and takes them away
// again.
func TestABundleAChartAndManifests(t *testing.T) {
	charts := t.TempDir()
	if err := os.WriteFile(filepath.Join(charts, fixture.Name+"-1.0.0.tgz"), fixture.Archive(t, "1.0.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle := operator(t, "whale", "1.2.3", "whale.example.com")
	plain := written(t, t.TempDir(), "all.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: life-plain, labels: {a: b}}\n---\n"+
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\ndata: {text: 'write {{ .Values.x }} here'}\n---\n"+deployment("plain", "example.com/plain:1"))
	spec := `
components:
- name: plain
  namespace: life-plain
  dependsOn: [chart]
  source: {manifests: {path: ` + plain + `, version: "7"}}
- name: chart
  namespace: life-chart
  dependsOn: [whale]
  source: {chart: {repository: {url: ` + charts + `}, name: stack, version: 1.0.0}}
- name: whale
  namespace: life-whale
  source: {bundle: {image: ` + bundle + `}}
`
	plans(t, stackOf(t, "life", spec), []string{"1 whale Install  1.2.3 example.com/whale:1.2.3", "2 chart Install  1.0.0 registry.example.com/server:v1", "3 plain Install  7 example.com/plain:1"})
	made := create(t, "life", spec)
	ready := await(t, "life", isReady)
	if message := condition.Find(ready.Status.Conditions, condition.Ready).Message; message != "3 components are ready" || ready.Status.Ready != "3/3" {
		t.Errorf("it says %q, %s", message, ready.Status.Ready)
	}
	namespaces := []string{"life-whale", "life-chart", "life-plain"}
	if diff := cmp.Diff([]string{"life-whale/whale 1 deployed", "life-chart/chart 1 deployed", "life-plain/plain 1 deployed"}, records(t, namespaces...)); diff != "" {
		t.Error(diff)
	}
	want := []string{"plain life-plain Ready 7 1", "chart life-chart Ready 1.0.0 1", "whale life-whale Ready 1.2.3 1"}
	var got []string
	for _, c := range ready.Status.Components {
		got = append(got, strings.Join([]string{c.Name, c.Namespace, string(c.Phase), c.Version, "1"}, " "))
		if c.Revision != 1 || len(c.WaitsFor) > 0 {
			t.Errorf("%+v", c)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var order []string
	for _, each := range ready.Status.Releases {
		order = append(order, each.Name)
	}
	if diff := cmp.Diff([]string{"whale", "chart", "plain"}, order); diff != "" {
		t.Errorf("made in the order %v", order)
	}
	words := &corev1.ConfigMap{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "life-plain", Name: "words"}, words); err != nil || words.Data["text"] != "write {{ .Values.x }} here" {
		t.Errorf("%v %v", words.Data, err)
	}
	labelled := &corev1.Namespace{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "life-plain"}, labelled); err != nil || labelled.Labels["a"] != "b" {
		t.Errorf("%v %v", labelled.Labels, err)
	}
	rests(t, "life")
	plans(t, ready, []string{"1 whale Unchanged 1.2.3 1.2.3 example.com/whale:1.2.3", "2 chart Unchanged 1.0.0 1.0.0 registry.example.com/server:v1", "3 plain Unchanged  7 example.com/plain:1"})

	remove(t, made)
	if left := records(t, namespaces...); left != nil {
		t.Errorf("left: %v", left)
	}
	err := kube.Get(t.Context(), client.ObjectKey{Namespace: "life-plain", Name: "plain"}, &appsv1.Deployment{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment is left: %v", err)
	}
	thing := bed.List(t.Context(), t, kube, platformDefinition, "")
	if len(thing) == 0 {
		t.Error("the definitions are gone")
	}
	// What a former stack has defined is no installation from elsewhere.
	create(t, "again", "components:\n- name: whale\n  namespace: life-whale\n  source: {bundle: {image: "+bundle+"}}\n")
	await(t, "again", func(s *platformv1alpha1.PlatformStack) string { return isIn("whale Ready")(s) })
}

// rests demands that another look writes nothing.
func rests(t *testing.T, name string) {
	t.Helper()
	wire.TakeWrites()
	change(t, name, func(s *platformv1alpha1.PlatformStack) {
		s.Annotations = map[string]string{"example.com/look": s.ResourceVersion}
	})
	// The reads of a pass end with the copies of pull secrets.
	await(t, name, isReady)
	awaitPass(t)
	if calls := wire.TakeWrites(); len(calls) > 0 {
		t.Errorf("at rest it writes: %v", calls)
	}
}

// plans demands that a plan says something, and writes nothing.
func plans(t *testing.T, made *platformv1alpha1.PlatformStack, want []string) {
	t.Helper()
	through := &bed.Wire{}
	engine := stack.New(stack.Options{
		Config: through.Through(config), Client: bed.Client(t, through.Through(config)),
		Charts: registry.New(registry.Options{Now: time.Now}), OwnRights: true, Now: time.Now,
	})
	plan, err := engine.Plan(t.Context(), made)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, each := range plan {
		if each.Fault != nil || len(each.Difference.Warnings) > 0 {
			t.Errorf("%+v", each)
		}
		got = append(got, fmt.Sprintf("%d %s %s %s %s %s", each.Wave, each.Name, each.Action, each.From, each.To, strings.Join(each.Images, " ")))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// What drifted is foreseen by dry runs, which a wire takes for writes.
	if calls := through.TakeWrites(); len(calls) > 0 && made.UID == "" {
		t.Errorf("a plan writes %v", calls)
	}
}
