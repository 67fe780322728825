package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/controller"
	"github.com/slipway-dev/slipway/test/controlplane"
)

// startDeadline allows for the first start, which compiles Kubernetes.
const startDeadline = 30 * time.Minute

// Run runs a package's tests against one API server of their own, and gives the
// exit code.
func Run(m *testing.M, use func(*rest.Config) error, opts ...controlplane.Option) int {
	return onPlane(func(config *rest.Config) int {
		if err := use(config); err != nil {
			fmt.Fprintln(os.Stderr, "prepare the control plane:", err)
			return 1
		}
		return m.Run()
	}, opts...)
}

// onPlane does something with a control plane, which ends with it.
func onPlane(do func(*rest.Config) int, opts ...controlplane.Option) int {
	ctx, cancel := context.WithTimeout(context.Background(), startDeadline)
	defer cancel()
	plane, err := controlplane.New(ctx, opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start a control plane:", err)
		return 1
	}
	defer plane.Stop()
	return do(plane.Config())
}

// NewClient makes a client that caches nothing and knows definitions, too.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(controller.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// Client is NewClient for a test.
func Client(t testing.TB, config *rest.Config) client.WithWatch {
	t.Helper()
	made, err := NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
