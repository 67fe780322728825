package nvidiagpullm

import (
	"errors"
	"net/http/httptest"
	"os"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/cluster/component"
	"github.com/slipway-dev/slipway/test/ollama/pods"
	"github.com/slipway-dev/slipway/test/ollama/registry"
	"github.com/slipway-dev/slipway/test/ollama/server"
)

// TestFullVolume: a server whose disk is full is told of with the way out, and
// goes on by itself when there is room.
func TestFullVolume(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a small file system needs root")
	}
	if _, err := server.Program(t.Context()); errors.Is(err, component.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	serving := httptest.NewServer(registry.New(registry.Usual()))
	t.Cleanup(serving.Close)
	ns := namespace(t)
	servers := pods.Serve(t, kube, ns, pods.WithDisk(1<<20, 800<<10)) // a model has 341 KiB
	made := cpu(ns, "demo")
	made.Spec.Model, made.Spec.InsecureRegistry = serving.Listener.Addr().String()+"/library/tinyllama", true
	create(t, made)
	full := await(t, ns, "demo", says("NoSpace",
		"set spec.persistentStorage and spec.storageSize, or free disk space on the node; it goes on when there is"))
	if full.Status.Phase != infrav1.PhaseInProgress || full.Status.ModelLoaded != "" {
		t.Errorf("without room: phase %s, %q is loaded", full.Status.Phase, full.Status.ModelLoaded)
	}
	servers.MakeRoom()
	await(t, ns, "demo", says("Serving", "library/tinyllama:latest is loaded and answers in pod gpu-llm-pod"))
}
