// Package platformstack tests PlatformStack against a real API server, with the
// controller running in the test, charts in a directory, bundles and manifests
// that the tests write, and pods on a simulated node.
package platformstack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
)

// deadline bounds what a test's end waits for.
const deadline = 90 * time.Second

var (
	config *rest.Config
	// platformDefinition is the kind of definitions.
	platformDefinition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	kube               client.WithWatch
	// wire is what the operator reaches the API server through.
	wire = &bed.Wire{}
)

func TestMain(m *testing.M) {
	os.Exit(bed.Operated(m, wire, func(given *rest.Config) (err error) {
		config = given
		kube, err = bed.NewClient(config)
		return err
	}, "platformstack"))
}

// stackOf reads a spec as it would be written in a manifest.
func stackOf(t *testing.T, name, spec string) *platformv1alpha1.PlatformStack {
	t.Helper()
	made := &platformv1alpha1.PlatformStack{}
	made.Name = name
	text, err := yaml.YAMLToJSONStrict([]byte(spec))
	if err == nil {
		err = json.Unmarshal(text, &made.Spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// create makes a stack, which goes with the test and takes its releases along.
func create(t *testing.T, name, spec string) *platformv1alpha1.PlatformStack {
	t.Helper()
	made := stackOf(t, name, spec)
	if err := kube.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, made) })
	return made
}

// remove deletes a stack and waits until it is gone. The garbage collector learns of
// a new kind within half a minute, and until then ends no object of it.
func remove(t *testing.T, stack *platformv1alpha1.PlatformStack) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*deadline) // also after the test's own has ended
	defer cancel()
	if err := kube.Delete(ctx, stack); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	left := &platformv1alpha1.PlatformStack{}
	if !polled(ctx, func() bool { return apierrors.IsNotFound(kube.Get(ctx, client.ObjectKeyFromObject(stack), left)) }) {
		t.Fatalf("it is still there:\n%s%v", told(left), left.Status.Releases)
	}
}

// await waits for a stack to be as wanted.
func await(t *testing.T, name string, missing func(*platformv1alpha1.PlatformStack) string) *platformv1alpha1.PlatformStack {
	t.Helper()
	stack := &platformv1alpha1.PlatformStack{}
	stack.Name = name
	return bed.Await(t, kube, stack, &platformv1alpha1.PlatformStackList{}, func(s *platformv1alpha1.PlatformStack) string {
		if s.Status.ObservedGeneration != s.Generation {
			return "it hasn't been looked at"
		}
		if why := missing(s); why != "" {
			return why + "\n" + told(s)
		}
		return ""
	})
}

func isReady(s *platformv1alpha1.PlatformStack) string {
	if condition.IsCurrent(s.Status.Conditions, condition.Ready, s.Generation) {
		return ""
	}
	return "not ready"
}

// isIn waits for components to be in phases, as "name phase".
func isIn(wanted ...string) func(*platformv1alpha1.PlatformStack) string {
	return func(s *platformv1alpha1.PlatformStack) string {
		var are []string
		for _, each := range s.Status.Components {
			are = append(are, each.Name+" "+string(each.Phase))
		}
		if strings.Join(are, ", ") == strings.Join(wanted, ", ") {
			return ""
		}
		return strings.Join(are, ", ")
	}
}

// told is what a stack says of itself.
func told(s *platformv1alpha1.PlatformStack) string {
	text := ""
	for _, c := range s.Status.Conditions {
		text += fmt.Sprintf("  %s %s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, c := range s.Status.Components {
		text += fmt.Sprintf("  %s %s %s %s: %s %v\n", c.Name, c.Version, c.Phase, c.Reason, c.Message, c.Hooks)
	}
	return text
}

func component(s *platformv1alpha1.PlatformStack, name string) platformv1alpha1.ComponentStatus {
	for _, each := range s.Status.Components {
		if each.Name == name {
			return each
		}
	}
	return platformv1alpha1.ComponentStatus{}
}

// change edits a stack's spec.
func change(t *testing.T, name string, edit func(*platformv1alpha1.PlatformStack)) {
	t.Helper()
	stack := &platformv1alpha1.PlatformStack{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: name}, stack); err != nil {
		t.Fatal(err)
	}
	before := stack.DeepCopy()
	edit(stack)
	if err := kube.Patch(t.Context(), stack, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// written puts a text into a file of a directory.
func written(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// deployment is a manifest of a Deployment.
func deployment(name, image string) string {
	return strings.NewReplacer("NAME", name, "IMAGE", image).Replace(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: main, image: IMAGE}]}
`)
}

// definition is a manifest of a custom resource definition with a field a, and
// others.
func definition(group string, fields ...string) string {
	properties := "a: {type: string}"
	for _, each := range fields {
		properties += ", " + each + ": {type: string}"
	}
	return strings.NewReplacer("GROUP", group, "FIELDS", properties).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.GROUP}
spec:
  group: GROUP
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {FIELDS}}}}}
`)
}

// operator is the directory of a bundle with one Deployment and one definition.
func operator(t *testing.T, name, version, group string, fields ...string) string {
	t.Helper()
	dir := t.TempDir()
	written(t, dir, "manifests/crd.yaml", definition(group, fields...))
	return written(t, dir, "manifests/csv.yaml", strings.NewReplacer("NAME", name, "VERSION", version, "GROUP", group).Replace(`
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: NAME.vVERSION}
spec:
  displayName: "{{ NAME }}"
  version: VERSION
  installModes: [{type: AllNamespaces, supported: true}]
  customresourcedefinitions: {owned: [{name: things.GROUP, kind: Thing, version: v1}]}
  install:
    strategy: deployment
    spec:
      clusterPermissions:
      - serviceAccountName: NAME
        rules: [{apiGroups: [GROUP], resources: [things], verbs: [get, list, watch]}]
      deployments:
      - name: NAME
        spec:
          selector: {matchLabels: {app: NAME}}
          template:
            metadata: {labels: {app: NAME}}
            spec: {serviceAccountName: NAME, containers: [{name: manager, image: "example.com/NAME:VERSION"}]}
`))
}

// awaitPass waits until the operator has made a pass over some stack: it ends with
// a look for copies of pull secrets.
func awaitPass(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	made := polled(ctx, func() bool {
		for _, call := range wire.Take() {
			if call.Method == "GET" && call.Path == "/api/v1/secrets" {
				return true
			}
			if call.Writes() {
				t.Errorf("at rest it writes: %v", call)
			}
		}
		return false
	})
	if !made {
		t.Fatal("no pass was made")
	}
}

// polled looks again and again until something is so, and reports whether it is.
func polled(ctx context.Context, is func() bool) bool {
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) { return is(), nil }) == nil
}

// gone deletes objects when a test has ended, so that it can run again. It is called
// before the stack is created, which then goes first.
func gone(t *testing.T, objects ...client.Object) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		for _, each := range objects {
			err := kube.Delete(ctx, each)
			isGone := func() bool { return apierrors.IsNotFound(kube.Get(ctx, client.ObjectKeyFromObject(each), each)) }
			if client.IgnoreNotFound(err) != nil || !polled(ctx, isGone) {
				t.Errorf("%s is still there: %v", each.GetName(), err)
			}
		}
	})
}

// defined is the definition of a group's Thing, by its name.
func defined(group string) client.Object {
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(platformDefinition)
	made.SetName("things." + group)
	return made
}
