package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	charts "github.com/slipway-dev/slipway/helm-charts"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	helmroom "github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/install"
)

const (
	chartDir = "../../helm-charts/llm-operator"
	patience = time.Minute
)

// world is one namespace of the cluster for one test.
type world struct {
	t         *testing.T
	namespace string
	client    client.Client
	now       func() time.Time

	mu     sync.Mutex
	events []install.Event
}

// newWorld gives a test an empty cluster: nothing of Slipway's is in it.
func newWorld(t *testing.T) *world {
	t.Helper()
	if err := apiextensionsv1.AddToScheme(scheme.Scheme); err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(cluster, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	w := &world{t: t, namespace: name[:min(len(name), 60)], client: direct, now: time.Now}
	t.Cleanup(w.empty)
	return w
}

// empty takes out what a test installed. Cluster-wide objects would be in the
// way of the next.
func (w *world) empty() {
	ctx := context.Background()
	for _, gvk := range kinds(w.t) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := w.client.List(ctx, list); client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
			w.t.Error(err)
		}
		for _, item := range list.Items {
			item.SetFinalizers(nil)
			if err := w.client.Update(ctx, &item); client.IgnoreNotFound(err) != nil {
				w.t.Error(err)
			}
			if err := w.client.Delete(ctx, &item); client.IgnoreNotFound(err) != nil {
				w.t.Error(err)
			}
		}
	}
	if _, err := w.installer().Uninstall(ctx, install.Removal{DeleteDefinitions: true, Timeout: patience}); err != nil {
		w.t.Errorf("clean up: %v", err)
	}
}

// kinds are the kinds of the embedded definitions.
func kinds(t *testing.T) []schema.GroupVersionKind {
	t.Helper()
	files, err := fs.Glob(charts.Files, charts.CRDs+"/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("definitions: %v, %v", files, err)
	}
	list := []schema.GroupVersionKind{}
	for _, file := range files {
		content, err := fs.ReadFile(charts.Files, file)
		if err != nil {
			t.Fatal(err)
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(content, &definition); err != nil {
			t.Fatal(err)
		}
		list = append(list, schema.GroupVersionKind{
			Group: definition.Spec.Group, Version: definition.Spec.Versions[0].Name, Kind: definition.Spec.Names.Kind,
		})
	}
	return list
}

func (w *world) installer() *install.Installer {
	w.t.Helper()
	installer, err := install.New(cluster, w.namespace, w.now, func(event install.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, event)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return installer
}

// told says whether an event was told whose text contains a part.
func (w *world) told(part string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.events, func(event install.Event) bool { return strings.Contains(event.Text, part) })
}

func (w *world) install(options install.Options) (helmroom.Release, error) {
	w.t.Helper()
	options.Timeout = patience
	return w.installer().Install(w.t.Context(), options)
}

func (w *world) mustInstall(options install.Options) helmroom.Release {
	w.t.Helper()
	release, err := w.install(options)
	if err != nil {
		w.t.Fatal(err)
	}
	return release
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	found := &appsv1.Deployment{}
	if err := w.client.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: install.Release}, found); err != nil {
		w.t.Fatal(err)
	}
	return found
}

// documents decodes YAML documents into objects by kind and name.
func documents(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	objects := map[string]map[string]any{}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if object == nil {
			continue
		}
		u := &unstructured.Unstructured{Object: object}
		objects[u.GetKind()+"/"+u.GetName()] = object
	}
	return objects
}

func TestInstallIsWhatHelmInstalls(t *testing.T) {
	w := newWorld(t)
	release := w.mustInstall(install.Options{Wait: true})
	if release.Revision != 1 || release.Status != "deployed" {
		t.Errorf("release %+v", release)
	}
	for _, part := range []string{"namespace " + w.namespace + " created", fmt.Sprintf("definitions: %d created", len(crds(t))), "installed (revision 1)", "deployment llm-operator ready (1 of 1)"} {
		if !w.told(part) {
			t.Errorf("nobody was told %q: %v", part, w.events)
		}
	}

	var listed []struct{ Name, Status, Chart string }
	if err := json.Unmarshal([]byte(mustHelm(t, "list", "-n", w.namespace, "-o", "json")), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed) != 1 || listed[0].Name != "llm-operator" || listed[0].Status != "deployed" || listed[0].Chart != "llm-operator-0.1.0" {
		t.Errorf("helm list sees %+v", listed)
	}

	rendered := mustHelm(t, "template", "llm-operator", chartDir, "-n", w.namespace)
	if diff := cmp.Diff(documents(t, rendered), documents(t, release.Manifest)); diff != "" {
		t.Errorf("helm renders other objects (-helm +slipway):\n%s", diff)
	}
}

