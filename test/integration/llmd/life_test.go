package llmd

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// charts is a directory with the chart of the fixtures in some versions.
func charts(t *testing.T, versions ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, version := range versions {
		if err := os.WriteFile(filepath.Join(dir, fixture.Name+"-"+version+".tgz"), fixture.Archive(t, version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func raw(t *testing.T, values map[string]any) *runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: text}
}

func chart(repository, version string) *componentsv1alpha1.ChartSpec {
	return &componentsv1alpha1.ChartSpec{
		Repository: &componentsv1alpha1.Repository{URL: repository}, Chart: fixture.Name, Version: version, Timeout: "30s",
	}
}

// resource is an Llmd of three releases of the fixture's chart.
func resource(t *testing.T, namespace string) *componentsv1alpha1.Llmd {
	t.Helper()
	dir := charts(t, "1.0.0", "1.1.0")
	return &componentsv1alpha1.Llmd{
		ObjectMeta: metav1.ObjectMeta{Name: componentsv1alpha1.LlmdName},
		Spec: componentsv1alpha1.LlmdSpec{Charts: componentsv1alpha1.Charts{
			Namespace: namespace,
			Infra:     chart(dir, "1.0.0"), GatewayAPI: chart(dir, "1.0.0"), ModelService: chart(dir, "1.0.0"),
		}},
	}
}

// deployments are the names of the Deployments with the label that all have.
func deployments(t *testing.T, namespace string) []string {
	t.Helper()
	var list appsv1.DeploymentList
	if err := kube.List(t.Context(), &list, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/part-of": "llm-d"}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Labels["app.kubernetes.io/component"])
		}
	}
	return names
}

// records are the Secrets in which Helm keeps releases, by release and status.
func records(t *testing.T, namespace string) []string {
	t.Helper()
	var list corev1.SecretList
	if err := kube.List(t.Context(), &list, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm"}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Labels["name"]+" "+list.Items[i].Labels["version"]+" "+list.Items[i].Labels["status"])
	}
	return names
}

func TestReleasesRestAndGo(t *testing.T) {
	made := resource(t, "life")
	create(t, made)
	ready := awaitLlmd(t, isReady)
	if diff := cmp.Diff([]string{"gateway-api", "infra", "modelservice"}, deployments(t, "life")); diff != "" {
		t.Errorf("deployments: %s", diff)
	}
	if diff := cmp.Diff([]string{"llmd-gateway-api 1 deployed", "llmd-infra 1 deployed", "llmd-modelservice 1 deployed"}, records(t, "life")); diff != "" {
		t.Errorf("records: %s", diff)
	}
	of := ready.Status.ModelService
	if of == nil || of.Revision != 1 || of.Version != "1.0.0" || of.Chart != "stack" || of.LastAction != "Install" ||
		of.LastActionResult != "deployed" || of.LastActionTime == nil || !strings.HasPrefix(of.Digest, "sha256:") || len(of.Objects) < 3 {
		t.Errorf("status of modelService: %+v", of)
	}
	if ready.Status.Infra.LastActionTime.After(of.LastActionTime.Time) {
		t.Error("modelService was released before infra")
	}
	if message := condition.Find(ready.Status.Conditions, condition.Ready).Message; message != "infra 1.0.0, gatewayAPI 1.0.0 and modelService 1.0.0 are ready" {
		t.Errorf("it says %q", message)
	}
	rests(t)

	if err := kube.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	remove(t, made)
	if left := deployments(t, "life"); left != nil {
		t.Errorf("left: %v", left)
	}
	if left := records(t, "life"); left != nil {
		t.Errorf("left: %v", left)
	}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "life"}, &corev1.Namespace{}); err != nil {
		t.Errorf("the namespace is the user's: %v", err)
	}
}

