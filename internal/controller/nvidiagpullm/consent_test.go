package nvidiagpullm

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// TestWeigh: a namespace's own resources may always act in it, others where it
// says so, and only those who may have a say.
func TestWeigh(t *testing.T) {
	for name, test := range map[string]struct {
		from, allowed string
		may           bool
		rivals        string
	}{
		"its own":                 {"team", "", true, "team"},
		"nobody is allowed":       {"guest", "", false, "team"},
		"allowed":                 {"guest", "guest", true, "team guest"},
		"among others":            {"guest", "a, guest ,b", true, "team guest"},
		"others are":              {"guest", "a,guest2", false, "team"},
		"everybody is":            {"guest", "*", true, "team guest"},
		"its own, guests allowed": {"team", "guest", true, "team guest"},
	} {
		t.Run(name, func(t *testing.T) {
			f := someFacts(infrav1.ActionInstall, func(f *facts) { f.resource.Namespace = test.from })
			for _, namespace := range []string{"team", "guest"} {
				f.rivals = append(f.rivals, &infrav1.NvidiaGpuLlm{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
			}
			f.weigh(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: "team", Annotations: map[string]string{nvidiagpullm.AnnotationAllowFrom: test.allowed},
			}})
			if test.may != (f.refused == nil) || !test.may && !condition.IsWait(f.refused) {
				t.Errorf("refused: %v", f.refused)
			}
			if !test.may && !strings.Contains(f.refused.Error(), "writes guest among the names in its annotation slipway.dev/allow-from") {
				t.Errorf("it doesn't say what to write: %v", f.refused)
			}
			var heard []string
			for _, rival := range f.rivals {
				heard = append(heard, rival.Namespace)
			}
			if got := strings.Join(heard, " "); got != test.rivals {
				t.Errorf("those who have a say are of %q, want %q", got, test.rivals)
			}
		})
	}
}
