package llmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/cli/status"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/release"
)

// TestSaysWhyPodsDoNotGetReady: an Llmd has the sentence about its releases' pods
// that any other resource has, the command line says the same, and both name the
// values as what to change.
func TestSaysWhyPodsDoNotGetReady(t *testing.T) {
	made := alone(t, "troubles", "")
	made.Spec.Infra.Timeout = "5m"
	made.Spec.Infra.Values = raw(t, map[string]any{"with": map[string]any{"stuck": true}})
	create(t, made)
	const nowhere = "1/1 nodes don't match the pods' node selector there-is=no-such-node; label a node, or change nodeSelector in spec.infra.values"
	awaitSaid(t, nowhere)
	commandSays(t, nowhere)
	change(t, func(s *componentsv1alpha1.LlmdSpec) { s.Infra.Values = nil })
	awaitLlmd(t, isReady)
}

// awaitSaid waits until the release's condition and the summary say something.
func awaitSaid(t *testing.T, words string) {
	t.Helper()
	awaitLlmd(t, func(l *componentsv1alpha1.Llmd) string {
		of := condition.Find(l.Status.Conditions, componentsv1alpha1.ConditionInfraReady)
		if of == nil || of.Reason != release.ReasonNotReady || !strings.Contains(of.Message, words) {
			return "it doesn't say " + words
		}
		return says(release.ReasonNotReady, of.Message)(l)
	})
}

// commandSays demands that slipway status says it, too.
func commandSays(t *testing.T, sentence string) {
	t.Helper()
	reader := &status.Reader{Client: kube, Mapper: kube.RESTMapper(), Now: time.Now, Notice: func(err error) { t.Error(err) }}
	tree, err := reader.Tree(t.Context(), componentsv1alpha1.GroupVersion.WithKind("Llmd"), client.ObjectKey{Name: componentsv1alpha1.LlmdName})
	if err != nil {
		t.Fatal(err)
	}
	var below []string
	for _, child := range tree.Children {
		text, err := json.Marshal(child)
		if err != nil {
			t.Fatal(err)
		}
		below = append(below, string(text))
	}
	quoted, err := json.Marshal(sentence)
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(below, "\n"); !strings.Contains(all, strings.Trim(string(quoted), `"`)) {
		t.Errorf("slipway status doesn't say %q below the Llmd:\n%s", sentence, all)
	}
}