// crds are the files of the chart's definitions, one for each.
func crds(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(chartDir, "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the chart has no definitions: %v", err)
	}
	return files
}

func TestASecondInstallChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{Wait: true})
	before := w.deployment()
	release := w.mustInstall(install.Options{Wait: true})
	if release.Revision != 2 || !w.told("upgraded (revision 2)") || !w.told(fmt.Sprintf("definitions: %d unchanged", len(crds(t)))) {
		t.Errorf("release %+v, told %v", release, w.events)
	}
	if after := w.deployment(); after.Generation != before.Generation {
		t.Error("the Deployment was changed by the same installation")
	}
	w.mustInstall(install.Options{Image: "registry.example.com:5000/op:v2", Wait: true})
	if image := w.deployment().Spec.Template.Spec.Containers[0].Image; image != "registry.example.com:5000/op:v2" {
		t.Errorf("another image gave %s", image)
	}
}

// TestCommandsOfTheSpecification runs the commands as they are printed, then
// takes over with slipway and goes back to helm.
func TestCommandsOfTheSpecification(t *testing.T) {
	w := newWorld(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if err := w.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(charts.Files, charts.CRDs+"/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files { // kubectl apply -f helm-charts/llm-operator/crds/
		content, err := fs.ReadFile(charts.Files, file)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: "{}"})
		if err := w.client.Create(t.Context(), object, client.FieldOwner("kubectl-client-side-apply")); err != nil {
			t.Fatal(err)
		}
	}
	mustHelm(t, "lint", "--strict", chartDir)
	mustHelm(t, "install", "llm-operator", chartDir, "--namespace", w.namespace)

	if release := w.mustInstall(install.Options{Set: []string{"logLevel=debug"}, Wait: true}); release.Revision != 2 {
		t.Errorf("slipway made revision %d of helm's release", release.Revision)
	}
	mustHelm(t, "upgrade", "llm-operator", chartDir, "--namespace", w.namespace, "--set", "logLevel=warn")
	if args := w.deployment().Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--log-level=warn") {
		t.Errorf("after helm upgrade the arguments are %v", args)
	}
}

// signed lists who owns fields of the operator's Deployment, status left out.
func (w *world) signed() []string {
	w.t.Helper()
	managers := []string{}
	for _, entry := range w.deployment().ManagedFields {
		if entry.Subresource == "" {
			managers = append(managers, entry.Manager+" "+string(entry.Operation))
		}
	}
	slices.Sort(managers)
	return slices.Compact(managers)
}

// TestAClientSideReleaseIsTakenOver upgrades a release as Helm 3 makes it, by
// client-side patches. Fields left to the old way would be nobody's to remove.
func TestAClientSideReleaseIsTakenOver(t *testing.T) {
	w := newWorld(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if err := w.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	mustHelm(t, "install", "llm-operator", chartDir, "--namespace", w.namespace, "--server-side=false", "--set", "nodeSelector.old=yes")
	if diff := cmp.Diff([]string{"helm Update"}, w.signed()); diff != "" {
		t.Fatalf("client-side (-want +got):\n%s", diff)
	}
	w.mustInstall(install.Options{})
	if diff := cmp.Diff([]string{"helm Apply"}, w.signed()); diff != "" {
		t.Errorf("taken over (-want +got):\n%s", diff)
	}
	if selector := w.deployment().Spec.Template.Spec.NodeSelector; len(selector) != 0 {
		t.Errorf("a field that is no longer wanted stays: %v", selector)
	}
}

func TestAnUpgradeBringsNewDefinitions(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{})
	old := &apiextensionsv1.CustomResourceDefinition{}
	name := types.NamespacedName{Name: "llmmodels.llm.example.com"}
	if err := w.client.Get(t.Context(), name, old); err != nil {
		t.Fatal(err)
	}
	short := old.Spec.Names.ShortNames
	old.Spec.Names.ShortNames = []string{"older"}
	if err := w.client.Update(t.Context(), old, client.FieldOwner("kubectl-client-side-apply")); err != nil {
		t.Fatal(err)
	}
	w.mustInstall(install.Options{})
	now := &apiextensionsv1.CustomResourceDefinition{}
	if err := w.client.Get(t.Context(), name, now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(short, now.Spec.Names.ShortNames); diff != "" {
		t.Errorf("short names (-want +got):\n%s", diff)
	}
	if !w.told(fmt.Sprintf("definitions: 1 updated, %d unchanged", len(crds(t))-1)) {
		t.Errorf("told %v", w.events)
	}
}

func TestAFieldThatSomeoneElseTookIsTheirs(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{})
	// Its controller may write the Deployment at the same time.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		deployment := w.deployment()
		deployment.Spec.Template.Spec.Containers[0].Image = "someone/else:v1"
		return w.client.Update(t.Context(), deployment, client.FieldOwner("someone"))
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.install(install.Options{})
	if err == nil || !strings.Contains(err.Error(), "someone") || !strings.Contains(err.Error(), "--force-conflicts") {
		t.Errorf("the error names no manager or no way out: %v", err)
	}
	if image := w.deployment().Spec.Template.Spec.Containers[0].Image; image != "someone/else:v1" {
		t.Errorf("the field was taken over: %s", image)
	}
	w.mustInstall(install.Options{ForceConflicts: true})
	if image := w.deployment().Spec.Template.Spec.Containers[0].Image; image == "someone/else:v1" {
		t.Error("the field wasn't taken over")
	}
}

