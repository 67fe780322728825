package bundle

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/cli/bundle"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/registry"
	source "github.com/slipway-dev/slipway/internal/registry/bundle"
	"github.com/slipway-dev/slipway/test/bed"
)

const deadline = 90 * time.Second

const (
	ours      = "../../../internal/cli/bundle/testdata/dolphin"
	published = "../../../../shared/bundles"
)

// noConsole leaves out what only OpenShift has a kind for.
const noConsole = `.apiVersion | startswith("console.openshift.io/")`

func TestEveryObjectIsAccepted(t *testing.T) {
	for name, request := range map[string]bundle.Request{
		"dolphin":               {Reference: ours, Namespace: "sea", Certificates: bundle.SelfSigned},
		"cert-manager-operator": {Reference: filepath.Join(published, "cert-manager-operator"), Namespace: "cert-manager-operator"},
		"sail-operator":         {Reference: filepath.Join(published, "sail-operator"), Namespace: "istio-system"},
		"lws-operator":          {Reference: filepath.Join(published, "lws-operator"), Namespace: "openshift-lws-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(request.Reference); err != nil {
				t.Skip("the published bundles aren't beside this checkout")
			}
			request.CreateNamespace = true
			request.Exclude = []string{noConsole}
			maker := bundle.Maker{Source: source.Source{Registry: registry.New(registry.Options{Now: time.Now})}, Progress: io.Discard, Now: time.Now}
			objects, err := maker.Extract(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			apply(t, objects)
			if name == "dolphin" {
				runs(t, "sea", "dolphin", "helper")
			}
		})
	}
}

// apply sends all objects as kubectl apply --server-side --force-conflicts does, in
// their order: charts of the same bundles may be there.
func apply(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	kube := bed.Client(t, server)
	for _, each := range objects {
		sent := client.ApplyConfigurationFromUnstructured(each.DeepCopy())
		if err := kube.Apply(t.Context(), sent, client.FieldOwner("test"), client.ForceOwnership); err != nil {
			t.Errorf("%s: %v", object.Of(each).Display(), err)
		}
	}
}

// runs waits until Deployments are available, which stands for an operator that has
// all that its pods need: account, certificate.
func runs(t *testing.T, namespace string, names ...string) {
	t.Helper()
	for _, name := range names {
		await(t, "apps/v1", "Deployment", types.NamespacedName{Namespace: namespace, Name: name}, func(obj *unstructured.Unstructured) bool {
			count, _, _ := unstructured.NestedInt64(obj.Object, "status", "availableReplicas")
			return count > 0
		})
	}
}

// await waits until an object is as wanted.
func await(t *testing.T, version, kind string, name types.NamespacedName, wanted func(*unstructured.Unstructured) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(version)
	list.SetKind(kind + "List")
	watch, err := bed.Client(t, server).Watch(ctx, list, client.InNamespace(name.Namespace), client.MatchingFields{"metadata.name": name.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if obj, is := event.Object.(*unstructured.Unstructured); is && wanted(obj) {
			return
		}
	}
	t.Errorf("%s %s isn't ready after %s", kind, name, deadline)
}
