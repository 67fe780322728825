package install_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slipway-dev/slipway/test/controlplane"
)

// cluster is the control plane that the tests of this package share, with one
// simulated node. They share its definitions too, so that none runs in parallel.
var cluster *rest.Config

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	plane, err := controlplane.New(ctx, controlplane.WithNodes(1))
	if err != nil {
		fmt.Fprintln(os.Stderr, "start a control plane:", err)
		return 1
	}
	defer plane.Stop()
	cluster = plane.Config()
	log.SetLogger(logr.Discard())
	return m.Run()
}

// buildHelm compiles the helm command at the version of the SDK, from the
// module of the tools into bin/tools, and returns its path. Compiled packages
// stay in Go's cache.
var buildHelm = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs("../../bin/tools/helm")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", path, "helm.sh/helm/v4/cmd/helm")
	build.Dir = "../../tools"
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build helm: %w\n%s", err, output)
	}
	return path, nil
})

// helm runs the helm command against the cluster and returns what it prints.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := buildHelm()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	command := exec.CommandContext(t.Context(), path, args...)
	command.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG="+kubeconfig(t, cluster), "HELM_NAMESPACE=")
	output, err := command.CombinedOutput()
	return string(output), err
}

// mustHelm is helm for what has to succeed.
func mustHelm(t *testing.T, args ...string) string {
	t.Helper()
	output, err := helm(t, args...)
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, output)
	}
	return output
}

// kubeconfig writes the access to a cluster to a file.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["test"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	file.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	file.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}
