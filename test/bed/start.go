package bed

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/test/controlplane"
)

// startDeadline allows for the first start, which compiles Kubernetes.
const startDeadline = 30 * time.Minute

// goneDeadline bounds the wait for a deletion.
const goneDeadline = time.Minute

// Run runs a package's tests against one API server of their own, and gives the
// exit code.
func Run(m *testing.M, use func(*rest.Config) error, opts ...controlplane.Option) int {
	ctx, cancel := context.WithTimeout(context.Background(), startDeadline)
	defer cancel()
	plane, err := controlplane.New(ctx, opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start a control plane:", err)
		return 1
	}
	defer plane.Stop()
	if err := use(plane.Config()); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the control plane:", err)
		return 1
	}
	return m.Run()
}

// Client makes a client that caches nothing.
func Client(t testing.TB, config *rest.Config) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := controller.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	made, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// AwaitGone waits until an object isn't there any more.
func AwaitGone(t testing.TB, c client.WithWatch, obj client.Object, list client.ObjectList) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), goneDeadline)
	defer cancel()
	watcher, err := c.Watch(ctx, list, client.InNamespace(obj.GetNamespace()))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for {
		err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			t.Fatalf("%s isn't gone: %v", obj.GetName(), err)
		}
		select {
		case <-watcher.ResultChan():
		case <-ctx.Done():
			t.Fatalf("%s is still there after %s", obj.GetName(), goneDeadline)
		}
	}
}
