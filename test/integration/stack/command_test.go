package stack

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-dev/slipway/internal/cli"
)

// laptop is a user's machine: a kubeconfig, and the command.
type laptop struct {
	t          *testing.T
	dir        string
	kubeconfig string
}

func newLaptop(t *testing.T) *laptop {
	t.Helper()
	l := &laptop{t: t, dir: t.TempDir()}
	l.kubeconfig = filepath.Join(l.dir, "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: server.Host, CertificateAuthorityData: server.CAData}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: server.CertData, ClientKeyData: server.KeyData, Token: server.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, l.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return l
}

// write writes a file and gives its path.
func (l *laptop) write(name, text string) string {
	l.t.Helper()
	name = filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return name
}

// slipway runs `slipway stack` without a cluster.
func (l *laptop) slipway(args ...string) (out, progress string, ok bool) {
	l.t.Helper()
	return l.main(append([]string{"stack"}, args...)...)
}

// main runs the command and gives what it wrote, results and progress, and
// whether it succeeded. The command writes to the process's own streams.
func (l *laptop) main(args ...string) (out, progress string, ok bool) {
	l.t.Helper()
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	read := [2]func() string{}
	for i, stream := range []**os.File{&os.Stdout, &os.Stderr} {
		file, err := os.CreateTemp(l.dir, "stream")
		if err != nil {
			l.t.Fatal(err)
		}
		defer file.Close()
		*stream = file
		read[i] = func() string {
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				l.t.Error(err)
			}
			text, err := io.ReadAll(file)
			if err != nil {
				l.t.Error(err)
			}
			return string(text)
		}
	}
	code := cli.Main(args)
	return read[0](), read[1](), code == 0
}

// stack is slipway with the kubeconfig.
func (l *laptop) stack(args ...string) (out, progress string, ok bool) {
	l.t.Helper()
	return l.slipway(append(args, "--kubeconfig", l.kubeconfig)...)
}

// must is stack where it must succeed.
func (l *laptop) must(args ...string) (out, progress string) {
	l.t.Helper()
	out, progress, ok := l.stack(args...)
	if !ok {
		l.t.Fatalf("slipway stack %v: %s", args, progress)
	}
	return out, progress
}
