package helm

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/release"
)

func TestLabelsArePutOnEveryObjectAndNothingElseChanges(t *testing.T) {
	const chart = `# Source: a/templates/a.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  labels: &shared
    app.kubernetes.io/part-of: "old"
    own: "1"
data:
  number: "1e6"
  answer: "yes"
  big: 12345678901234567890
  text: |
    two
    lines
---
apiVersion: v1
kind: Service
metadata:
  name: b
  labels: *shared
---
# nothing here
---
apiVersion: v1
kind: List
items:
- kind: Secret
  metadata: {name: c}
---
kind: Bare
`
	got, err := labeler{"app.kubernetes.io/part-of": "llm-d", "z": "true"}.Run(bytes.NewBufferString(chart))
	if err != nil {
		t.Fatal(err)
	}
	const want = `# Source: a/templates/a.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  labels: &shared
    app.kubernetes.io/part-of: llm-d
    own: "1"
    z: "true"
data:
  number: "1e6"
  answer: "yes"
  big: 12345678901234567890
  text: |
    two
    lines
---
apiVersion: v1
kind: Service
metadata:
  name: b
  labels:
    app.kubernetes.io/part-of: llm-d
    own: "1"
    z: "true"
---
apiVersion: v1
kind: List
items:
  - kind: Secret
    metadata: {name: c, labels: {app.kubernetes.io/part-of: llm-d, z: "true"}}
---
kind: Bare
metadata:
  labels:
    app.kubernetes.io/part-of: llm-d
    z: "true"
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// record makes a stored revision with labels.
func record(number int, status release.Status, backTo int, labels map[string]string) Stored {
	return Stored{Revision: release.Revision{Number: number, Status: status, RolledBackTo: backTo}, labels: labels}
}

// TestMarksAreOfOneRevision: Helm copies labels from a revision to the next and
// to a rollback; a mark counts only for the revision that it names.
func TestMarksAreOfOneRevision(t *testing.T) {
	made := map[string]string{labelConfig: "a", labelRevision: "1", labelSettled: "1"}
	next := map[string]string{labelConfig: "b", labelRevision: "2", labelFault: "2-late"}
	list := []Stored{
		record(5, release.Deployed, 4, next),                      // by hand, to a revision of somebody else's
		record(4, release.Superseded, 0, next),                    // helm upgrade by hand, labels copied
		record(3, release.Superseded, 1, made),                    // a rollback after a fault of ours
		record(2, release.Superseded, 0, next),                    // ours, too late
		record(1, release.Superseded, 0, made),                    // ours, good
		record(6, release.PendingUpgrade, 0, map[string]string{}), // another helm's
		record(7, release.Failed, 0, map[string]string{labelConfig: "c", labelRevision: "7", labelFault: "7-interrupted", labelSettled: "1"}),
	}
	Complete(list)
	type facts struct {
		Config                                  string
		Ours, Settled, Faulted, Late, Interrupt bool
	}
	got := map[int]facts{}
	for _, r := range list {
		got[r.Number] = facts{r.Config, r.Ours, r.Settled, r.Faulted, r.Late, r.Interrupted}
	}
	want := map[int]facts{
		1: {Config: "a", Ours: true, Settled: true},
		2: {Config: "b", Ours: true, Faulted: true, Late: true},
		3: {Config: "a", Ours: true},
		4: {}, 5: {}, 6: {},
		7: {Config: "c", Ours: true, Faulted: true, Interrupt: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	alone := []Stored{record(9, release.Deployed, 1, made)} // what it repeats is no longer kept
	Complete(alone)
	if alone[0].Config != "a" || !alone[0].Ours {
		t.Errorf("a rollback alone: %+v", alone[0].Revision)
	}
}

// TestALeashEndsRequests: when the context ends, one under way ends, and no other
// is sent.
func TestALeashEndsRequests(t *testing.T) {
	arrived, calls := make(chan struct{}), 0
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		calls++
		close(arrived)
		<-request.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	config := leashed(ctx, &rest.Config{Host: server.URL})
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-arrived
		cancel()
	}()
	for range 2 {
		response, err := client.Get(server.URL + "/api?watch=true")
		if err == nil {
			_ = response.Body.Close()
			t.Error("a request outlived its leash")
		}
	}
	if calls != 1 {
		t.Errorf("%d requests were sent", calls)
	}
}

func TestTimesOfReleasesAreBounded(t *testing.T) {
	releases := NewReleases(&rest.Config{}, "x", "", nil)
	for _, timeout := range []time.Duration{0, MaxTimeout + 1} {
		if err := releases.Test(t.Context(), "x", timeout); err == nil || !strings.Contains(err.Error(), "out of bounds") {
			t.Errorf("%s: %v", timeout, err)
		}
	}
}

func TestValuesAreNotChanged(t *testing.T) {
	given := map[string]any{"a": map[string]any{"b": []any{map[string]any{"c": 1}}}}
	copied := values(given)
	copied["a"].(map[string]any)["b"].([]any)[0].(map[string]any)["c"] = 2
	if diff := cmp.Diff(map[string]any{"a": map[string]any{"b": []any{map[string]any{"c": 1}}}}, given); diff != "" {
		t.Error(diff)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("e30=")) // {}
	f.Add([]byte("H4sIAAAAAAAAA6tWKi5JLClWsqpWSs7PK0nNK1GyUqquBQCvTzjQGAAAAA=="))
	f.Fuzz(func(t *testing.T, packed []byte) {
		if rel, err := decode(packed); err == nil && rel == nil {
			t.Error("neither a release nor an error")
		}
	})
}