func TestAnInterruptedInstallIsTakenUp(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{})
	leavePending(t, w)

	_, err := w.install(install.Options{})
	var pending *helmroom.PendingError
	if !errors.As(err, &pending) || !strings.Contains(err.Error(), "another process is at work") {
		t.Fatalf("a release that is pending: %v", err)
	}
	w.now = func() time.Time { return time.Now().Add(helmroom.PendingGrace + time.Minute) }
	if release := w.mustInstall(install.Options{}); release.Status != "deployed" || release.Revision != 2 {
		t.Errorf("taken up as %+v", release)
	}
}

// leavePending marks the newest revision as a process leaves it that is killed
// while it works.
func leavePending(t *testing.T, w *world) {
	t.Helper()
	secrets := &corev1.SecretList{}
	if err := w.client.List(t.Context(), secrets, client.InNamespace(w.namespace), client.MatchingLabels{"owner": "helm"}); err != nil {
		t.Fatal(err)
	}
	if len(secrets.Items) != 1 {
		t.Fatalf("%d revisions", len(secrets.Items))
	}
	if err := setStatus(&secrets.Items[0], "pending-install"); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Update(t.Context(), &secrets.Items[0]); err != nil {
		t.Fatal(err)
	}
}

func TestAFaultOfTheOperatorIsNamed(t *testing.T) {
	w := newWorld(t)
	started := time.Now()
	_, err := w.install(install.Options{Set: []string{"nodeSelector.disk=fast"}, Wait: true})
	var fault *install.NotReadyError
	if !errors.As(err, &fault) {
		t.Fatalf("got %v", err)
	}
	if fault.Finding.Reason != diagnosis.ReasonNoMatchingNode || !strings.Contains(err.Error(), "--set nodeSelector") {
		t.Errorf("the fault is %q: %v", fault.Finding.Reason, err)
	}
	if waited := time.Since(started); waited > patience/2 {
		t.Errorf("it took %s to say so", waited)
	}
	// The way out that the message names works.
	w.mustInstall(install.Options{Wait: true})
}

func TestAMisspeltValueIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	w := newWorld(t)
	for set, part := range map[string]string{
		"replica=2":      "replica",
		"logLevel=loud":  "logLevel",
		"replicas=many":  "replicas",
		"image.tag=a b":  "tag",
		"no assignment":  "--set no assignment",
		"metrics.port=1": "metrics",
	} {
		if _, err := w.install(install.Options{Set: []string{set}}); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("--set %s: %v", set, err)
		}
	}
	if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: install.Release}, &appsv1.Deployment{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("something was installed: %v", err)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld(t)
	text, err := w.installer().DryRun(t.Context(), install.Options{Image: "a/b:c", Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	objects := documents(t, text)
	for _, want := range []string{
		"Namespace/" + w.namespace, "CustomResourceDefinition/llmmodels.llm.example.com", "CustomResourceDefinition/llmdeployments.llm.example.com",
		"Deployment/llm-operator", "ClusterRole/llm-operator", "ServiceAccount/llm-operator",
	} {
		if objects[want] == nil {
			t.Errorf("%s isn't shown", want)
		}
	}
	if !strings.Contains(text, "image: \"a/b:c\"") {
		t.Error("the image isn't the one that was asked for")
	}
	if err := w.client.Get(t.Context(), types.NamespacedName{Name: w.namespace}, &corev1.Namespace{}); err == nil {
		t.Error("the namespace was created")
	}
	if err := w.client.Get(t.Context(), types.NamespacedName{Name: "llmmodels.llm.example.com"}, &apiextensionsv1.CustomResourceDefinition{}); err == nil {
		t.Error("a definition was created")
	}
}