// rests demands that another look writes nothing and asks nothing.
func rests(t *testing.T) {
	t.Helper()
	current := awaitLlmd(t, isReady)
	wire.Take()
	// An annotation makes the operator look, and says nothing to it.
	before := current.DeepCopy()
	current.Annotations = map[string]string{"example.com/look": current.ResourceVersion}
	if err := kube.Patch(t.Context(), current, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	quiet(t)
	if calls := wire.Take(); len(calls) > 0 {
		t.Errorf("at rest it makes %d requests: %v", len(calls), calls)
	}
}

func TestEachWaitsForTheFormer(t *testing.T) {
	made := resource(t, "order")
	made.Spec.Infra.Values = raw(t, map[string]any{"with": map[string]any{"stuck": true}})
	create(t, made)
	awaitLlmd(t, func(l *componentsv1alpha1.Llmd) string {
		waits := condition.Find(l.Status.Conditions, componentsv1alpha1.ConditionModelServiceReady)
		if l.Status.Infra == nil || l.Status.Infra.Revision != 1 || waits == nil || !strings.Contains(waits.Message, "waits for infra to be ready") {
			return "it doesn't wait"
		}
		return ""
	})
	if got := deployments(t, "order"); len(got) != 1 {
		t.Errorf("made before infra was ready: %v", got)
	}
	change(t, func(s *componentsv1alpha1.LlmdSpec) { s.Infra.Values = nil })
	awaitLlmd(t, isReady)
}

func TestOneIsTurnedOff(t *testing.T) {
	create(t, resource(t, "turned-off"))
	awaitLlmd(t, isReady)
	off := false
	change(t, func(s *componentsv1alpha1.LlmdSpec) { s.GatewayAPI.Enabled = &off })
	awaitLlmd(t, func(l *componentsv1alpha1.Llmd) string {
		if l.Status.GatewayAPI != nil || condition.Find(l.Status.Conditions, componentsv1alpha1.ConditionGatewayAPIReady) != nil || len(l.Status.Releases) != 2 {
			return "it is told of still"
		}
		return isReady(l)
	})
	if diff := cmp.Diff([]string{"infra", "modelservice"}, deployments(t, "turned-off")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"llmd-infra 1 deployed", "llmd-modelservice 1 deployed"}, records(t, "turned-off")); diff != "" {
		t.Errorf("the others were touched: %s", diff)
	}
}

func TestMovesToAnotherNamespace(t *testing.T) {
	create(t, resource(t, "before"))
	awaitLlmd(t, isReady)
	change(t, func(s *componentsv1alpha1.LlmdSpec) { s.Namespace = "after" })
	awaitLlmd(t, func(l *componentsv1alpha1.Llmd) string {
		for _, each := range l.Status.Releases {
			if each.Namespace != "after" {
				return "there is one in " + each.Namespace
			}
		}
		return isReady(l)
	})
	if left := append(deployments(t, "before"), records(t, "before")...); left != nil {
		t.Errorf("left behind: %v", left)
	}
	if got := deployments(t, "after"); len(got) != 3 {
		t.Errorf("moved: %v", got)
	}
}

