package nvidiagpullm

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/test/ollama/model"
	"github.com/slipway-dev/slipway/test/ollama/pods"
	"github.com/slipway-dev/slipway/test/ollama/registry"
	"github.com/slipway-dev/slipway/test/ollama/server"
)

// TestStatusEndsWhatInstallBegan: a fetch that is under way ends when the resource
// is to tell only, and with it the transfer from the registry.
func TestStatusEndsWhatInstallBegan(t *testing.T) {
	if _, err := server.Program(t.Context()); errors.Is(err, component.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	models := registry.New(registry.Usual())
	models.Set(registry.Faults{BytesPerSecond: 2000}) // minutes
	began, ended := make(chan struct{}, 16), make(chan struct{}, 16)
	serving := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		transfer := strings.HasSuffix(request.URL.Path, model.First().Data) && request.Header.Get("Range") != ""
		if transfer {
			began <- struct{}{}
			defer func() { ended <- struct{}{} }()
		}
		models.ServeHTTP(w, request)
	}))
	t.Cleanup(serving.Close)
	ns := namespace(t)
	pods.Serve(t, kube, ns)
	made := cpu(ns, "demo")
	made.Spec.Model, made.Spec.InsecureRegistry = serving.Listener.Addr().String()+"/library/tinyllama", true
	create(t, made)
	soon(t, "the transfer begins", began)
	await(t, ns, "demo", func(d *infrav1.NvidiaGpuLlm) string {
		if !condition.IsTrue(d.Status.Conditions, infrav1.ConditionPulling) {
			return "it isn't fetched: " + d.Status.Message
		}
		return ""
	})
	patch(t, ns, "demo", `{"spec":{"action":"status"}}`)
	soon(t, "the transfer ends", ended)
	told := await(t, ns, "demo", says("Serving", "pod gpu-llm-pod serves; no model is in memory, 0 are stored"))
	if condition.Find(told.Status.Conditions, infrav1.ConditionPulling) != nil {
		t.Error("a fetch is still told")
	}
}

// soon waits for an event.
func soon(t *testing.T, what string, happens <-chan struct{}) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(deadline):
		t.Fatalf("after %s: %s: not yet", deadline, what)
	}
}
