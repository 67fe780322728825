package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connection is which cluster a command talks to, as kubectl's flags say it.
type connection struct {
	kubeconfig string
	context    string
	namespace  string
}

// register adds the flags to a command.
func (c *connection) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "path of the kubeconfig (default: $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&c.context, "context", "", "context of the kubeconfig (default: its current one)")
	flags.StringVarP(&c.namespace, "namespace", "n", "", "namespace (default: the context's)")
}

// open reads the kubeconfig, or in a pod the pod's own account, and gives the
// configuration of a client and the namespace to work in. It connects to
// nothing.
func (c *connection) open() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("no cluster to talk to: %w; set KUBECONFIG, or start a local one with slipway up", err)
	}
	// The server's own fairness is limit enough.
	config.QPS = -1
	namespace := c.namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, "", fmt.Errorf("read the context's namespace: %w; name one with -n", err)
		}
	}
	return config, namespace, nil
}

// explainConnection puts a failure to reach a cluster, or to find Slipway's
// kinds in it, into a sentence that says what to do. Other errors stay as they
// are.
func explainConnection(config *rest.Config, err error) error {
	var refused *url.Error
	var unknownHost *net.DNSError
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err):
		return fmt.Errorf("the cluster at %s doesn't know this kind: %w; install the operator with slipway install", config.Host, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster at %s doesn't accept the kubeconfig's credentials; log in again", config.Host)
	case errors.As(err, &unknownHost), errors.As(err, &refused), strings.Contains(err.Error(), "connection refused"):
		return fmt.Errorf("the cluster at %s doesn't answer: %w; start it, or choose another with --context", config.Host, err)
	}
	return err
}