func TestValuesComeFromEverywhere(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "values"}}
	if err := kube.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	off := false
	made := resource(t, "values")
	made.Spec.GatewayAPI.Enabled, made.Spec.ModelService.Enabled = &off, &off
	made.Spec.Infra.ValuesFrom = []componentsv1alpha1.ValuesReference{{Kind: "Secret", Name: "given"}, {Kind: "ConfigMap", Name: "one", Key: "count", TargetPath: "replicas"}}
	made.Spec.Infra.Values = raw(t, map[string]any{"settings.greeting": "inline"})
	create(t, made)
	awaitLlmd(t, func(l *componentsv1alpha1.Llmd) string {
		if ready := condition.Find(l.Status.Conditions, condition.Ready); ready.Reason != "SourceNotFound" || !strings.Contains(ready.Message, "Secret given in namespace values doesn't exist; create it") {
			return "it doesn't say what it misses"
		}
		return ""
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "values", Name: "given"},
		StringData: map[string]string{"values.yaml": "settings: {greeting: secret}\nimage: registry.example.com/from-secret:v1\n"}}
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "values", Name: "one"}, Data: map[string]string{"count": "2"}}
	for _, each := range []client.Object{secret, one} {
		if err := kube.Create(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
	awaitLlmd(t, isReady)
	workload := theDeployment(t, "values")
	if *workload.Spec.Replicas != 2 || workload.Spec.Template.Spec.Containers[0].Image != "registry.example.com/from-secret:v1" {
		t.Errorf("made with %d replicas of %s", *workload.Spec.Replicas, workload.Spec.Template.Spec.Containers[0].Image)
	}
	one.Data["count"] = "1"
	if err := kube.Update(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	awaitLlmd(t, func(l *componentsv1alpha1.Llmd) string {
		if l.Status.Infra.Revision != 2 || l.Status.Infra.LastAction != "Upgrade" {
			return "it isn't upgraded"
		}
		return isReady(l)
	})
	if got := *theDeployment(t, "values").Spec.Replicas; got != 1 {
		t.Errorf("%d replicas after the change", got)
	}
}

func theDeployment(t *testing.T, namespace string) *appsv1.Deployment {
	t.Helper()
	var list appsv1.DeploymentList
	if err := kube.List(t.Context(), &list, client.InNamespace(namespace)); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d deployments: %v", len(list.Items), err)
	}
	return &list.Items[0]
}

func TestGoesBackFromABadUpgrade(t *testing.T) {
	off := false
	made := resource(t, "back")
	made.Spec.GatewayAPI.Enabled, made.Spec.ModelService.Enabled = &off, &off
	create(t, made)
	awaitLlmd(t, isReady)
	change(t, func(s *componentsv1alpha1.LlmdSpec) {
		s.Infra.Version, s.Infra.Timeout = "1.1.0", "3s"
		s.Infra.Values = raw(t, map[string]any{"with": map[string]any{"stuck": true}})
	})
	back := awaitLlmd(t, func(l *componentsv1alpha1.Llmd) string {
		if ready := condition.Find(l.Status.Conditions, condition.Ready); ready.Reason != "RolledBack" || !condition.IsTrue(l.Status.Conditions, condition.Stalled) {
			return "it isn't back"
		}
		return ""
	})
	if of := back.Status.Infra; of.Version != "1.0.0" || of.LastAction != "Rollback" || of.Revision != 3 {
		t.Errorf("status: %+v", of)
	}
	change(t, func(s *componentsv1alpha1.LlmdSpec) { s.Infra.Values, s.Infra.Timeout = nil, "30s" })
	good := awaitLlmd(t, isReady)
	if good.Status.Infra.Version != "1.1.0" {
		t.Errorf("version %s after the spec was mended", good.Status.Infra.Version)
	}
}

func TestDriftIsPutBack(t *testing.T) {
	off := false
	made := resource(t, "drift")
	made.Spec.GatewayAPI.Enabled, made.Spec.ModelService.Enabled = &off, &off
	create(t, made)
	awaitLlmd(t, isReady)
	workload := theDeployment(t, "drift")
	changed := workload.DeepCopy()
	changed.Spec.Template.Spec.Containers[0].Image = "registry.example.com/other:v9"
	if err := kube.Patch(t.Context(), changed, client.MergeFrom(workload)); err != nil {
		t.Fatal(err)
	}
	bed.Await(t, kube, changed, &appsv1.DeploymentList{}, func(d *appsv1.Deployment) string {
		if image := d.Spec.Template.Spec.Containers[0].Image; image != workload.Spec.Template.Spec.Containers[0].Image {
			return "its image is " + image
		}
		return ""
	})
	if err := kube.Delete(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	bed.Await(t, kube, changed, &appsv1.DeploymentList{}, func(d *appsv1.Deployment) string {
		if d.UID == workload.UID || d.DeletionTimestamp != nil {
			return "it isn't made again"
		}
		return ""
	})
	awaitLlmd(t, isReady)
}

// TestGoesTheOtherWay: what serves models goes before what it stands on. A part of it
// that someone holds shows the moment between.
func TestGoesTheOtherWay(t *testing.T) {
	made := resource(t, "teardown")
	made.Spec.ModelService.Timeout = "5m"
	create(t, made)
	awaitLlmd(t, isReady)
	var list appsv1.DeploymentList
	err := kube.List(t.Context(), &list, client.InNamespace("teardown"), client.MatchingLabels{"app.kubernetes.io/component": "modelservice"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d Deployments of modelservice, %v", len(list.Items), err)
	}
	held := &list.Items[0]
	hold := func(finalizers string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": `+finalizers+`}}`))
		if err := kube.Patch(context.Background(), held, patch); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { hold("null") })
	hold(`["example.com/held"]`)
	if err := kube.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	awaitLlmd(t, func(l *componentsv1alpha1.Llmd) string {
		if ready := condition.Find(l.Status.Conditions, condition.Ready); !strings.Contains(ready.Message, "waiting until Deployment/"+held.Name+" is gone") {
			return "it doesn't say what it waits for"
		}
		return ""
	})
	if diff := cmp.Diff([]string{"gateway-api", "infra"}, deployments(t, "teardown")); diff != "" {
		t.Errorf("while modelservice goes: %s", diff)
	}
	hold("null")
	remove(t, made)
	if left := append(deployments(t, "teardown"), records(t, "teardown")...); left != nil {
		t.Errorf("left behind: %v", left)
	}
}
