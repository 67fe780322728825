// Package platformstack kills the operator after single writes of a PlatformStack's
// life: its creation with hooks and a pull secret, its upgrade and its deletion. The
// world must end as it does without the fault, and a deleted stack must leave no
// release behind. Writes that are refused or whose answers are lost may make a release
// fail; then one retry must mend it.
package platformstack

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/faults/story"
)

const name = "life"

// manifests is a directory with a definition, a Deployment and a ConfigMap.
func manifests(t *testing.T, image string) string {
	t.Helper()
	dir := t.TempDir()
	text := strings.ReplaceAll(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: faults.platform.example.com}
spec:
  group: platform.example.com
  names: {kind: Fault, plural: faults, singular: fault, listKind: FaultList}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: server}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec: {serviceAccountName: server, containers: [{name: main, image: IMAGE}]}
`, "IMAGE", image)
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func stackOf(dir, namespace string) *platformv1alpha1.PlatformStack {
	made := &platformv1alpha1.PlatformStack{}
	text, err := yaml.YAMLToJSON([]byte(strings.NewReplacer("DIR", dir, "NAMESPACE", namespace).Replace(`
pullSecrets: [{name: pull, namespace: default}]
components:
- name: server
  namespace: NAMESPACE
  source: {manifests: {path: DIR}}
  hooks:
    before:
    - {name: first, apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {a: b}}]}}
    after:
    - {name: mark, annotate: {apiVersion: v1, kind: ConfigMap, namespace: NAMESPACE, name: first, annotations: {example.com/kept: "yes"}, keep: true}}
`)))
	if err == nil {
		err = json.Unmarshal(text, &made.Spec)
	}
	if err != nil {
		panic(err)
	}
	made.Name = name
	return made
}

// spec makes the stack of a story in a namespace.
type spec func(namespace string) *platformv1alpha1.PlatformStack

func life(first, second spec) story.Story {
	return story.Story{
		Controllers: []string{"platformstack"},
		Beside:      beside,
		Resource:    func(namespace string) client.Object { return first(namespace) },
		Steps: []story.Step{
			{Name: "create", Writes: 9, By: 2, Missing: unready, Do: func(p *story.Place) {
				secret := &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)}}
				secret.Namespace, secret.Name = "default", "pull"
				if err := p.User.Create(p.Context(), secret); !apierrors.IsAlreadyExists(err) {
					p.Must(err)
				}
				p.Must(p.User.Create(p.Context(), first(p.Namespace)))
			}},
			{Name: "upgrade", Writes: 3, Missing: unready, Do: func(p *story.Place) {
				changed := second(p.Namespace)
				p.Must(p.User.Get(p.Context(), client.ObjectKeyFromObject(changed), changed))
				before := changed.DeepCopy()
				changed.Spec = second(p.Namespace).Spec
				p.Must(p.User.Patch(p.Context(), changed, client.MergeFrom(before)))
			}},
			{Name: "delete", Writes: 6, From: 2, By: 2, Missing: story.Left, Do: func(p *story.Place) {
				p.Must(client.IgnoreNotFound(p.User.Delete(p.Context(), first(p.Namespace))))
			}},
		},
	}
}

// beside shows the stack, without revisions and times, and which releases and copies
// of pull secrets there are.
func beside(p *story.Place) bed.World {
	p.Helper()
	world := bed.World{}
	found := &platformv1alpha1.PlatformStack{}
	err := p.User.Get(p.Context(), client.ObjectKey{Name: name}, found)
	p.Must(client.IgnoreNotFound(err))
	if err == nil {
		hooks := []string{}
		for _, each := range found.Status.Components {
			for _, hook := range each.Hooks {
				hooks = append(hooks, hook.Name)
			}
		}
		world["PlatformStack"] = []any{found.Status.Ready, found.Finalizers, len(found.Status.Releases), hooks}
	}
	var secrets corev1.SecretList
	p.Must(p.User.List(p.Context(), &secrets, client.InNamespace(p.Namespace)))
	standing := []string{}
	for i := range secrets.Items {
		switch labels := secrets.Items[i].Labels; {
		case labels["owner"] == "helm" && labels["status"] != "superseded" && labels["status"] != "failed":
			standing = append(standing, labels["name"]+" "+labels["status"])
		case labels["owner"] != "helm":
			standing = append(standing, secrets.Items[i].Name)
		}
	}
	if slices.Sort(standing); len(standing) > 0 {
		world["secrets"] = standing
	}
	return world
}

func unready(p *story.Place, _ bed.World) string {
	p.Helper()
	found := &platformv1alpha1.PlatformStack{}
	p.Must(client.IgnoreNotFound(p.User.Get(p.Context(), client.ObjectKey{Name: name}, found)))
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

// single is a stack of one component.
func single(t *testing.T, image string) spec {
	t.Helper()
	dir := manifests(t, image)
	return func(namespace string) *platformv1alpha1.PlatformStack { return stackOf(dir, namespace) }
}

// TestTheWorldEndsTheSame kills the operator after writes, one at a time: each of the
// upgrade, every other one of the creation and of the deletion.
func TestTheWorldEndsTheSame(t *testing.T) {
	told := life(single(t, "example.com/server:1"), single(t, "example.com/server:2"))
	worlds := told.Worlds(t, api)
	told.Rounds(t, api, worlds, bed.DieAfter)
}
