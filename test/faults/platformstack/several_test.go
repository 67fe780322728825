package platformstack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/platformstack"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/faults/story"
)

// several is a stack with two more components: one beside the first, with a hook, and
// one that depends on both, in a namespace of its own.
func several(t *testing.T, image string) spec {
	t.Helper()
	dir, more := manifests(t, image), t.TempDir()
	account := strings.ReplaceAll("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: other, annotations: {image: IMAGE}}\n", "IMAGE", image)
	if err := os.WriteFile(filepath.Join(more, "all.yaml"), []byte(account), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(namespace string) *platformv1alpha1.PlatformStack {
		made := stackOf(dir, namespace)
		text, err := yaml.YAMLToJSON([]byte(strings.NewReplacer("DIR", more, "NAMESPACE", namespace).Replace(`
- {name: above, namespace: NAMESPACE-second, dependsOn: [server, beside], source: {manifests: {path: DIR}}}
- name: beside
  namespace: NAMESPACE
  source: {manifests: {path: DIR}}
  hooks: {after: [{name: last, apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: last}, data: {a: b}}]}}]}
`)))
		var components []platformv1alpha1.Component
		if err == nil {
			err = json.Unmarshal(text, &components)
		}
		if err != nil {
			panic(err)
		}
		made.Spec.Components = append(made.Spec.Components, components...)
		return made
	}
}

// TestSeveral disturbs the life of a stack of several components: the operator dies
// in the middle of each step, answers are lost, and writes refused.
func TestSeveral(t *testing.T) {
	told := life(several(t, "example.com/server:1"), several(t, "example.com/server:2"))
	told.Second = true
	for i, each := range []story.Step{{Writes: 30, From: 12, By: 40}, {Writes: 15, From: 8, By: 40}, {Writes: 25, From: 14, By: 40}} {
		step := &told.Steps[i]
		step.Writes, step.From, step.By = each.Writes, each.From, each.By
	}
	worlds := told.Worlds(t, api)
	told.Rounds(t, api, worlds, bed.DieAfter)
	for _, fault := range []bed.Fault{bed.LoseAnswer, bed.Fail, bed.Conflict} {
		t.Run("one retry mends/"+fault.String(), func(t *testing.T) { retried(told.Place(t, api), told, worlds, fault) })
	}
}

// many are the writes of which every other one is broken, at the beginning of each
// step: those of the records, of the pull secrets and of the first releases.
const many = 16

// retried breaks writes of each step. Helm tries none again, so a revision may fail,
// and then the user is told so and asks for another.
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
	found := &platformv1alpha1.PlatformStack{}
	err := p.User.Get(p.Context(), client.ObjectKey{Name: name}, found)
	p.Must(client.IgnoreNotFound(err))
	return err == nil && condition.IsCurrent(found.Status.Conditions, condition.Stalled, found.Generation)
}

func again(p *story.Place, why string) {
	p.Helper()
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, platformstack.AnnotationRetry, why)
	stack := &platformv1alpha1.PlatformStack{}
	stack.Name = name
	p.Must(p.User.Patch(p.Context(), stack, client.RawPatch(types.MergePatchType, []byte(body))))
}
