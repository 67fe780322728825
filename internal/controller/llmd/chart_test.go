package llmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/lru"

	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/registry"
	"github.com/slipway-dev/slipway/internal/render/llmd"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

// TestAnOldResolutionIsTold: a constraint that can't be looked up stands as it was
// resolved, which makes nothing unready and is told until the repository is back.
func TestAnOldResolutionIsTold(t *testing.T) {
	down := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch {
		case down:
			http.Error(w, "down", http.StatusServiceUnavailable)
		case request.URL.Path == "/index.yaml":
			fmt.Fprint(w, "apiVersion: v1\nentries:\n  stack:\n  - {name: stack, version: 1.0.0, urls: [stack-1.0.0.tgz]}\n")
		default:
			_, _ = w.Write(fixture.Archive(t, "1.0.0"))
		}
	}))
	t.Cleanup(server.Close)
	at := now.Time
	r := &Reconciler{Charts: registry.New(registry.Options{Now: func() time.Time { return at }}), charts: lru.New(maxCharts)}
	look := func() stand {
		t.Helper()
		each := standing(llmd.Infra, good)
		each.wanted.Chart = llmd.Chart{Repository: server.URL, Name: fixture.Name, Version: "~1.0"}
		if _, err := r.chart(t.Context(), &each); err != nil {
			t.Fatal(err)
		}
		if outcome := each.outcome(); outcome.Verdict != condition.Done {
			t.Errorf("it isn't done: %s", outcome.Message)
		}
		return each
	}
	fresh := look()
	if told := fresh.outcome().Message; strings.Contains(told, "newer") {
		t.Errorf("it says %q", told)
	}
	if after := (&result{releases: []stand{fresh}}).again(); after != lookForVersions {
		t.Errorf("a constraint is looked up again after %s", after)
	}
	down, at = true, at.Add(lookForVersions+time.Second)
	old := look()
	if told := old.outcome().Message; !strings.Contains(told, `a newer version that "~1.0" allows may be out`) || !strings.Contains(told, server.URL) {
		t.Errorf("while the repository is down it says %q", told)
	}
	if after := (&result{releases: []stand{old}}).again(); after != lookForCharts {
		t.Errorf("a repository that is down is asked again after %s", after)
	}
	down, at = false, at.Add(2*lookForVersions)
	back := look()
	if told := back.outcome().Message; strings.Contains(told, "newer") {
		t.Errorf("when the repository is back it says %q", told)
	}
}
